"""Which layers and operators are siblings.

Layers with the same operators in the same order are one class: dense layers, or those with
a mixture of experts. A layer that lacks an operator or has one too many belongs to the
class that it is so near. Layers of two stacks (:mod:`mirage_gate.facts.stacks`) are no
siblings, even where they are alike.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

_EDITS = 6
"""A layer is near a class if fewer than one in six of its operators differ, or at most two."""

Key = tuple[int, str]


class Kindred(msgspec.Struct, eq=False):
    """One class of layers. ``sequence`` are its operators' types, in order."""

    number: int
    sequence: tuple[int, ...]
    layers: list[int]


class Column(msgspec.Struct, eq=False):
    """One operator in all the layers that have it. ``classes`` are the numbers of theirs."""

    siblings: Siblings
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
    """The classes of one stack's layers, and their operators side by side."""

    def __init__(self, facts: RankFacts, stack: int) -> None:
        self._facts = facts
        self.stack = stack

    @property
    def name(self) -> str:
        """The stack's name; empty where the graph holds one only."""
        stacks = self._facts.layers.stacks
        return stacks[self.stack].name if stacks else ""

    @cached_property
    def layers(self) -> dict[int, list[Operator]]:
        """The operators of each layer."""
        stacks = self._facts.layers.by_stack
        return stacks[self.stack] if stacks else {}

    @cached_property
    def classes(self) -> list[Kindred]:
        """Every class, in order of its first layer."""
        by_sequence: dict[tuple[int, ...], list[int]] = {}
        for layer, operators in self.layers.items():
            sequence = tuple(operator.task_type for operator in operators)
            by_sequence.setdefault(sequence, []).append(layer)
        times = self._facts.times_of_layer
        sizes = {sequence: sum(map(times, layers)) for sequence, layers in by_sequence.items()}
        homes: dict[tuple[int, ...], tuple[int, ...]] = {}
        by_size = sorted(by_sequence, key=lambda sequence: -sizes[sequence])
        for sequence in by_size:
            homes[sequence] = next(
                (
                    home
                    for home in by_size
                    if homes.get(home) == home
                    and sizes[home] >= 2 * sizes[sequence]
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
                (task_type, self._usual_weight(row))
                for task_type, row in zip(kindred.sequence, placed, strict=True)
            ]
            mine: list[Column] = []
            for at, (key, row) in enumerate(zip(keys, placed, strict=True)):
                # Only a weight tells that operators of two classes are the same one.
                shared = key[1] and keys.count(key) == 1
                column = columns.setdefault(
                    key if shared else (kindred.number, at), Column(self, key[0], key, {}, set())
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

    def _usual_weight(self, row: dict[int, Operator]) -> str:
        """The weight that an operator has in most layers."""
        weights: Counter[str] = Counter()
        for layer, operator in row.items():
            weights[operator.weight] += self._facts.times_of_layer(layer)
        return weights.most_common(1)[0][0]

    @property
    def columns(self) -> list[Column]:
        """Every operator, over all layers that have it."""
        return self._aligned[0]

    @property
    def gaps(self) -> list[Gap]:
        """The layers that lack an operator of their class, or have one too many."""
        return self._aligned[1]


def _near(sequence: tuple[int, ...], home: tuple[int, ...]) -> bool:
    longest = max(len(sequence), len(home))
    allowed = max(2, longest // _EDITS)
    if abs(len(sequence) - len(home)) > allowed:
        return False
    from difflib import SequenceMatcher

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
    from difflib import SequenceMatcher

    pairs: list[tuple[int, Operator | None]] = []
    matcher = SequenceMatcher(None, types, sequence, autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            pairs.extend(zip(range(b1, b2), operators[a1:a2], strict=True))
        else:
            pairs.extend((-1, operator) for operator in operators[a1:a2])
            pairs.extend((at, None) for at in range(b1, b2))
    return pairs
