"""Which events some tasks are meant for: where the rest of the file says it, and it adds up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.events import INVALID, LAUNCH, NOTHING

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group


class Lost(msgspec.Struct, frozen=True):
    """An event that gets too few triggers, and the tasks whose triggers it lacks.

    ``fires`` maps those groups, by number, to the event. ``taken`` are events that get these
    triggers instead, and too many for it.
    """

    event: int
    fires: dict[int, int]
    taken: tuple[int, ...] = ()


def lost_triggers(facts: RankFacts) -> list[Lost]:
    """Find the triggers that events lack, of those that go nowhere or to an event with too many.

    They are meant for an event if others of their operator trigger it, and if there are exactly
    as many as it lacks, and as the other events have too many.
    """
    events = facts.events
    change = {
        event: events.arrivals[event] - events.events[event].num_triggers
        for event in range(1, events.count)
        if events.arrivals[event] != events.events[event].num_triggers
    }
    if not any(lacks < 0 for lacks in change.values()):
        return []
    grid = facts.order.grid
    stray: dict[int, list[Group]] = defaultdict(list)
    for group in facts.wiring.groups:
        fires = events.fires[group.number]
        runs = events.weight[group.number] and events.waits[group.number] != NOTHING
        if runs and (fires in (NOTHING, INVALID) or change.get(fires, 0) > 0):
            stray[grid[group.number]].append(group)
    found: list[Lost] = []
    claimed: list[int] = []
    for event, lacks in change.items():
        if lacks >= 0:
            continue
        operators = {grid[group.number] for group in events.triggering[event]}
        groups = [group for operator in sorted(operators) for group in stray[operator]]
        if sum(events.signals[group.number] for group in groups) == -lacks:
            taken = {fires for g in groups if (fires := events.fires[g.number]) >= 0}
            lost = Lost(event, {g.number: event for g in groups}, tuple(sorted(taken)))
            found.append(lost)
            claimed += lost.fires
    every = {number: event for lost in found for number, event in lost.fires.items()}
    for event in {event for lost in found for event in lost.taken}:
        gone = sum(events.signals[n] for n in every if events.fires[n] == event)
        if gone != change[event]:
            found = [lost for lost in found if event not in lost.taken]
    return found if len(every) == len(claimed) else []


def meant_waits(facts: RankFacts) -> dict[int, dict[int, int]]:
    """Give, by event, the groups whose tasks are all in its range and wait for another one."""
    graph, events = facts.graph, facts.events
    tasks = len(graph.tasks)
    first = set(graph.first_tasks)
    ranges = [
        (position, max(2, event.first_task_id), min(event.last_task_id, tasks))
        for position, event in enumerate(events.events)
        if LAUNCH < position < events.end
    ]
    if sum(max(0, high - low) for _, low, high in ranges) > 2 * tasks:
        return {}  # ranges over one another say nothing
    found: dict[int, dict[int, int]] = {}
    for position, low, high in ranges:
        inside = Counter(
            graph.alike_of[task]
            for task in range(low, high)
            if events.waits[graph.alike_of[task]] != position and task not in first
        )
        whole = [n for n, count in inside.items() if count == facts.wiring.groups[n].count]
        if whole:
            found[position] = dict.fromkeys(whole, position)
    return found
