"""MG301: a task reads bytes that another writes, and no event makes it wait for the writer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule
from mirage_gate.rules.order._races import LIMITS, race_findings

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG301",
    "read-without-order",
    Severity.ERROR,
    "A task reads bytes that another writes, and no event makes it wait for the writer.",
    why="""
        Between operators of one kernel only events make order. Without a path of events
        from the writer to the reader the read may come first: the model gets the values
        of the layer or the iteration before, now and then, and most tests pass.
    """,
    example="""
        The KV gather triggers END alone, and the decode that reads what it gathered waits
        for the query projection alone.
    """,
    fix="""
        Give the reader's operator the writer's output as an input, so that the emitter joins
        the two events; or make the writer trigger the event that the reader waits for, and
        count it there.
    """,
    limits=LIMITS,
    repeats=True,
)


@RULE.checked_by
def read_without_order(facts: RankFacts) -> Iterator[Finding]:
    yield from race_findings(RULE, facts)
