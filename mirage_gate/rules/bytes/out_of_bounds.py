"""MG202: a tile runs past the end of its allocation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import extent_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, size, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG202",
    "out-of-bounds",
    Severity.ERROR,
    "A tile runs past the end of its allocation.",
    why="""
        The kernel reads or writes another tensor's memory: wrong values far from the cause,
        or a fault on some runs.
    """,
    example="A tile of 8 x 1200 bfloat16 at byte 305,000 of a tensor of 307,200 bytes.",
    fix="Correct the tile's offset or dims, or the allocation's size, in the builder.",
    limits="""
        The size of a host tensor is not in the files. A remote write's descriptor runs past
        the local buffer by design.
    """,
    repeats=True,
)


@RULE.checked_by
def out_of_bounds(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name, declaration, accesses in touched_tensors(facts):
        if declaration.nbytes is None:
            continue
        room = declaration.nbytes - (declaration.shift or 0)  # it may be entered further on
        if facts.regions.of(name).end <= room:
            continue
        over = [
            (extent, access)
            for access in accesses
            if not (access.slot.remote and access.writes)
            and (extent := extent_of(tensors[access.tensor])) is not None
            and extent > room
        ]
        if not over:
            continue
        extent, worst = max(over, key=lambda pair: (pair[0], -pair[1].group.first))
        offset = tensors[worst.tensor].offset
        yield RULE.finding(
            facts.rank,
            (
                f"the tile at bytes {offset}..{extent - 1} runs {extent - room} "
                f"bytes past the end of {name}{size(declaration)}; so do the tiles of "
                f"{tasks(facts, groups_of(access for _, access in over))}"
            ),
            slot_field(facts, worst, "offset"),
            hint="correct the tile's offset or dims, or allocate more",
            related=declared(facts, name),
            tensor=name,
        )
