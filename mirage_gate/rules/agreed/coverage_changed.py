"""MG802: the wiring is another one than the lock says, and no reader was lost."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.lock import (
    changes,
    counts,
    folded,
)
from mirage_gate.agreed.memory import Run
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.agreed._shared import HINT, compared, finding_of, is_loss, lock_at
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG802",
    "coverage-changed",
    Severity.NOTE,
    "The wiring is another one than the lock says, and no reader was lost.",
    why="""
        New tensors, more readers, another kind of task: lawful, and worth a look in the
        pull request that brings them.
    """,
    example="`layer_0_o_proj` is read by 32 tasks; the lock says 16.",
    fix="Write the lock again with `mirage-gate lock` and commit it.",
    scope="memory",
)


@RULE.checked_by
def coverage_changed(run: Run) -> Iterator[Finding]:
    for summary, now, locked in compared(run):
        found = (c for c in changes(locked.lock, now, summary.rank) if not is_loss(c))
        for alike in folded(found):
            yield finding_of(RULE, Severity.NOTE, summary, locked, alike)
        changed = counts(locked.lock, now, summary.rank)
        if changed:
            yield RULE.finding(
                summary.rank,
                f"the graph has changed since the lock: {', '.join(changed)}",
                summary.start(),
                hint=HINT,
                related=(lock_at(locked, ""),),
            )
