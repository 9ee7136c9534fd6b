"""Slots that carry in one layer something else than in its siblings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.names import named_in
from mirage_gate.facts.roles import LACKING, LAYER_INPUT, Content, Role
from mirage_gate.rules.layers._patterns import hole_in
from mirage_gate.rules.layers._shared import (
    columns_of,
    in_slot,
    is_foreign,
    is_odd,
    is_whole_class,
    majority_of,
    tables_at,
    width_of,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.siblings import Column


LAYER_INPUTS: Content = frozenset({LAYER_INPUT})

_PAIRS = frozenset({("k", "v"), ("q", "k"), ("cos", "sin")})
"""What the words of two slots side by side are, where the slots take a pair of tensors."""


class OddSlot(msgspec.Struct, eq=False):
    """One input of an operator in some layers, and in the siblings that they should be like."""

    column: Column
    index: int
    content: Content
    layers: list[int]
    usual: Content
    siblings: list[int]


class SplitPair(msgspec.Struct, eq=False):
    """Two inputs whose tensors go together in one layer alone.

    ``elsewhere`` is what goes with the first in another layer, and what with the second:
    (layer, input, name).
    """

    column: Column
    layer: int
    indexes: tuple[int, int]
    names: tuple[str, str]
    elsewhere: tuple[tuple[int, int, str], tuple[int, int, str]]


def odd_slots(facts: RankFacts) -> Iterator[OddSlot]:
    """Give every slot that carries in one or few layers something else than usual."""
    for siblings in facts.stacks:
        first = min(siblings.layers, default=0)
        broken = {gap.layer for gap in siblings.gaps if gap.missing}
        for column in siblings.columns:
            for index in range(width_of(facts, column)):
                yield from _odd_at(facts, column, index, first, broken)


def _odd_at(
    facts: RankFacts, column: Column, index: int, first: int, broken: set[int]
) -> Iterator[OddSlot]:
    contents = in_slot(facts, column, index)
    if len(set(contents.values())) < 2:
        return
    hole = hole_in(contents)
    if hole is not None:
        content, usual = contents[hole.layer], contents[hole.like[0]]
        if not (content | usual) & LACKING and _misplaced(facts, content, usual, [hole.layer]):
            yield OddSlot(column, index, content, [hole.layer], usual, hole.like)
        return
    outliers: dict[Content, list[int]] = defaultdict(list)
    usual = _usual(contents, first)
    for layer, content in contents.items():
        if content != usual and not content & LACKING:
            outliers[content].append(layer)
    every = [layer for layers in outliers.values() for layer in layers]
    if not every or not (len(contents) == 2 or is_odd(every, contents)):
        return
    if len(contents) == 2 and (
        usual & LACKING or (usual != LAYER_INPUTS and any(map(_from_outside, usual)))
    ):
        return
    # The one layer of its class may differ, but every layer has an input.
    alone = len(every) == 1 and usual == LAYER_INPUTS
    if is_whole_class(column, every) and not (alone and not _own_step(column, contents, every[0])):
        return
    siblings = [n for n in contents if contents[n] == usual]
    for content, layers in outliers.items():
        if first in layers and any(_from_outside(role) for role in content):
            continue  # what stands before the layers is the first one's own affair
        if broken & set(layers) or (usual & LACKING and tables_at(facts, content, layers)):
            continue  # MG701 says it
        if _follows(layers, broken) and _from_before(content | usual):
            continue
        if _foreign(facts, column, content, layers) or _foreign(facts, column, usual, siblings):
            continue  # MG703 says it
        if _misplaced(facts, content, usual, layers):
            yield OddSlot(column, index, content, layers, usual, siblings)


def split_pairs(facts: RankFacts) -> Iterator[SplitPair]:
    """Give the pairs of slots whose tensors go together in one layer, and never else."""
    for column in columns_of(facts):
        words = facts.task_type(column.task_type).words
        for one in range(len(words) - 1):
            if (words[one], words[one + 1]) in _PAIRS:
                yield from _split(column, one, one + 1)


def _split(column: Column, one: int, other: int) -> Iterator[SplitPair]:
    carried: dict[int, tuple[str, str]] = {}
    for layer, operator in column.operators.items():
        here, there = (list(operator.slots.get((True, index), ())) for index in (one, other))
        if len(here) == len(there) == 1 and here[0].loaded and there[0].loaded:
            carried[layer] = (here[0].name, there[0].name)
    times = Counter(carried.values())
    if len(times) < 3:
        return
    mates: tuple[dict[str, dict[str, int]], ...] = (defaultdict(dict), defaultdict(dict))
    for layer, (a, b) in carried.items():
        mates[0][a].setdefault(b, layer)
        mates[1][b].setdefault(a, layer)
    for layer, (a, b) in carried.items():
        with_a, with_b = mates[0][a], mates[1][b]
        if times[a, b] == 1 and len(with_a) == len(with_b) == 2:
            mate, its = (next(m for m in known if m not in (a, b)) for known in (with_a, with_b))
            if len(mates[1][mate]) == len(mates[0][its]) == 1:
                elsewhere = ((with_a[mate], other, mate), (with_b[its], one, its))
                yield SplitPair(column, layer, (one, other), (a, b), elsewhere)


def _usual(contents: dict[int, Content], first: int) -> Content:
    """Give what most layers carry; of two, the layer's input, else what the first carries."""
    if len(contents) == 2:
        both = list(contents.values())
        return LAYER_INPUTS if LAYER_INPUTS in both else both[0]
    return majority_of([c for n, c in contents.items() if n != first] or contents.values())


def _from_outside(role: Role) -> bool:
    return role.back < 0 or role.kind in ("layer input", "unwritten")


def _from_before(content: Content) -> bool:
    return any(role.kind == "layer input" or role.back > 0 for role in content)


def _follows(layers: Collection[int], broken: Collection[int]) -> bool:
    return any(layer - 1 in broken for layer in layers)


def _own_step(column: Column, contents: dict[int, Content], layer: int) -> bool:
    """Whether a layer's slot carries what an operator wrote that only this layer has."""
    rows = column.siblings.layers
    others = {(o.task_type, o.weight) for n in contents if n != layer for o in rows[n]}
    return all(
        role.kind == "activation" and role.back == 0 and (role.writer, role.name) not in others
        for role in contents[layer]
    )


def _foreign(facts: RankFacts, column: Column, content: Content, layers: list[int]) -> bool:
    """Whether a weight in a slot is another model's."""
    weights = [role.name for role in content if role.kind == "weight"]
    return any(is_foreign(facts, column, weight, layer) for weight in weights for layer in layers)


def _misplaced(facts: RankFacts, content: Content, usual: Content, layers: Collection[int]) -> bool:
    """Whether the layers could have carried the usual thing: a weight must be there to miss."""
    if any(role.kind != "weight" for role in content | usual):
        return True
    return any(
        named_in(role.name, layer) in facts.declared for role in usual - content for layer in layers
    )
