"""Values between ranks: which are the same on every rank, and which are parts of a sum.

A linear operator whose weight is cut along what it sums over gives each rank a part of the
result, and a sum over the ranks makes it whole. Nothing in one rank's tiles says how a weight was
cut; what does decide it here is

- that a residual beside it is for one rank alone: compiled out, or asked for by `my_gpu_id`;
- that the same operator in another layer is followed by a sum over the ranks, or this one is;
- that what it multiplies comes from an attention kernel for that many ranks (`…_TP8_…`), which
  has its own share of the heads.

Where none of them does, nothing is said. A rank alone in its world has nothing to sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.facts.words import ADD, ALL_REDUCE, PUT, QUANTIZE, Form, Pick, forms
from mirage_gate.patterns import later

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.wiring import Group

State = Literal["partial", "whole"]

_LINEAR, _NORM, _EMBEDDING, _COPY, _MERGE = "linear", "rms_norm", "embedding", "copy", "_merge"
_TENSOR_PARALLEL = later(r"_TP(\d+)_")


class Linear(msgspec.Struct, frozen=True, eq=False):
    """One linear operator. ``weight`` is its weight's name, ``role`` that name in every layer.

    ``residual`` is the input that is added, None where it has none; ``reads`` whether its body
    reads that, ``guarded`` whether it asks for the rank first. ``evidence`` says why its result
    is a part of a sum over the ranks; empty where that is not known.
    """

    operator: Operator
    weight: str
    role: str
    residual: int | None
    reads: bool
    guarded: bool
    summed: bool
    evidence: str = ""


class Unsummed(msgspec.Struct, frozen=True, eq=False):
    """A part of a sum that ``reader`` takes, in input ``slot``, for the whole."""

    linear: Linear
    reader: Operator
    group: Group
    slot: int


class Partials:
    """What a rank's values are to the other ranks'."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self.ranks = facts.cuda.world_size or 1

    @cached_property
    def linears(self) -> dict[int, Linear]:
        """The linear operators by number, each with what is known of it."""
        found: dict[int, Linear] = {}
        if self.ranks == 1:
            return found
        for operator in self._facts.layers.operators:
            form = self._forms.get(operator.number)
            if form is not None and form.operator == _LINEAR and len(form.operands) > 1:
                found[operator.number] = self._linear(operator, form)
        summed = {self._likeness(one) for one in found.values() if one.summed}
        return {
            number: msgspec.structs.replace(one, evidence=self._evidence(one, summed))
            for number, one in found.items()
        }

    @cached_property
    def states(self) -> dict[int, State]:
        """What each operator's result is, by number, where that is known."""
        known: dict[int, State] = {}
        for operator in self._facts.layers.operators:
            form = self._forms.get(operator.number)
            state = self._state(operator, form, known) if form is not None else None
            if state is not None:
                known[operator.number] = state
        return known

    def unsummed(self) -> Iterator[Unsummed]:
        """Give the parts of sums that are read as if they were whole."""
        partial = {number for number, one in self.linears.items() if one.evidence}
        if not partial:
            return
        for operator in self._facts.layers.operators:
            for form in self._statements.get(operator.number, ()):
                if form.operator in (ALL_REDUCE, PUT, ADD, _COPY):
                    continue
                for index in [term[0][1] for term in form.operands if term[0][0] == "i"]:
                    for source in self._parts(operator, index):
                        one = self.linears[source]
                        yield Unsummed(one, operator, operator.groups[0], index)

    def resummed(self) -> Iterator[tuple[Operator, Operator]]:
        """Give (sum over the ranks, where its operand was made) of what is whole already."""
        if self.ranks == 1:
            return
        of = {operator.number: operator for operator in self._facts.layers.operators}
        for operator in of.values():
            form = self._forms.get(operator.number)
            if form is None or form.operator != ALL_REDUCE:
                continue
            sources = self._sources(operator, form.operands[0][0][1])
            again = [number for number in sources if number == operator.number]
            if again or (sources and all(self.states.get(n) == "whole" for n in sources)):
                yield operator, of[(again or sources)[0]]

    def whole(self, linear: Linear) -> bool:
        """Whether what a linear operator adds is the same on every rank."""
        if linear.residual is None:
            return False
        sources = self._sources(linear.operator, linear.residual)
        return bool(sources) and all(self.states.get(number) == "whole" for number in sources)

    # -- one operator ------------------------------------------------------------------------

    @cached_property
    def _statements(self) -> dict[int, tuple[Form, ...]]:
        """The statements of each operator that is known, by number."""
        found: dict[int, tuple[Form, ...]] = {}
        for operator in self._facts.layers.operators:
            known = forms(self._facts.task_type(operator.task_type).name)
            if known:
                found[operator.number] = known
        return found

    @cached_property
    def _forms(self) -> dict[int, Form]:
        """What each operator does last: that makes its result."""
        return {number: known[-1] for number, known in self._statements.items()}

    @cached_property
    def _readers(self) -> dict[int, list[tuple[int, int]]]:
        """Who reads what each operator makes: (operator, input), by number."""
        readers: dict[int, list[tuple[int, int]]] = {}
        for number, slots in self._facts.values.uses.items():
            for (is_input, index), uses in slots.items():
                if is_input:
                    for source in {v.operator.number for use in uses for v, _ in use.seen}:
                        readers.setdefault(source, []).append((number, index))
        return readers

    def _sources(self, operator: Operator, index: int) -> list[int]:
        """The operators whose results an input reads; none if it reads anything else too."""
        facts = self._facts
        names = operator.slots.get((True, index), ())
        if any(name.loaded and not facts.wiring.producers(name.name) for name in names):
            return []  # the host fills it
        uses = facts.values.uses_in(operator, (True, index))
        if any(use.before for use in uses):
            return []
        return sorted({value.operator.number for use in uses for value, _ in use.seen})

    def _linear(self, operator: Operator, form: Form) -> Linear:
        facts = self._facts
        names = list(operator.slots.get((True, form.operands[1][0][1]), ()))
        group = operator.groups[0]
        residual: int | None = None
        if form.added and form.added[0][0][0] == "i":
            index = form.added[0][0][1]
            carried = operator.slots.get((True, index), {})
            if carried and all(name.name != SENTINEL for name in carried):
                residual = index
        branch = facts.wiring.branch(group.task_type, group.variant)
        reads = residual is not None and facts.wiring.use(group, True, residual)[1]
        return Linear(
            operator=operator,
            weight=min((name.name for name in names), default=""),
            role=min((name.role for name in names if name.layer is not None), default=""),
            residual=residual,
            reads=reads,
            guarded=reads and branch is not None and "my_gpu_id" in branch.runtime,
            summed=operator.number in self._summed,
        )

    @cached_property
    def _summed(self) -> set[int]:
        """The operators whose results go into a sum over the ranks, added to or as they are."""
        operators = self._facts.layers.operators
        wave = [
            source
            for number, form in self._forms.items()
            if form.operator == ALL_REDUCE
            for is_input, index in operators[number].slots
            if is_input
            for source in self._sources(operators[number], index)
        ]
        seen: set[int] = set()
        while wave:
            number = wave.pop()
            if number not in seen:
                seen.add(number)
                wave += self._passed(number)
        return seen

    def _passed(self, number: int) -> list[int]:
        """The operators whose results an operator hands on: what it adds, or copies."""
        form = self._forms.get(number)
        if form is None:
            return []
        terms = form.added + (form.operands if form.operator in (ADD, _COPY) else ())
        operator = self._facts.layers.operators[number]
        slots = [term[0][1] for term in terms if term[0][0] == "i"]
        return [source for index in slots for source in self._sources(operator, index)]

    def _likeness(self, one: Linear) -> tuple[object, ...] | None:
        """What the same operators in other layers have in common: type, weight, sizes."""
        form = self._forms[one.operator.number]
        group = one.operator.groups[0]
        index = form.operands[1][0][1]
        if not one.role or index >= len(group.inputs):
            return None
        tile = self._facts.graph.tensors[group.inputs[index]]
        return one.operator.task_type, one.role, tile.dims, tile.strides

    def _evidence(self, one: Linear, summed: set[tuple[object, ...] | None]) -> str:
        if one.residual is not None and one.guarded:
            return "its residual is added on one rank alone"
        if one.residual is not None and not one.reads:
            return "its residual is left to another rank"
        if one.summed:
            return "it is summed as well"
        if (likeness := self._likeness(one)) is not None and likeness in summed:
            return "in other layers it is summed"
        kernel = self._attention(one)
        return f"{kernel} gives each rank its own heads" if kernel else ""

    def _attention(self, one: Linear) -> str:
        """Name the attention kernel for this many ranks whose result an operator multiplies."""
        number = one.operator.number
        side, index = self._forms[number].operands[0][0]
        operators = self._facts.layers.operators
        for _ in range(3):  # quantized on the way, or merged from parts
            sources = self._sources(operators[number], index) if side == "i" else []
            if len(sources) != 1:
                return ""
            number = sources[0]
            name = self._facts.task_type(operators[number].task_type).name
            found = _TENSOR_PARALLEL.search(name)
            if found and int(found[1]) == self.ranks:
                return name
            form = self._forms.get(number)
            if form is None or not (form.operator == QUANTIZE or form.operator.endswith(_MERGE)):
                return ""
            side, index = form.operands[0][0]
        return ""

    def _state(self, operator: Operator, form: Form, known: dict[int, State]) -> State | None:
        if form.operator == ALL_REDUCE:
            return "whole"
        if form.operator == _LINEAR:
            one = self.linears.get(operator.number)
            return "partial" if one is not None and one.evidence else None
        if form.operator == _EMBEDDING:
            words = {
                statement.operator
                for reader, _ in self._readers.get(operator.number, ())
                for statement in self._statements.get(reader, ())
            }
            return "whole" if _NORM in words and not words & {ALL_REDUCE, PUT} else None
        if form.operator not in (ADD, _COPY, _NORM):
            return None
        terms = form.operands[:1] if form.operator == _NORM else form.operands + form.added
        states = [self._read(operator, term[0], known) for term in terms]
        if form.operator != _NORM and "partial" in states:
            return "partial"
        return "whole" if states and all(state == "whole" for state in states) else None

    def _read(self, operator: Operator, pick: Pick, known: dict[int, State]) -> State | None:
        sources = self._sources(operator, pick[1]) if pick[0] == "i" else []
        states = {known.get(number) for number in sources}
        return states.pop() if len(states) == 1 else None

    def _parts(self, operator: Operator, index: int) -> Iterator[int]:
        """Give the linear operators whose parts of a sum an input reads, straight or added to."""
        found = (self._part_in.get(number) for number in self._sources(operator, index))
        yield from dict.fromkeys(number for number in found if number is not None)

    @cached_property
    def _part_in(self) -> dict[int, int]:
        """A linear operator whose part of a sum is in each operator's result, by number."""
        found: dict[int, int] = {}
        for number in range(len(self._facts.layers.operators)):
            one = self.linears.get(number)
            if one is not None and one.evidence:
                found[number] = number
                continue
            inside = (found.get(source) for source in self._passed(number))
            part = next((source for source in inside if source is not None), None)
            if part is not None:
                found[number] = part
        return found
