"""Triggers that are meant for an event and go elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Location
from mirage_gate.rules.events._shared import event_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group


def lost_by(facts: RankFacts, event: int) -> list[Group]:
    """Give the tasks whose triggers an event lacks, where it is known which they are."""
    lost = facts.order.following.lost.get(event)
    return [facts.wiring.groups[number] for number in lost.fires] if lost else []


def triggers_astray(facts: RankFacts, event: int) -> Iterator[Location]:
    """Point at the triggers that are meant for an event and go elsewhere."""
    for group in lost_by(facts, event)[:3]:
        note = f"{event_text(group.trigger)} here, and others of its operator trigger event {event}"
        yield facts.in_graph("all_tasks", group.first, "trigger_event", note=note)
