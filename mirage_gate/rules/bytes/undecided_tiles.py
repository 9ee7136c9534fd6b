"""MG208: a tensor's tiles cannot be compared: its bytes were not checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import declared, plural, slot_field
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG208",
    "undecided-tiles",
    Severity.WARNING,
    "A tensor's tiles cannot be compared: its bytes were not checked.",
    why="""
        Overlap and coverage are decided exactly. Where that would take millions of pieces, or
        a tile's data type has no known size, the gate says so rather than passing in silence;
        no graph of MPK comes near.
    """,
    example="Two tiles of 2,000,000,000 rows each, with strides of 3 and 5 bytes.",
    fix="""
        Look at the tiles' dims, strides and data type: they are most likely damaged. A data
        type that is newer than the gate needs its size in `mirage_gate/facts/regions.py`.
    """,
    repeats=True,
)


@RULE.checked_by
def undecided_tiles(facts: RankFacts) -> Iterator[Finding]:
    unsized: dict[int, list[str]] = defaultdict(list)
    for name in facts.regions.names:
        regions = facts.regions.of(name)
        if regions.unsized is not None:
            unsized[regions.unsized].append(name)
        elif regions.undecided:
            # The largest tile is the likeliest culprit.
            worst = max(
                facts.wiring.of(name), key=lambda a: prod(facts.graph.tensors[a.tensor].dims)
            )
            yield _undecided(facts, name, regions.undecided, slot_field(facts, worst, "strides"))
    for code, names in unsized.items():
        first = next(
            a for a in facts.wiring.of(names[0]) if facts.graph.tensors[a.tensor].data_type == code
        )
        reason = f"data type {code} has no known size"
        if len(names) > 1:
            reason += f"; nor were those of {plural(len(names) - 1, 'more tensor')}"
        yield _undecided(facts, names[0], reason, slot_field(facts, first, "data_type"))


def _undecided(facts: RankFacts, name: str, reason: str, at: Location) -> Finding:
    return RULE.finding(
        facts.rank,
        f"the tiles of {name} were not compared: {reason}",
        at,
        hint="look at the dims, strides and data type of its tiles",
        related=declared(facts, name),
        tensor=name,
    )
