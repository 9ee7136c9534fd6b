"""MG801: a tensor is read by fewer tasks than the lock says."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.lock import (
    changes,
    folded,
)
from mirage_gate.agreed.memory import Run
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.agreed._shared import compared, finding_of, is_loss
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG801",
    "coverage-fell",
    Severity.ERROR,
    "A tensor is read by fewer tasks than the lock says.",
    why="""
        The lock is the wiring that was agreed. A tensor that loses its readers from one
        week to the next was most often lost by a change that was about something else.
    """,
    example="`rope_cos`: readers 156 → 0.",
    fix="""
        Find the change in the builder that dropped them. If it is meant, write the lock
        again (`mirage-gate lock PATH -o FILE`) and commit it with the change.
    """,
    limits="An error where no reader is left, a warning where fewer are.",
    scope="memory",
)


@RULE.checked_by
def coverage_fell(run: Run) -> Iterator[Finding]:
    for summary, now, locked in compared(run):
        found = (change for change in changes(locked.lock, now, summary.rank) if is_loss(change))
        for alike in folded(found):
            zero = alike[0].after == 0
            severity = Severity.ERROR if zero else Severity.WARNING
            yield finding_of(RULE, severity, summary, locked, alike)
