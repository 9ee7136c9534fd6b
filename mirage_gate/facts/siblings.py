"""Which layers and operators are siblings, and what each slot of them stands for.

Layers with the same operators in the same order are one class: dense layers, or those with
a mixture of experts. A layer that lacks an operator or has one too many belongs to the
class that it is so near. What a slot carries is said by its *role*, so that layers can be
compared: a weight by its name without the layer's number, a buffer by the operator that
last wrote it, whatever the buffer is called. What the operator right before a layer wrote is
the layer's input, be it the embedding or another kind of layer: so a first layer, or the
first behind three dense ones, is like its siblings. Steps to the side are passed over.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from mirage_gate.artifacts.cuda import SENTINEL

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Name, Operator

_EDITS = 6
"""A layer is near a class if fewer than one in six of its operators differ, or at most two."""

Kind = Literal[
    "weight", "nothing", "unread", "absent", "layer input", "activation", "unwritten", "output"
]


class Role(msgspec.Struct, frozen=True, gc=False):
    """What a slot carries.

    ``weight``: a tensor that the host fills, ``name`` its name without the layer's number.
    ``nothing``: None. ``unread``: a tensor that the dispatch body does not name. ``absent``:
    the task has no such slot. ``layer input``: what the operator right before the layer
    wrote. ``activation``: what another operator wrote, ``writer`` its type, ``name`` what
    tells it from others of its type, ``slot`` its output, ``back`` how many layers ago (-1:
    outside the layers). ``unwritten``: a buffer that nobody wrote before. ``output``: a
    buffer that the operator does not read.
    """

    kind: Kind
    name: str = ""
    writer: int = -1
    slot: int = -1
    back: int = 0


NOTHING = Role("nothing")
UNREAD = Role("unread")
ABSENT = Role("absent")
LAYER_INPUT = Role("layer input")
OUTPUT = Role("output")
LACKING = frozenset({NOTHING, UNREAD, ABSENT})

Content = frozenset[Role]
Key = tuple[int, str]


class Kindred(msgspec.Struct, eq=False):
    """One class of layers. ``sequence`` are its operators' types, in order."""

    number: int
    sequence: tuple[int, ...]
    layers: list[int]


class Column(msgspec.Struct, eq=False):
    """One operator in all the layers that have it. ``classes`` are the numbers of theirs."""

    task_type: int
    key: Key
    operators: dict[int, Operator]
    classes: set[int]


class Gap(msgspec.Struct, eq=False):
    """How a layer's operators differ from those of its class.

    ``missing`` are columns of the class; ``extra`` are operators of the layer.
    """

    layer: int
    missing: list[Column]
    extra: list[Operator]


class Siblings:
    """The classes of a rank's layers, operators side by side, and the roles in their slots."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def layers(self) -> dict[int, list[Operator]]:
        """The operators of each layer."""
        return self._facts.layers.by_layer

    @cached_property
    def classes(self) -> list[Kindred]:
        """Every class, in order of its first layer."""
        by_sequence: dict[tuple[int, ...], list[int]] = {}
        for layer, operators in self.layers.items():
            sequence = tuple(operator.task_type for operator in operators)
            by_sequence.setdefault(sequence, []).append(layer)
        homes: dict[tuple[int, ...], tuple[int, ...]] = {}
        by_size = sorted(by_sequence, key=lambda sequence: -len(by_sequence[sequence]))
        for sequence in by_size:
            homes[sequence] = next(
                (
                    home
                    for home in by_size
                    if homes.get(home) == home
                    and len(by_sequence[home]) >= 2 * len(by_sequence[sequence])
                    and _near(sequence, home)
                ),
                sequence,
            )
        merged: dict[tuple[int, ...], list[int]] = {}
        for sequence, layers in by_sequence.items():
            merged.setdefault(homes[sequence], []).extend(layers)
        ordered = sorted((sorted(layers), sequence) for sequence, layers in merged.items())
        return [Kindred(i, sequence, layers) for i, (layers, sequence) in enumerate(ordered)]

    def class_of(self, layer: int) -> Kindred:
        """Give the class of a layer."""
        return self._class_of[layer]

    def kind_of(self, layer: int) -> str:
        """Name the class of a layer: ``dense``, ``moe``, and ``dense 2`` for another one."""
        return self._kinds[self.class_of(layer).number]

    @cached_property
    def _kinds(self) -> list[str]:
        kinds: list[str] = []
        for kindred in self.classes:
            names = (self._facts.task_type(code).name for code in kindred.sequence)
            word = "moe" if any("_MOE_" in name for name in names) else "dense"
            times = sum(kind.partition(" ")[0] == word for kind in kinds)
            kinds.append(f"{word} {times + 1}" if times else word)
        return kinds

    @cached_property
    def _class_of(self) -> dict[int, Kindred]:
        return {layer: kindred for kindred in self.classes for layer in kindred.layers}

    @cached_property
    def _aligned(self) -> tuple[list[Column], list[Gap]]:
        columns: dict[object, Column] = {}
        gaps: list[Gap] = []
        for kindred in self.classes:
            placed: list[dict[int, Operator]] = [{} for _ in kindred.sequence]
            missing: dict[int, list[int]] = {}
            extra: dict[int, list[Operator]] = {}
            for layer in kindred.layers:
                operators = self.layers[layer]
                for at, operator in _align(operators, kindred.sequence):
                    if operator is None:
                        missing.setdefault(layer, []).append(at)
                    elif at < 0:
                        extra.setdefault(layer, []).append(operator)
                    else:
                        placed[at][layer] = operator
            keys = [
                (task_type, Counter(o.weight for o in row.values()).most_common(1)[0][0])
                for task_type, row in zip(kindred.sequence, placed, strict=True)
            ]
            mine: list[Column] = []
            for at, (key, row) in enumerate(zip(keys, placed, strict=True)):
                # Only a weight tells that operators of two classes are the same one.
                shared = key[1] and keys.count(key) == 1
                column = columns.setdefault(
                    key if shared else (kindred.number, at), Column(key[0], key, {}, set())
                )
                column.operators.update(row)
                column.classes.add(kindred.number)
                mine.append(column)
            for layer in sorted({*missing, *extra}):
                lacking = [mine[at] for at in missing.get(layer, ())]
                gaps.append(Gap(layer, lacking, extra.get(layer, [])))
        for column in columns.values():
            column.operators = dict(sorted(column.operators.items()))
        return list(columns.values()), gaps

    @property
    def columns(self) -> list[Column]:
        """Every operator, over all layers that have it."""
        return self._aligned[0]

    @property
    def gaps(self) -> list[Gap]:
        """The layers that lack an operator of their class, or have one too many."""
        return self._aligned[1]

    @cached_property
    def inputs(self) -> list[list[Content]]:
        """The roles in each input slot of each operator, by operator number."""
        facts = self._facts
        wiring = facts.wiring
        operators = facts.layers.operators
        writer_of: dict[Name, tuple[Operator, int]] = {}
        contents: list[list[Content]] = []
        for operator in operators:
            row: list[set[Role]] = []
            written: list[tuple[Name, int]] = []
            for (is_input, index), names in operator.slots.items():
                for name, group in names.items():
                    slot, reads, writes = wiring.use(group, is_input, index)
                    if writes:
                        written.append((name, -1 - index if is_input else index))
                    if not is_input:
                        continue
                    while len(row) <= index:
                        row.append(set())
                    if name.name == SENTINEL:
                        row[index].add(NOTHING)
                    elif not (reads or writes) and (slot.reads or slot.writes):
                        row[index].add(UNREAD)
                    elif name.loaded:
                        row[index].add(Role("weight", name.role))
                    elif reads:
                        row[index].add(self._activation(operator, name, writer_of))
                    else:
                        row[index].add(OUTPUT)
            for name, index in written:
                writer_of[name] = (operator, index)
            contents.append([frozenset(roles) for roles in row])
        return contents

    def _activation(
        self,
        reader: Operator,
        name: Name,
        writer_of: dict[Name, tuple[Operator, int]],
    ) -> Role:
        if name not in writer_of:
            return Role("unwritten", name.role)
        writer, slot = writer_of[name]
        place = reader.place
        if place is not None and self._entries[place] == writer.number:
            return LAYER_INPUT
        key = writer.weight or self._filled(writer)
        if writer.place is None or place is None:
            back = 0 if writer.place is place else -1
        else:
            back = place - writer.place
        return Role("activation", key, writer.task_type, slot, back)

    @cached_property
    def _entries(self) -> dict[int, int]:
        """The operator right before each layer, whose result is the layer's input.

        A step to the side is none: an operator outside of the layers, or one more than the
        layer's siblings have, of which the layer's first operator reads nothing (an early
        exit, a copy for a draft model, a dump). -1 where nothing was written before.
        """
        aside = {operator.number for gap in self.gaps for operator in gap.extra}
        operators = self._facts.layers.operators
        entries: dict[int, int] = {}
        for layer, row in self.layers.items():
            entry = -1
            for operator in reversed(operators[: row[0].number]):
                written = self._touched(operator)[1]
                if not written:
                    continue
                steps_aside = operator.place is None or operator.number in aside
                if steps_aside and not written & self._touched(row[0])[0]:
                    continue
                entry = operator.number
                break
            entries[layer] = entry
        return entries

    def _touched(self, operator: Operator) -> tuple[set[Name], set[Name]]:
        """The names that an operator reads, and those that it writes."""
        read: set[Name] = set()
        written: set[Name] = set()
        for (is_input, index), names in operator.slots.items():
            for name, group in names.items():
                _, reads, writes = self._facts.wiring.use(group, is_input, index)
                if reads:
                    read.add(name)
                if writes:
                    written.add(name)
        return read, written

    @staticmethod
    def _filled(operator: Operator) -> str:
        return min((name.role for name in operator.names(is_input=False)), default="")


def _near(sequence: tuple[int, ...], home: tuple[int, ...]) -> bool:
    longest = max(len(sequence), len(home))
    allowed = max(2, longest // _EDITS)
    if abs(len(sequence) - len(home)) > allowed:
        return False
    matcher = SequenceMatcher(None, sequence, home, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(sequence) + len(home) - 2 * same <= allowed and same > longest // 2


def _align(
    operators: list[Operator], sequence: tuple[int, ...]
) -> list[tuple[int, Operator | None]]:
    """Pair operators with their place in a class; -1 for one too many, None for one missing."""
    types = tuple(operator.task_type for operator in operators)
    if types == sequence:
        return list(enumerate(operators))
    pairs: list[tuple[int, Operator | None]] = []
    matcher = SequenceMatcher(None, types, sequence, autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            pairs.extend(zip(range(b1, b2), operators[a1:a2], strict=True))
        else:
            pairs.extend((-1, operator) for operator in operators[a1:a2])
            pairs.extend((at, None) for at in range(b1, b2))
    return pairs
