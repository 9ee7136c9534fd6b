"""Which ranks a lock is compared with, and how a difference is said."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.lock import (
    LOSSES,
    Change,
    Lock,
    Locked,
    is_loaded,
    say,
    subject,
)
from mirage_gate.agreed.memory import Run
from mirage_gate.agreed.summary import Summary
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules.base import Rule

HINT = "if it is meant, write the lock again with `mirage-gate lock`"


def compared(run: Run) -> Iterator[tuple[Summary, Lock, Locked]]:
    """Give each audited rank, its wiring now, and the lock it is held to."""
    locked = run.memory.lock
    if locked is None:
        return
    for summary in run.summaries:
        if summary.audited:
            yield summary, Lock.of([summary]), locked


def is_loss(change: Change) -> bool:
    """Whether coverage fell. A buffer that is gone with its tasks is a change, no loss."""
    if change.what == "gone" and not is_loaded(change):
        return False
    return change.what in LOSSES and change.before > 0


def finding_of(
    rule: Rule, severity: Severity, summary: Summary, locked: Locked, alike: list[Change]
) -> Finding:
    """Say what differs, the same of several tensors in one finding."""
    first = alike[0]
    wired = summary.tensor(first.tensor)
    critical = "critical tensor " if first.critical else ""
    return rule.finding(
        summary.rank,
        f"{critical}{subject(alike)}: {say(first)}",
        summary.declared_at(wired) if wired else summary.start(),
        hint=HINT,
        severity=severity,
        related=(lock_at(locked, first.tensor),),
        tensor=first.tensor,
    )


def lock_at(locked: Locked, tensor: str) -> Location:
    """Point at a tensor's line in the lock."""
    line = locked.lines.get(tensor, 1)
    return Location(locked.path, line, 1, line, 1, note="the lock says it here")
