"""MG8: is the wiring still what was agreed, and is what was agreed still needed?"""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.lock import (
    LOSSES,
    Change,
    Lock,
    Locked,
    changes,
    counts,
    folded,
    is_loaded,
    say,
    subject,
)
from mirage_gate.memory import Run
from mirage_gate.rules.base import rule
from mirage_gate.summary import Summary

_HINT = "if it is meant, write the lock again with `mirage-gate lock`"


def _compared(run: Run) -> Iterator[tuple[Summary, Lock, Locked]]:
    locked = run.memory.lock
    if locked is None:
        return
    for summary in run.summaries:
        if summary.audited:
            yield summary, Lock.of([summary]), locked


def _is_loss(change: Change) -> bool:
    """Whether coverage fell. A buffer that is gone with its tasks is a change, no loss."""
    if change.what == "gone" and not is_loaded(change):
        return False
    return change.what in LOSSES and change.before > 0


@rule(
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
def coverage_fell(run: Run) -> Iterator[Finding]:
    for summary, now, locked in _compared(run):
        found = (change for change in changes(locked.lock, now, summary.rank) if _is_loss(change))
        for alike in folded(found):
            zero = alike[0].after == 0
            severity = Severity.ERROR if zero else Severity.WARNING
            yield _finding("MG801", severity, summary, locked, alike)


@rule(
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
def coverage_changed(run: Run) -> Iterator[Finding]:
    for summary, now, locked in _compared(run):
        found = (c for c in changes(locked.lock, now, summary.rank) if not _is_loss(c))
        for alike in folded(found):
            yield _finding("MG802", Severity.NOTE, summary, locked, alike)
        changed = counts(locked.lock, now, summary.rank)
        if changed:
            yield Finding(
                rule="MG802",
                severity=Severity.NOTE,
                message=f"the graph has changed since the lock: {', '.join(changed)}",
                location=summary.start(),
                hint=_HINT,
                related=(_lock_at(locked, ""),),
                rank=summary.rank,
            )


def _finding(
    rule_id: str, severity: Severity, summary: Summary, locked: Locked, alike: list[Change]
) -> Finding:
    first = alike[0]
    wired = summary.tensor(first.tensor)
    critical = "critical tensor " if first.critical else ""
    return Finding(
        rule=rule_id,
        severity=severity,
        message=f"{critical}{subject(alike)}: {say(first)}",
        location=summary.declared_at(wired) if wired else summary.start(),
        hint=_HINT,
        related=(_lock_at(locked, first.tensor),),
        tensor=first.tensor,
        rank=summary.rank,
    )


def _lock_at(locked: Locked, tensor: str) -> Location:
    line = locked.lines.get(tensor, 1)
    return Location(locked.path, line, 1, line, 1, note="the lock says it here")


@rule(
    "MG803",
    "stale-waiver",
    Severity.WARNING,
    "A waiver is expired, or no finding needs it.",
    why="""
        A waiver outlives what it was written for, and then hides the next finding that it
        happens to match.
    """,
    example="""
        ```toml
        [[waivers]]
        rule = "MG101"
        tensor = "rope_*"
        reason = "position encoding comes with the next release"
        expires = 2026-03-31
        ```
        after the end of March, or once `rope_cos` is wired.
    """,
    fix="Take it out of the configuration, or give it a new date and a reason.",
    limits="""
        A waiver is unused only where everything was looked at: all ranks, and its rule.
        Waived findings are left out of every report and counted in the verdict.
    """,
    scope="memory",
)
def stale_waiver(run: Run) -> Iterator[Finding]:
    for stale in run.stale:
        waiver = stale.waiver
        yield Finding(
            rule="MG803",
            severity=Severity.WARNING,
            message=(
                f"the waiver of {waiver.rule} for {waiver.tensor} {stale.why} "
                f"(its reason: {waiver.reason})"
            ),
            location=waiver.location,
            hint="take it out, or give it a new date",
        )
