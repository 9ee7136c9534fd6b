"""A rank's operators as a program: each statement once for every time it runs, all resolved.

Built from the values (:mod:`mirage_gate.facts.values`): an operand is what the slot sees, and
never the name of the buffer that it sees it in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import LOADED, SENTINEL
from mirage_gate.facts.words import (
    ALL_REDUCE,
    MERGE,
    PARTS,
    PUT,
    QUANTIZE,
    ZEROS,
    Form,
    Pick,
    forms,
    word,
)
from mirage_gate.patterns import later

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Name, Operator
    from mirage_gate.facts.values import Place, Value

_LAYER = later(r"(?:^model[._])?(?:(?<=[._])|^)layers?[._]N[._]")
_SCALE = later(r"[._]?(?:weight[._])?scales?(?:_inv)?$")


class Atom(msgspec.Struct, frozen=True, order=True):
    """One source of an operand: result ``result`` of step ``step``, or a tensor by ``name``.

    ``layer`` is the layer of the tensor where its name has one. ``before``: what that step
    left in the iteration before.
    """

    step: int = -1
    result: int = 0
    name: str = ""
    layer: int | None = None
    before: bool = False


class Operand(msgspec.Struct, frozen=True):
    """What one operand sees: its sources, and those of its scales where they are not its own.

    No source: the operand is not there.
    """

    atoms: tuple[Atom, ...] = ()
    scales: tuple[Atom, ...] = ()


class Result(msgspec.Struct, frozen=True):
    """One result of a step. ``host`` names the tensor that the host reads it from, if it does."""

    host: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One operator at one time. ``layer`` is its layer, None outside of the layers.

    ``own`` are results that have no name because they go with the one before: scales.
    """

    operator: str
    operands: tuple[Operand, ...]
    added: tuple[Operand, ...]
    results: tuple[Result, ...]
    own: frozenset[int] = frozenset()
    layer: int | None = None
    first: int = -1
    tasks: int = 0
    types: tuple[str, ...] = ()

    @property
    def sees(self) -> tuple[Operand, ...]:
        """All that it reads."""
        return self.operands + self.added


class Program(msgspec.Struct, frozen=True):
    """The steps of one iteration, in an order in which they can run."""

    steps: tuple[Step, ...]


def program_of(facts: RankFacts) -> Program:
    """Read a rank's graph back as a program."""
    return _Reader(facts).program()


class _Reader:
    def __init__(self, facts: RankFacts) -> None:
        self.facts = facts
        self.steps: list[Step] = []
        self.at: dict[tuple[int, Place], tuple[int, int]] = {}
        self.names: dict[str, Name] = {}
        for name in facts.layers.names:
            self.names.setdefault(name.name, name)

    def program(self) -> Program:
        facts = self.facts
        operators = [
            operator
            for operator in facts.layers.operators
            if operator.slots or not facts.task_type(operator.task_type).frame
        ]
        rows = {operator.number: self._forms(operator) for operator in operators}
        operators = self._ordered(operators)
        # Where every result will be, before anybody asks: a read may see the last iteration's.
        number = 0
        for operator in operators:
            for form in rows[operator.number]:
                for place, term in enumerate(form.results):
                    for at, pick in enumerate(term):
                        if pick[0] in "io":
                            self.at[operator.number, _place(pick)] = (number, place + at)
                number += 1
        for operator in operators:
            names: dict[str, int] = {}
            for form in rows[operator.number]:
                self._add(operator, form, names)
        return Program(tuple(_joined(self.steps)))

    def _forms(self, operator: Operator) -> tuple[Form, ...]:
        """Give the statements of an operator, with a result for everything that it gives."""
        kind = self.facts.task_type(operator.task_type)
        known = forms(kind.name)
        written = [value.place for value in self.facts.values.written.get(operator.number, ())]
        if known is not None:
            named = {_place(p) for form in known for term in form.results for p in term}
            more = [p for p in written if p not in named and self._given(operator, p)]
            if not more:
                return known
            last = known[-1]
            extra = tuple(((_pick(place),)) for place in more)
            return (*known[:-1], msgspec.structs.replace(last, results=last.results + extra))
        reads = sorted(self.facts.values.uses.get(operator.number, {}), key=lambda p: (not p[0], p))
        width = 1 + max((index for is_input, index in operator.slots if is_input), default=-1)
        operands = [("i", index) for index in range(width) if (True, index) in reads]
        results = [p for p in written if self._given(operator, p) or p not in reads]
        return (
            Form(
                tuple((_pick(place),) for place in results),
                word(kind.name),
                tuple((pick,) for pick in operands),
            ),
        )

    def _given(self, operator: Operator, place: Place) -> bool:
        """Whether what a slot writes is a result: no cache, and somebody or the host takes it."""
        values = [v for v in self.facts.values.written[operator.number] if v.place == place]
        reads = place in self.facts.values.uses.get(operator.number, {})
        return any(value.read or not place[0] for value in values) and not (
            reads and all(self._loaded(value.tensor) for value in values)
        )

    def _loaded(self, tensor: str) -> bool:
        declaration = self.facts.declared.get(tensor)
        return declaration is not None and declaration.kind in LOADED

    def _ordered(self, operators: list[Operator]) -> list[Operator]:
        """Put every writer in front of its readers; those that nothing tells apart, by task id."""
        before: dict[int, set[int]] = {operator.number: set() for operator in operators}
        for number, slots in self.facts.values.uses.items():
            if number in before:
                before[number] = {
                    value.operator.number
                    for uses in slots.values()
                    for use in uses
                    for value, _ in use.seen
                    if value.operator.number != number and value.operator.number in before
                }
        if all(max(earlier, default=-1) < number for number, earlier in before.items()):
            return operators
        after: dict[int, list[int]] = {}
        for number, earlier in before.items():
            for other in earlier:
                after.setdefault(other, []).append(number)
        of = {operator.number: operator for operator in operators}
        left = {number: len(earlier) for number, earlier in before.items()}
        ready = [number for number, count in left.items() if not count]
        heapify(ready)
        ordered: list[int] = []
        while ready:
            number = heappop(ready)
            ordered.append(number)
            for other in after.get(number, ()):
                left[other] -= 1
                if not left[other]:
                    heappush(ready, other)
        ordered += [number for number in of if left[number]]  # each sees a part of the other
        return [of[number] for number in ordered]

    def _add(self, operator: Operator, form: Form, names: dict[str, int]) -> None:
        kind = self.facts.task_type(operator.task_type)
        results: list[Result] = []
        own = set()
        for term in form.results:
            for at, pick in enumerate(term):
                if at:
                    own.add(len(results))
                results.append(self._result(operator, pick))
        number = len(self.steps)
        names.update({pick[0]: number for (pick, *_) in form.results if pick[0] not in "io"})
        added = tuple(self._operand(operator, term, names) for term in form.added)
        self.steps.append(
            Step(
                operator=form.operator,
                operands=tuple(self._operand(operator, term, names) for term in form.operands),
                added=tuple(operand for operand in added if operand.atoms),
                results=tuple(results),
                own=frozenset(own),
                layer=operator.place,
                first=operator.first,
                tasks=operator.tasks,
                types=(kind.name,),
            )
        )

    def _result(self, operator: Operator, pick: Pick) -> Result:
        if pick[0] in "io":
            for value in self.facts.values.written.get(operator.number, ()):
                if value.place == _place(pick) and self._loaded(value.tensor):
                    return Result(self._bare(value.tensor))
        return Result()

    def _operand(
        self, operator: Operator, term: tuple[Pick, ...], names: dict[str, int]
    ) -> Operand:
        atoms, *scales = (self._atoms(operator, pick, names) for pick in term)
        if not scales or _natural(atoms, scales[0]):
            return Operand(atoms)
        return Operand(atoms, scales[0])

    def _atoms(self, operator: Operator, pick: Pick, names: dict[str, int]) -> tuple[Atom, ...]:
        if pick[0] in names and pick[0] not in "io":
            return (Atom(names[pick[0]]),)
        found: dict[Atom, None] = {}
        for use in self.facts.values.uses.get(operator.number, {}).get(_place(pick), ()):
            if use.tensor == SENTINEL:
                continue
            loaded = self._loaded(use.tensor)
            if loaded and (use.before or not use.seen):
                found[self._parameter(use.tensor)] = None
            for value, _ in use.seen:
                at = self.at.get((value.operator.number, value.place))
                if at is not None:
                    found[Atom(*at)] = None
                elif loaded:
                    found[self._parameter(use.tensor)] = None
            if use.before and not loaded:
                found.update(dict.fromkeys(self._before(use.tensor, use.before)))
        return tuple(found)

    def _before(self, tensor: str, cells: int) -> Iterable[Atom]:
        """What an iteration finds in a buffer: what the one before has left there, if anything."""
        left: list[Value] = [v for v in self.facts.values.of(tensor).values if v.left & cells]
        for value in left:
            at = self.at.get((value.operator.number, value.place))
            if at is not None:
                yield Atom(*at, before=True)
        if not left:
            yield Atom(name=f"{self._bare(tensor)}", before=True)

    def _parameter(self, tensor: str) -> Atom:
        name = self.names.get(tensor)
        return Atom(name=self._bare(tensor), layer=name.layer if name else None)

    def _bare(self, tensor: str) -> str:
        """Give a tensor's name less its layer."""
        name = self.names.get(tensor)
        return tensor if name is None or name.layer is None else _LAYER.sub("", name.role, count=1)


def _place(pick: Pick) -> Place:
    return pick[0] == "i", pick[1]


def _pick(place: Place) -> Pick:
    return ("i" if place[0] else "o", place[1])


def _natural(atoms: tuple[Atom, ...], scales: tuple[Atom, ...]) -> bool:
    """Whether scales are those of the very values they stand with."""
    if len(atoms) != len(scales):
        return False
    for atom, scale in zip(atoms, scales, strict=True):
        if atom.name or scale.name:
            if not (
                atom.name
                and atom.layer == scale.layer
                and scale.name != atom.name
                and _SCALE.sub("", scale.name) in (atom.name, re.sub(r"[._]weight$", "", atom.name))
            ):
                return False
        elif (scale.step, scale.result, scale.before) != (atom.step, atom.result + 1, atom.before):
            return False
    return True


def _joined(steps: list[Step]) -> list[Step]:
    """Join what is one operator in two halves, and leave out zeros that are added to."""
    uses: dict[int, int] = {}
    for step in steps:
        for number in {a.step for o in step.sees for a in (*o.atoms, *o.scales) if a.step >= 0}:
            uses[number] = uses.get(number, 0) + 1
    gone: set[int] = set()
    new = list(steps)
    for number, step in enumerate(steps):
        if step.operator.endswith(MERGE) and len(step.operands) == 2:
            source = _single(step.operands[0])
            if source is None or source.result:
                continue
            parts = steps[source.step]
            other = step.operands[1] == Operand((Atom(source.step, 1, before=source.before),))
            name = step.operator.removesuffix(MERGE)
            if other and parts.operator == name + PARTS and uses[source.step] == 1:
                new[number] = _both(parts, step, name, parts.operands)
                gone.add(source.step)
        elif step.operator == ALL_REDUCE and len(step.operands) == 2:
            source = _single(step.operands[1])
            if source is None:
                continue
            put = steps[source.step]
            if put.operator == PUT and put.operands[:1] == step.operands[:1]:
                new[number] = _both(put, step, ALL_REDUCE, step.operands[:1])
                if uses[source.step] == 1:
                    gone.add(source.step)
    for number, step in enumerate(new):
        kept = tuple(o for o in step.added if not _zeros(o, steps))
        if len(kept) < len(step.added):
            new[number] = msgspec.structs.replace(step, added=kept)
    used = {
        atom.step
        for number, step in enumerate(new)
        if number not in gone
        for operand in step.sees
        for atom in (*operand.atoms, *operand.scales)
    }
    gone |= {n for n, step in enumerate(new) if step.operator == ZEROS and n not in used}
    places: dict[int, int] = {}
    for number in range(len(new)):
        if number not in gone:
            places[number] = len(places)
    return [
        msgspec.structs.replace(
            step,
            operands=tuple(_moved(operand, places) for operand in step.operands),
            added=tuple(_moved(operand, places) for operand in step.added),
        )
        for number, step in enumerate(new)
        if number in places
    ]


def _single(operand: Operand) -> Atom | None:
    """The one step that an operand comes from, if it is one of this iteration."""
    if len(operand.atoms) == 1 and operand.atoms[0].step >= 0 and not operand.atoms[0].before:
        return operand.atoms[0]
    return None


def _zeros(operand: Operand, steps: list[Step]) -> bool:
    return bool(operand.atoms) and all(
        atom.step >= 0 and not atom.before and steps[atom.step].operator == ZEROS
        for atom in operand.atoms
    )


def _both(one: Step, other: Step, operator: str, operands: tuple[Operand, ...]) -> Step:
    return msgspec.structs.replace(
        other,
        operator=operator,
        operands=operands,
        first=min(one.first, other.first),
        tasks=one.tasks + other.tasks,
        types=tuple(dict.fromkeys(one.types + other.types)),
    )


def _moved(operand: Operand, places: dict[int, int]) -> Operand:
    def move(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(
            msgspec.structs.replace(atom, step=places[atom.step]) if atom.step in places else atom
            for atom in atoms
            if atom.step < 0 or atom.step in places
        )

    return Operand(move(operand.atoms), move(operand.scales))


__all__ = ["QUANTIZE", "Atom", "Operand", "Program", "Result", "Step", "program_of"]
