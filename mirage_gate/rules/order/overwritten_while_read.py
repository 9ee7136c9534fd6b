"""MG302: a task overwrites bytes that an earlier one may still be reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule
from mirage_gate.rules.order._races import LIMITS, race_findings

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG302",
    "overwritten-while-read",
    Severity.ERROR,
    "A task overwrites bytes that an earlier one may still be reading.",
    why="""
        Activation buffers are shared by all layers. When nothing makes the next writer wait
        for the last reader, a slow reader gets values of the layer after.
    """,
    example="""
        Layer 1 quantizes into the buffer that layer 0's latent projection reads, and that
        projection leads to END alone.
    """,
    fix="""
        Make the writer's operator depend on the reader's, directly or over what follows
        from it, or give it a buffer of its own.
    """,
    limits=LIMITS,
    repeats=True,
)


@RULE.checked_by
def overwritten_while_read(facts: RankFacts) -> Iterator[Finding]:
    yield from race_findings(RULE, facts)
