"""MG103: a scratch or symmetric buffer is allocated and no task references it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import size
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG103",
    "unused-buffer",
    Severity.NOTE,
    "A scratch or symmetric buffer is allocated and no task references it.",
    why="""
        Builders allocate some buffers for every configuration, so an unused one is normal.
        It costs device memory, and now and then it is the trace of an operator that was
        meant to be there.
    """,
    example="`all_reduce_buf` is allocated in a run on one GPU.",
    fix="Allocate the buffer only where it is used, or leave it.",
)


@RULE.checked_by
def unused_buffer(facts: RankFacts) -> Iterator[Finding]:
    carried = facts.wiring.carried
    for name, declaration in facts.declared.items():
        if declaration.kind not in (*BUFFERS, "unknown") or name in carried:
            continue
        if facts.is_critical(declaration):
            continue  # MG101 says it
        kind = "tensor of unknown storage" if declaration.kind == "unknown" else declaration.kind
        yield RULE.finding(
            facts.rank,
            f"{kind} {name}{size(declaration)} is allocated and no task references it",
            declaration.location,
            hint="allocate it only where it is used",
            tensor=name,
        )
