"""The operators that one layer lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.rules.layers._blocks import block_in, is_attached, lost_block
from mirage_gate.rules.layers._lacks import Lack, rotates
from mirage_gate.rules.layers._patterns import hole_in
from mirage_gate.rules.layers._shared import (
    in_slot,
    is_odd,
    is_periodic,
    majority_of,
    operator_text,
    tables_at,
    width_of,
)
from mirage_gate.rules.layers._surplus import against_pattern

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.siblings import Column, Gap, Siblings
    from mirage_gate.findings import Location


def lacking_operators(facts: RankFacts, siblings: Siblings) -> Iterator[tuple[int, Lack]]:
    """Give (layer, the operator that it lacks)."""
    missing: dict[int, list[int]] = defaultdict(list)
    excused: set[tuple[int, int]] = set()
    blocks: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for gap in siblings.gaps:
        if _is_block(facts, siblings, gap):
            blocks[tuple(id(column) for column in gap.missing)].append(gap.layer)
            continue
        for column in gap.missing:
            missing[id(column)].append(gap.layer)
        excused.update((id(column), gap.layer) for column in _excused(siblings, gap))
    yield from _lost_blocks(facts, siblings, blocks)
    ends = (min(siblings.layers, default=-1), max(siblings.layers, default=-1))
    for order, column in enumerate(siblings.columns):
        layers = missing.get(id(column))
        if not layers:
            continue
        members = siblings.class_of(layers[0]).layers
        critical = _critical_operands(facts, column)
        hole = hole_in({n: n in layers for n in members})
        if hole is not None and hole.layer not in layers:
            yield hole.layer, against_pattern(facts, siblings, column.operators[hole.layer], hole)
            continue
        if hole is not None:
            layers = [n for n in (hole.layer,) if not critical or rotates(facts, n)]
        elif critical:
            layers = [n for n in layers if rotates(facts, n)]
            if is_periodic(layers, members):
                continue
        elif not is_odd(layers, members):
            continue
        name = operator_text(facts, column.task_type, column.key[1])
        for layer in layers:
            if layer == ends[1] and not critical and _trailing(column):
                continue
            if not critical and layer == ends[0] and _from_earlier(facts, column):
                continue  # what the layers before have left, the first one cannot have
            yield (
                layer,
                Lack(
                    order=order * 8,
                    operator=name,
                    state="missing",
                    tensors=tuple(critical) or (name,),
                    critical=bool(critical),
                    at=_gap_at(facts, layer, column),
                    siblings={n: o for n, o in column.operators.items() if n in members},
                    index=-1,
                    meant=not critical and (id(column), layer) in excused,
                ),
            )


def _lost_blocks(
    facts: RankFacts, siblings: Siblings, blocks: dict[tuple[int, ...], list[int]]
) -> Iterator[tuple[int, Lack]]:
    gaps = {gap.layer: gap for gap in siblings.gaps}
    for layers in blocks.values():
        gap = gaps[layers[0]]
        members = siblings.class_of(gap.layer).layers
        if not is_odd(layers, members):
            continue
        having = {n: o for n, o in gap.missing[0].operators.items() if n in members}
        near = next(n for n in having if _stretch(gap, siblings, n))
        at = _stretch(gap, siblings, near) or range(0)
        for layer in layers:
            lack = lost_block(facts, siblings, layer, near, at, having)
            if lack is not None:
                yield layer, lack


def _is_block(facts: RankFacts, siblings: Siblings, gap: Gap) -> bool:
    """Whether a layer lacks a whole block, nothing else, and has no weights for it."""
    if gap.extra or len(gap.missing) < 2:
        return False
    for near in siblings.class_of(gap.layer).layers:
        if (at := _stretch(gap, siblings, near)) is not None:
            row = siblings.layers[near]
            attached = is_attached(facts, row[at.start : at.stop], gap.layer)
            return bool(block_in(facts, row, at)) and not attached
    return False


def _stretch(gap: Gap, siblings: Siblings, layer: int) -> range | None:
    """Where in a sibling the missing operators stand, side by side."""
    row = siblings.layers[layer]
    found = [row.index(o) for c in gap.missing if (o := c.operators.get(layer)) is not None]
    at = range(found[0], found[0] + len(gap.missing)) if found else range(0)
    return at if at and found == list(at) else None


def _excused(siblings: Siblings, gap: Gap) -> list[Column]:
    """Give the missing operators whose work another kernel does.

    One that reads the same weight does the same; and what serves only such operators, as the
    quantising of an input does, is not needed.
    """
    weights = {operator.weight for operator in gap.extra} - {""}
    replaced = [column for column in gap.missing if column.key[1] in weights]
    if not replaced:
        return []
    found = list(replaced)
    for column in gap.missing:
        if column in replaced or column.key[1] or not column.operators:
            continue
        layer, operator = next(iter(column.operators.items()))
        readers = _readers(siblings.layers[layer], operator)
        if readers and all(any(o is c.operators.get(layer) for c in replaced) for o in readers):
            found.append(column)
    return found


def _readers(row: list[Operator], operator: Operator) -> list[Operator]:
    """Give the operators of a layer that read what one of them wrote, by its buffers' names."""
    left = set(operator.names(is_input=False))
    readers = []
    for other in row[row.index(operator) + 1 :]:
        if left & set(other.names(is_input=True)):
            readers.append(other)
        left -= set(other.names(is_input=False))
    return readers


def _from_earlier(facts: RankFacts, column: Column) -> bool:
    """Whether an operator without weights reads what some earlier layer left on purpose."""
    if column.key[1]:
        return False
    roles = facts.roles.inputs
    return all(
        any(
            role.kind == "activation" and role.back
            for content in roles[o.number]
            for role in content
        )
        for o in column.operators.values()
    )


def _critical_operands(facts: RankFacts, column: Column) -> list[str]:
    found: dict[str, None] = {}
    for index in range(width_of(facts, column)):
        contents = in_slot(facts, column, index)
        tables = tables_at(facts, majority_of(contents.values()), contents)
        found.update(dict.fromkeys(tables))
    return list(found)


def _trailing(column: Column) -> bool:
    """Whether the last layer lacks a step without weights that the others end with.

    It is the first step of the layer that follows, as far as names can tell.
    """
    if column.key[1]:
        return False
    return any(column.siblings.layers[n][-1] is o for n, o in column.operators.items())


def _gap_at(facts: RankFacts, layer: int, column: Column) -> Location:
    """Point at the operator before which the missing one would stand, or the layer's last."""
    sibling, operator = next(iter(column.operators.items()))
    row = column.siblings.layers[sibling]
    behind = {o.number for o in row[row.index(operator) + 1 :]}
    for other in column.siblings.columns:
        theirs, mine = other.operators.get(sibling), other.operators.get(layer)
        if theirs and mine and theirs.number in behind:
            return facts.in_graph("all_tasks", mine.first, "task_type")
    return facts.in_graph("all_tasks", column.siblings.layers[layer][-1].first, "task_type")
