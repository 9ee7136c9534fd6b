"""MG303: two tasks write the same bytes, and nothing orders them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule
from mirage_gate.rules.order._races import LIMITS, race_findings

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG303",
    "two-writers",
    Severity.ERROR,
    "Two tasks write the same bytes, and nothing orders them.",
    why="""
        Whichever comes last wins, and that differs from run to run. Tasks that add into one
        tile (split-K) and tasks that repeat the same work are no error here; the second is
        MG505's.
    """,
    example="Two column tiles of one linear operator overlap by 64 columns.",
    fix="""
        Give the tasks tiles that do not overlap. Where both writes are meant, make the second
        operator depend on the first.
    """,
    limits=LIMITS,
    repeats=True,
)


@RULE.checked_by
def two_writers(facts: RankFacts) -> Iterator[Finding]:
    yield from race_findings(RULE, facts)
