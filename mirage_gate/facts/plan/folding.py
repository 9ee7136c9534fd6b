"""A program folded into a plan: names for its values, and layers that are alike but once.

A value's name says what it is, by the operator that makes it and by that operator's weight; the
last value of a layer is ``x``, what the next layer starts from. A name passes on to the next
such value, unless the one that has it is wanted again in its own layer; then the new one is
``h2``. So names depend on nothing but the dataflow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

import msgspec

from mirage_gate.facts.plan.notation import NONE, Block, Plan, Statement, braced, quoted
from mirage_gate.facts.plan.program import Atom, Operand, Program, Step
from mirage_gate.facts.plan.running import are_classes
from mirage_gate.facts.words import ADD, ALL_REDUCE, PUT, ZEROS

_STREAM, _RESIDUAL = "x", "r"
_NAMES = {
    "embedding": (_STREAM,),
    "rms_norm": ("h",),
    "attention": ("a",),
    "mla_attention": ("a",),
    "mla_prefill": ("a",),
    "attention_parts": ("lse", "part"),
    "mla_attention_parts": ("part", "lse"),
    "silu_mul": ("m",),
    "quantize": ("q", "scale"),
    "topk_softmax": ("weights", "routing", "mask"),
    "topk_sigmoid": ("weights", "routing", "mask"),
    "experts": ("e",),
    "weighted_sum": (_RESIDUAL,),
    ADD: (_RESIDUAL,),
    "argmax": ("token",),
    "argmax_parts": ("best", "index"),
    "sample": ("token",),
}
_NO_STREAM = frozenset({ZEROS, PUT})
_TAIL = re.compile(r"[._]?(?:proj|weight|norm|layernorm)(?=$|[._])")
_PREFIX = re.compile(r"^.*[._]?layers?[._]\d+[._]")
_NORMS = re.compile(r"^(?:(?:self_)?attn_)?(q_a|kv_a|q_b|kv_b)[._]?")

_MOST_TRIED = 50
"""So many values may share a base name before numbers are no longer used again."""

Key = tuple[int, int]
"""A value: the step and its result."""


class _Segment(msgspec.Struct):
    """Steps of one layer, or outside of the layers, that stand side by side."""

    layer: int | None
    steps: range


def fold(program: Program) -> Plan:
    """Name the values of a program and fold alike layers."""
    return _Folder(program).plan()


def line_of(program: Program, number: int) -> str:
    """Give one statement of a program as a plan has it, with its layer: ``layer 3: h = …``."""
    row = next(islice(_Folder(program).rows(), number, None))
    layer = program.steps[number].layer
    return str(row) if layer is None else f"layer {layer}: {row}"


def segments(program: Program) -> list[_Segment]:
    """Divide a program where the layer changes."""
    found: list[_Segment] = []
    for number, step in enumerate(program.steps):
        if found and found[-1].layer == step.layer:
            found[-1].steps = range(found[-1].steps.start, number + 1)
        else:
            found.append(_Segment(step.layer, range(number, number + 1)))
    return found


class _Folder:
    def __init__(self, program: Program) -> None:
        self.steps = program.steps
        self.segments = segments(program)
        self.of = [0] * len(self.steps)
        for at, segment in enumerate(self.segments):
            for number in segment.steps:
                self.of[number] = at
        self.last_use: dict[Key, int] = {}
        # The segments that use each value, and the last step of each that does.
        self.users: dict[Key, dict[int, int]] = {}
        self.layers_of: dict[tuple[str, int], set[int | None]] = {}
        for number, step in enumerate(self.steps):
            for atom in _atoms(step):
                if atom.name:
                    if atom.layer is not None:
                        key = (atom.name, atom.layer)
                        self.layers_of.setdefault(key, set()).add(step.layer)
                elif not atom.before:
                    self.last_use[atom.step, atom.result] = number
                    self.users.setdefault((atom.step, atom.result), {})[self.of[number]] = number
        self.tensors = {atom.name for step in self.steps for atom in _atoms(step) if atom.name}
        self.names: dict[Key, str] = {}
        self.many: dict[str, int] = {}
        self.addresses = self._addresses()
        self.streams = {n for segment in self.segments for n in self._stream(segment)}

    def _addresses(self) -> list[str]:
        """Say where each segment is: its layer, or the layer that it comes after."""
        found: list[str] = []
        last = ""
        for segment in self.segments:
            if segment.layer is not None:
                last = str(segment.layer)
                found.append(last)
            else:
                found.append(f"after{last}" if last else "start")
        return found

    def plan(self) -> Plan:
        """Give all of it."""
        every = self.rows()
        rows = [list(islice(every, len(segment.steps))) for segment in self.segments]
        return Plan(tuple(_blocks(self.segments, rows)))

    def rows(self) -> Iterator[Statement]:
        """Give the statement of every step, in order."""
        holder: dict[str, Key] = {}
        for at, segment in enumerate(self.segments):
            for number in segment.steps:
                operands = [self._term(o, number, holder) for o in self.steps[number].operands]
                added = [self._term(o, number, holder) for o in self.steps[number].added]
                results = list(self._bind(number, at, holder))
                yield self._statement(number, results, operands, added)

    def _statement(
        self, number: int, results: list[str], operands: list[str], added: list[str]
    ) -> Statement:
        step = self.steps[number]
        return Statement(
            results=tuple(results),
            operator=step.operator,
            operands=tuple(operands),
            added=tuple(added),
            where=(step.first,),
            tasks=step.tasks,
            types=step.types,
        )

    # -- names -------------------------------------------------------------------------------

    def _stream(self, segment: _Segment) -> set[int]:
        """The steps that make a layer's last value: the last, and what it is the sum of."""
        if segment.layer is None:
            return set()
        last = next(
            (
                number
                for number in reversed(segment.steps)
                if self.steps[number].operator not in _NO_STREAM
                and any(not result.host for result in self.steps[number].results)
            ),
            -1,
        )
        found: set[int] = set()
        while last >= 0 and last not in found:
            found.add(last)
            source = _only(self.steps[last]) if self.steps[last].operator == ALL_REDUCE else None
            last = source if source is not None and source in segment.steps else -1
        return found

    def _bind(self, number: int, at: int, holder: dict[str, Key]) -> Iterator[str]:
        step = self.steps[number]
        bases = self._bases(number)
        for result, (base, host) in enumerate(
            zip(bases, (result.host for result in step.results), strict=True)
        ):
            if result in step.own:
                self.names[number, result] = self.names[number, result - 1]
                continue
            name, count = host or base, 1
            while not host and (self._taken(name, number, at, holder) or name in self.tensors):
                count += 1
                if count > _MOST_TRIED:
                    count = self.many[base] = self.many.get(base, count) + 1
                name = f"{base}{count}"
            holder[name] = (number, result)
            self.names[number, result] = name
            yield quoted(name)

    def _taken(self, name: str, number: int, at: int, holder: dict[str, Key]) -> bool:
        """Whether the value that has a name is wanted again here, or, of its own layer, later."""
        held = holder.get(name)
        if held is None:
            return False
        if held[0] == number:
            return True
        if self.of[held[0]] == at:
            return self.last_use.get(held, -1) > number
        return self.users.get(held, {}).get(at, -1) > number

    def _bases(self, number: int) -> list[str]:
        step = self.steps[number]
        names = list(_NAMES.get(step.operator, ()))
        if step.operator == "linear":
            names = [_RESIDUAL if step.added or self._is_reduced(number) else _weight_name(step)]
        elif step.operator == "rms_norm":
            names = [self._norm_name(step)]
        elif step.operator in (ALL_REDUCE, "copy"):
            source = step.operands[0].atoms[0] if step.operands and step.operands[0].atoms else None
            if source is not None and not source.name:
                names = [re.sub(r"\d+$", "", self.names.get((source.step, source.result), "y"))]
        elif step.operator == "kv_append":
            names = ["kv"] if len(step.results) == 1 else ["c_kv", "k_pe"]
        if not names:
            names = [step.operator]
        while len(names) < len(step.results):
            names.append(names[0])
        if number in self.streams:
            for result, own in enumerate(step.results):
                if not own.host:
                    names[result] = _STREAM
                    break
        return names[: len(step.results)]

    def _is_reduced(self, number: int) -> bool:
        """Whether all that becomes of a step's result is a sum over the ranks."""
        last = self.last_use.get((number, 0), -1)
        return last > number and self.steps[last].operator == ALL_REDUCE

    def _norm_name(self, step: Step) -> str:
        """A norm inside a projection keeps the projection's name."""
        weight = _weight(step)
        source = step.operands[0].atoms[0] if step.operands and step.operands[0].atoms else None
        within = _NORMS.match(weight)
        if within and source is not None and not source.name:
            name = re.sub(r"\d+$", "", self.names.get((source.step, source.result), ""))
            if name.startswith(within[1]):
                return name
        return "h"

    # -- operands ----------------------------------------------------------------------------

    def _term(self, operand: Operand, number: int, holder: dict[str, Key]) -> str:
        if not operand.atoms:
            return NONE
        term = braced(sorted({self._atom(atom, number, holder) for atom in operand.atoms}))
        if operand.scales:
            scales = sorted({self._atom(atom, number, holder) for atom in operand.scales})
            if len(scales) == 1 and len(operand.atoms) == 1:
                return f"{term}:{scales[0]}"
            return braced(
                [*sorted({self._atom(a, number, holder) for a in operand.atoms}), *scales]
            )
        return term

    def _atom(self, atom: Atom, number: int, holder: dict[str, Key]) -> str:
        layer = self.steps[number].layer
        if atom.name:
            if atom.before:
                return f"{quoted(atom.name)}@before"
            if atom.layer is None or atom.layer == layer:
                return quoted(atom.name)
            shared = len(self.layers_of[atom.name, atom.layer] - {atom.layer}) > 1
            return f"{quoted(atom.name)}@{_where(atom.layer, layer, shared)}"
        key = (atom.step, atom.result)
        name = self.names.get(key)
        if atom.before or name is None:
            # It is made later on: only the name that it will have is missing.
            return f"{quoted(name or self._bases(atom.step)[atom.result])}@before"
        held = holder.get(name)
        if held == key or (held is not None and held == self._named(key)):
            return quoted(name)
        other = self.segments[self.of[atom.step]]
        if other.layer is None or layer is None:
            return f"{quoted(name)}@{self.addresses[self.of[atom.step]]}"
        shared = (
            len({self.segments[at].layer for at in self.users.get(key, ())} - {other.layer}) > 1
        )
        return f"{quoted(name)}@{_where(other.layer, layer, shared)}"

    def _named(self, key: Key) -> Key:
        """The result whose name a result goes by: scales go by their values'."""
        step, result = key
        return (step, result - 1) if result in self.steps[step].own else key


def _where(layer: int, here: int | None, shared: bool) -> str:
    if shared or here is None or layer == here:
        return str(layer)
    return f"{layer - here:+d}"


def _atoms(step: Step) -> Iterator[Atom]:
    for operand in step.sees:
        yield from operand.atoms
        yield from operand.scales


def _only(step: Step) -> int | None:
    atoms = step.operands[0].atoms if step.operands else ()
    return atoms[0].step if len(atoms) == 1 and atoms[0].step >= 0 else None


def _weight(step: Step) -> str:
    """The name of the first weight that a step takes."""
    for operand in step.operands:
        for atom in operand.atoms:
            if atom.name:
                return atom.name
    return ""


def _weight_name(step: Step) -> str:
    """Name what a projection gives by its weights: ``qkv`` of ``qkv_proj``."""
    weights = [a.name for operand in step.operands[1:2] for a in operand.atoms if a.name]
    stems = []
    for weight in weights:
        name = _PREFIX.sub("", weight)
        stem = _TAIL.sub("", name)
        stems.append(re.sub(r"\W", "_", f"{stem}_out" if stem == name else stem))
    if "lm_head_out" in stems or "lm_head" in stems:
        return "logits"
    if not stems:
        return "y"
    name = "".join(stems) if all(len(stem) == 1 for stem in stems) else "_".join(stems)
    return name if re.match(r"[A-Za-z_]", name) and name != NONE else f"y_{name}"


def _blocks(found: Sequence[_Segment], rows: Sequence[list[Statement]]) -> Iterator[Block]:
    """Gather layers that are alike.

    Where layers run in ascending order a class is one block, else only those side by side are.
    """
    at = 0
    while at < len(found):
        if found[at].layer is None:
            yield Block((), tuple(rows[at]))
            at += 1
            continue
        end = at
        while end < len(found) and found[end].layer is not None:
            end += 1
        numbers = [found[i].layer or 0 for i in range(at, end)]
        ascending = all(a < b for a, b in pairwise(numbers))
        classes: dict[object, list[int]] = {}
        last, run = None, 0
        for i in range(at, end):
            key = tuple([str(statement) for statement in rows[i]])
            run += not ascending and key != last
            last = key
            classes.setdefault((run, key), []).append(i)
        gathered = [[found[i].layer or 0 for i in members] for members in classes.values()]
        if not ascending and are_classes(gathered):
            classes = {(i,): [i] for i in range(at, end)}  # it would read as ascending
        for members in classes.values():
            yield Block(
                tuple(found[i].layer or 0 for i in members),
                tuple(_together([rows[i] for i in members])),
            )
        at = end


def _together(rows: Sequence[list[Statement]]) -> Iterable[Statement]:
    for alike in zip(*rows, strict=True):
        yield msgspec.structs.replace(
            alike[0], where=tuple([place for statement in alike for place in statement.where])
        )
