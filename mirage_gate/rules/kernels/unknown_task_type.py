"""MG507: a task type is in no table: its inputs are taken as read, its outputs as written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG507",
    "unknown-task-type",
    Severity.NOTE,
    "A task type is in no table: its inputs are taken as read, its outputs as written.",
    why="""
        A fork's own operators have codes and slots that the built-in table cannot know.
        Nothing about such a type is an error unless it holds whatever the kernel does.
    """,
    example="Tasks of type 296, and no `TASK_… = 296` that the gate knows.",
    fix="""
        Give `--runtime-header` the fork's header, and describe the slots under `task-types`
        in the configuration.
    """,
    repeats=True,
)


@RULE.checked_by
def unknown_task_type(facts: RankFacts) -> Iterator[Finding]:
    for task_type in sorted({group.task_type for group in facts.wiring.groups}):
        if facts.knows(task_type):
            continue
        groups = [g for g in facts.wiring.groups if g.task_type == task_type]
        named = task_type in facts.task_types
        what = "is known by name only" if named else "is unknown"
        yield RULE.finding(
            facts.rank,
            f"task type {task_type} {what}: {tasks(facts, groups)}",
            facts.in_graph("all_tasks", groups[0].first, "task_type"),
            hint=f"{'' if named else 'name it with --runtime-header, and '}describe its slots "
            "under task-types",
        )
