"""MG201: bytes of a scratch tensor are read that no task writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, size, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG201",
    "unwritten-range",
    Severity.ERROR,
    "Bytes of a scratch tensor are read that no task writes.",
    why="""
        Only tasks fill scratch memory. What is read and never written is whatever was there
        before, often the last iteration's or zeros in the first: results that are almost
        right.
    """,
    example="""
        The projection writes columns 0 to 4095 of `attn_in`, and attention reads 6144.
    """,
    fix="Give the writing operator as many tiles as the reader expects, or the other way round.",
    limits="""
        Slots whose rows are picked at run time, and slots that other ranks write, prove
        nothing here and are left out.
    """,
    repeats=True,
)


@RULE.checked_by
def unwritten_range(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration, accesses in touched_tensors(facts):
        if declaration.kind not in BUFFERS:
            continue
        writes = [a for a in accesses if a.writes]
        if not writes or any(a.slot.remote for a in writes):
            continue
        regions = facts.regions.of(name)
        written = regions.union(a.tensor for a in writes)
        readers = [
            a for a in accesses if a.reads and a.slot.exact and regions.mask(a.tensor) & ~written
        ]
        if not readers:
            continue
        missing = regions.union(a.tensor for a in readers) & ~written
        yield RULE.finding(
            facts.rank,
            (
                f"{regions.text(missing)} of {name}{size(declaration)} are read by "
                f"{tasks(facts, groups_of(readers))} and written by none"
            ),
            slot_field(facts, readers[0], "offset"),
            hint=f"let the operator that fills {name} write all that is read of it",
            related=(
                *declared(facts, name),
                slot_field(facts, writes[0], "offset", "the tensor's first writer"),
            ),
            tensor=name,
        )
