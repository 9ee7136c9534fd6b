"""MG502: a dispatch body reads a slot that a task of that type does not fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import empty_in
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._shared import selected_branches

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG502",
    "missing-slot",
    Severity.ERROR,
    "A dispatch body reads a slot that a task of that type does not fill.",
    why="""
        The task descriptor's slots beyond the task's own are uninitialised: the kernel
        follows a pointer that nobody set.
    """,
    example="The body names `task_desc->input_ptrs[4]`, and its tasks have four inputs.",
    fix="Give the operator the tensor it lacks, or emit kernel and graph together.",
    repeats=True,
)


@RULE.checked_by
def missing_slot(facts: RankFacts) -> Iterator[Finding]:
    for branch, groups in selected_branches(facts):
        for side, named in (("input", branch.inputs), ("output", branch.outputs)):
            needed = max(named, default=-1) + 1
            short = [g for g in groups if len(g.inputs if side == "input" else g.outputs) < needed]
            if not short:
                continue
            has = min(len(g.inputs if side == "input" else g.outputs) for g in short)
            lacking = sorted(slot for slot in named if slot >= has)
            yield RULE.finding(
                facts.rank,
                (
                    f"{branch.type_name} variant {branch.variant} reads "
                    f"{side} {', '.join(map(str, lacking))}, and {tasks(facts, short)} "
                    f"fill {has}"
                ),
                branch.location,
                hint=f"give the operator the {side} it lacks, or emit both files together",
                related=(
                    facts.in_graph(
                        "all_tasks", short[0].first, f"{side}s", note=f"{has} {side}s here"
                    ),
                ),
                causes=[empty_in(facts, slot, short) for slot in lacking if side == "input"],
            )
