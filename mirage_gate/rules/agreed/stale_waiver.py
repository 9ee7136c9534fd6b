"""MG803: a waiver is expired, or no finding needs it."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.memory import Run
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG803",
    "stale-waiver",
    Severity.WARNING,
    "A waiver is expired, or no finding needs it; or a comment that ignores a rule does nothing.",
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
        A waiver, or a builder's comment `# mirage-gate: ignore[MG102] reason`, is unused only
        where everything was looked at: all ranks, and its rule.
        Waived findings are left out of every report and counted in the verdict.
    """,
    scope="memory",
)


@RULE.checked_by
def stale_waiver(run: Run) -> Iterator[Finding]:
    for stale in run.stale:
        waiver = stale.waiver
        yield RULE.finding(
            0,
            (
                f"the waiver of {waiver.rule} for {waiver.tensor} {stale.why} "
                f"(its reason: {waiver.reason})"
            ),
            waiver.location,
            hint="take it out, or give it a new date",
        )
