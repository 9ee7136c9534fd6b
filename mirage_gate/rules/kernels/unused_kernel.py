"""MG503: a dispatch branch that no task selects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._shared import dispatched_kernels

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG503",
    "unused-kernel",
    Severity.NOTE,
    "A dispatch branch that no task selects.",
    why="""
        In correct pairs every branch is selected by some task. A branch too many costs
        compile time, and may be the trace of an operator that was meant to be there.
    """,
    example="The chain has `TASK_SILU_MUL` variant 3, and tasks use 0 to 2.",
    fix="Emit kernel and graph again, together.",
)


@RULE.checked_by
def unused_kernel(facts: RankFacts) -> Iterator[Finding]:
    codes = {kind.name: code for code, kind in facts.task_types.items()}
    used = {(t, v) for t, v in dispatched_kernels(facts)}
    unknown = any(not facts.knows(task_type) for task_type, _ in used)
    for (name, variant), branch in facts.cuda.dispatch.items():
        if (codes.get(name), variant) in used or (name not in codes and unknown):
            continue
        yield RULE.finding(
            facts.rank,
            f"no task selects {name} variant {variant}",
            branch.location,
            hint="emit kernel and graph again, together",
        )
