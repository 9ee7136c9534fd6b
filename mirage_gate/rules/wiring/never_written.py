"""MG105: a scratch or symmetric tensor is read, and nothing writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import ill
from mirage_gate.rules._words import size, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG105",
    "never-written",
    Severity.ERROR,
    "A scratch or symmetric tensor is read, and nothing writes it.",
    why="""
        Only tasks fill scratch memory. A tensor that is read and never written holds
        whatever was there before: the operator computes with garbage.
    """,
    example="`mtp_target_token_ids` is read by the verification step and no task writes it.",
    fix="Wire the operator that should produce the tensor, or read the one that it does write.",
    repeats=True,
)


@RULE.checked_by
def never_written(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind not in BUFFERS:
            continue
        consumers = facts.wiring.consumers(name)
        if not consumers or facts.wiring.producers(name):
            continue
        if not all(facts.knows(group.task_type) for group in consumers):
            continue  # an unknown kernel may write its inputs
        reader = next(access for access in facts.wiring.of(name) if access.reads)
        yield RULE.finding(
            facts.rank,
            (
                f"{declaration.kind} {name}{size(declaration)} is read by "
                f"{tasks(facts, consumers)} and written by none"
            ),
            declaration.location,
            hint=f"wire the operator that produces {name}",
            related=(slot_field(facts, reader, "base_ptr", "read here"),),
            tensor=name,
            causes=[ill(name)],
        )
