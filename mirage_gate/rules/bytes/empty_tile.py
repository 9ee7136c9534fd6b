"""MG214: a task's slot carries a tile without any element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG214",
    "empty-tile",
    Severity.ERROR,
    "A task's slot carries a tile without any element: nothing is read or written there.",
    why="""
        A dimension divided by a grid that is larger than it comes out as 0. The task is wired,
        the name is there, and the kernel gets a tile of no rows: by its own constants it reads
        or writes what lies at the offset, all tasks the same place, or nothing at all. Such a
        tile makes nobody a consumer or a producer.
    """,
    example="""
        The rotary tables stand in every attention task with `"dims": [0, 128]`.
    """,
    fix="Give the operator a grid that divides the tensor, or the tensor as many rows.",
    repeats=True,
)


@RULE.checked_by
def empty_tile(facts: RankFacts) -> Iterator[Finding]:
    for name, accesses in facts.wiring.accesses.items():
        empty = [access for access in accesses if access.empty]
        if not empty or name == SENTINEL:
            continue
        first = empty[0]
        tile = facts.graph.tensors[first.tensor]
        dims = " x ".join(map(str, tile.dims))
        yield RULE.finding(
            facts.rank,
            f"{name} is carried as a tile of {dims}, without any element, by "
            f"{tasks(facts, groups_of(empty))}: they {'read' if first.is_input else 'write'} "
            "nothing of it",
            slot_field(facts, first, "dims"),
            hint="give the operator a grid that divides the tensor",
            related=declared(facts, name),
            tensor=name,
        )
