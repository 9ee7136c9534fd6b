"""MG705: in one layer an operator has another number of tasks than in all its siblings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import repeated
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._shared import (
    columns_of,
    is_odd,
    is_whole_class,
    operator_text,
    these_layers,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

RULE = Rule(
    "MG705",
    "grid-outlier",
    Severity.WARNING,
    "In one layer an operator has another number of tasks than in all its siblings.",
    why="""
        Siblings cut the same work into the same grid. Fewer tasks in one layer may be rows
        or columns that nobody computes; more may be work done twice.
    """,
    example="The down projection of layer 5 has 8 tasks; in all other layers it has 16.",
    fix="Give the operator the grid that it has in the sibling layers.",
    limits="""
        One layer of four or more is an outlier, or at most one in eight. Other tiles that
        cover the same, and a layer whose own width is another (of its feed-forward network)
        and is covered, are none.
    """,
)


@RULE.checked_by
def grid_outlier(facts: RankFacts) -> Iterator[Finding]:
    for column in columns_of(facts):
        tasks = {layer: operator.tasks for layer, operator in column.operators.items()}
        if len(tasks) < 4 or len(set(tasks.values())) < 2:
            continue
        usual = Counter(tasks.values()).most_common(1)[0][0]
        model = next(layer for layer, count in tasks.items() if count == usual)
        every = [
            layer
            for layer, count in tasks.items()
            if count != usual
            and not _whole(facts, column.operators[layer], column.operators[model])
        ]
        if not every or not is_odd(every, tasks) or is_whole_class(column, every):
            continue
        for count in sorted({tasks[layer] for layer in every}):
            layers = [layer for layer in every if tasks[layer] == count]
            sibling = next(layer for layer in tasks if tasks[layer] == usual)
            first, other = column.operators[layers[0]].first, column.operators[sibling].first
            same = sum(n == usual for n in tasks.values())
            yield RULE.finding(
                facts.rank,
                (
                    f"in {these_layers(column.siblings, layers)}, "
                    f"{operator_text(facts, *column.key)} has {plural(count, 'task')}; "
                    f"in {plural(same, 'sibling layer')} it has {usual}"
                ),
                facts.in_graph("all_tasks", first, "task_type"),
                hint=f"give it the grid of layer {sibling}",
                related=(
                    facts.in_graph("all_tasks", other, "task_type", note=f"layer {sibling}'s"),
                ),
                follows=[
                    repeated(column.operators[layers[0]].number, count - usual)
                    for _ in layers
                    if len(layers) == 1
                ],
            )


def _whole(facts: RankFacts, operator: Operator, sibling: Operator) -> bool:
    """Whether the operator's tiles, each its own, cover what its sibling's do, or its own width."""
    mine, theirs = _tiles(operator), _tiles(sibling)
    return bool(mine) and all(
        index in theirs and _covers(facts, tiles, theirs[index]) for index, tiles in mine.items()
    )


def _tiles(operator: Operator) -> dict[int, list[int]]:
    """The references in each output slot, one for each task."""
    tiles: dict[int, list[int]] = defaultdict(list)
    for group in operator.groups:
        for index, number in enumerate(group.outputs):
            tiles[index].extend([number] * group.count)
    return tiles


def _covers(facts: RankFacts, mine: list[int], theirs: list[int]) -> bool:
    covered = 0
    tensors = facts.graph.tensors
    regions = facts.regions.of(tensors[mine[0]].base_ptr)
    for number in mine:
        mask = regions.mask(number)
        if not mask or mask & covered or tensors[number].base_ptr != tensors[mine[0]].base_ptr:
            return False
        covered |= mask
    if _width(facts, mine) == _width(facts, theirs):
        others = facts.regions.of(tensors[theirs[0]].base_ptr)
        return regions.ranges(covered, 64) == others.ranges(others.union(theirs), 64)
    tile = tensors[mine[0]]
    along = {tensors[number].offset for number in mine}
    return len(along) == len(mine) and len(mine) * tile.dims[-1] == _width(facts, mine)


def _width(facts: RankFacts, tiles: list[int]) -> int:
    """How long a row of the tensor is, by the strides of its tiles."""
    tensor = facts.graph.tensors[tiles[0]]
    return tensor.strides[-2] if len(tensor.strides) > 1 else 0
