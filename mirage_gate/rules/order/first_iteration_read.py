"""MG305: a buffer that only tasks fill is read before anything writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.order._sides import Side

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.order import EarlyRead

RULE = Rule(
    "MG305",
    "first-iteration-read",
    Severity.WARNING,
    "A buffer that only tasks fill is read before anything writes it.",
    why="""
        Every write of those bytes comes after the read, so the read gets what the iteration
        before left there, and in the first iteration what was in memory. Where a value is
        meant to be carried over, it needs a start value.
    """,
    example="A residual is read in layer 0 from the buffer that layer 61 writes.",
    fix="""
        Read the tensor that is written before; or fill the buffer before the first iteration
        (a host tensor says so in the builder).
    """,
    limits="""
        Reads whose rows are picked at run time are not judged. Where a task that no event orders
        may write first, as one that waits for an event which needs no trigger, it is a race.
    """,
    repeats=True,
)


@RULE.checked_by
def first_iteration_read(facts: RankFacts) -> Iterator[Finding]:
    alike: dict[tuple[str, int], list[EarlyRead]] = {}
    for tensor, order in facts.order.tensors.items():
        for early in order.early:
            alike.setdefault((role_of(tensor), early.reader.first.task_type), []).append(early)
    for reads in alike.values():
        yield _early(facts, reads)


def _early(facts: RankFacts, reads: list[EarlyRead]) -> Finding:
    early = reads[0]
    tensor = early.tensor
    reading = next(p for p in early.reader.parts if p.reads & early.cells)
    writing = next(p for p in early.writer.parts if p.writes & early.cells)
    reader = Side(facts, tensor, reading, writes=False)
    writer = Side(facts, tensor, writing, writes=True)
    cells = reader.cells & early.cells if reader.cells else 0
    reader.choose(cells)
    what = facts.regions.of(tensor).text(cells) if cells else "a tile"
    count = facts.events.tasks([part.group for early in reads for part in early.reader.parts])
    more = f"; {plural(count - 1, 'more task')} of that type likewise" if count > 1 else ""
    return RULE.finding(
        facts.rank,
        (
            f"{reader.task} reads {what} of {tensor} before any task writes them: "
            f"{writer.task} does, later{more}"
        ),
        reader.at_slot(),
        hint=f"read what is written before, or give {tensor} a start value",
        related=(writer.at_slot(f"{writer.task} writes {tensor}"),),
        tensor=tensor,
    )
