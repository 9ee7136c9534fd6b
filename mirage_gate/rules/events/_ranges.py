"""The ranges of task ids that events launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.events import LAUNCH
from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts


class Range(msgspec.Struct, frozen=True):
    """The tasks ``low`` to ``high`` (exclusive) that an event says wait for it."""

    low: int
    high: int
    event: int


def ranges_of(facts: RankFacts) -> list[Range]:
    """Every range that holds a task, in order of the tasks."""
    events, count = facts.graph.events, len(facts.graph.tasks)
    found = [
        Range(event.first_task_id, min(event.last_task_id, count), position)
        for position, event in enumerate(events)
        if position > LAUNCH and position < len(events) - 1
    ]
    return sorted((r for r in found if r.low < r.high), key=lambda r: (r.low, r.event))


def at_range(facts: RankFacts, event: int, note: str = "") -> Location:
    """Point at the start of an event's range."""
    return facts.in_graph("all_events", event, "first_task_id", note=note)
