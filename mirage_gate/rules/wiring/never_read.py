"""MG104: a scratch tensor is written and no task reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import size, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG104",
    "never-read",
    Severity.WARNING,
    "A scratch tensor is written and no task reads it.",
    why="""
        Work whose result nobody uses is either wasted or, more often, a consumer that reads
        another buffer than it should. What the known final steps (argmax, sampling,
        verification, acceptance) write is for the host and is not reported.
    """,
    example="`mlp_mid` is written by the gate/up projection and SiLU reads `mlp_mid_old`.",
    fix="Wire the consumer to this tensor, or drop the operator that writes it.",
    limits="A fork's own final step is told apart with `final = true` in `task-types`.",
)


@RULE.checked_by
def never_read(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind not in BUFFERS:
            continue
        producers = facts.wiring.producers(name)
        if not producers or facts.wiring.consumers(name):
            continue
        if any(facts.task_type(group.task_type).final for group in producers):
            continue
        writer = next(access for access in facts.wiring.of(name) if access.writes)
        yield RULE.finding(
            facts.rank,
            (
                f"{declaration.kind} {name}{size(declaration)} is written by "
                f"{tasks(facts, producers)} and read by none"
            ),
            declaration.location,
            hint=f"wire its reader to {name}, or drop the operator that writes it",
            related=(slot_field(facts, writer, "base_ptr", "written here"),),
            tensor=name,
        )
