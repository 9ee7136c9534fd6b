"""MG904: the graph lacks a field that the CUDA file's loader insists on, or some tasks do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG904",
    "version-skew",
    Severity.ERROR,
    "The graph lacks a field that the CUDA file's loader insists on, or some tasks lack one.",
    why="""
        The two halves are of different versions of MPK: the loader throws at start-up, or,
        worse, reads another meaning. A warning where only some tasks lack a field and the
        loader does without: in MPK's graphs all tasks have the same fields.
    """,
    example='The loader has `task.at("task_offset")`, and the graph is older than that field.',
    fix="Emit both files again with one version.",
)


@RULE.checked_by
def version_skew(facts: RankFacts) -> Iterator[Finding]:
    count = len(facts.graph.tasks)
    for field, (task, lacking) in facts.absent_fields.items():
        location = facts.cuda.loader_fields.get(field)
        here = facts.in_graph("all_tasks", task, note=f"no {field} here")
        what = f"{field}, which {lacking} of {count} tasks lack (first: task {task})"
        if location is None:
            message = f"the other tasks carry {what}"
        else:
            message = f"the loader insists on {what}: the pair is not of one build"
        yield RULE.finding(
            facts.rank,
            message,
            location or here,
            hint="emit kernel and graph again, together",
            severity=Severity.WARNING if location is None else Severity.ERROR,
            related=(here,) if location else (),
        )
