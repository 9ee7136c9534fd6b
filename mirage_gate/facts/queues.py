"""Whether the workers' queues, taken in order, ever wait at all their heads.

Event 1 hands all tasks out to the workers in order of their ids. A worker takes the tasks of its
queue in order and waits at each until its event has fired; so a task that is waited for by
all heads, and stands behind them, never runs. The most lenient way to hand tasks out is to give
the next one to whoever is free: where that stalls, every other way does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.events import LAUNCH

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

MOST_WORKERS = 144
"""Workers that MPK starts on the largest GPU it knows (``get_configurations_from_gpu``)."""


class QueueStall(msgspec.Struct, frozen=True):
    """All workers wait: ``waiting`` is the first task of those at the heads of the queues.

    It waits for ``event``; ``missing`` is a task that has to trigger that event, and has not
    been handed out.
    """

    waiting: int
    event: int
    missing: int


def queue_stall(facts: RankFacts, workers: int) -> QueueStall | None:
    """Give the point at which ``workers`` workers wait for a task behind them; None for none."""
    short = facts.shortened
    if short is not None and next(_late_events(short.facts), None) is None:
        return None  # nor is any late in the layers that repeat those
    late = set(_late_events(facts))
    return _run(facts, workers, late) if late else None


def _late_events(facts: RankFacts) -> Iterator[int]:
    """The events that fire, and that a task waits for which has a lower id than its producers."""
    events = facts.events
    # The last one of a kind wins: how often a group occurs does not matter, where it ends does.
    last = dict(zip(facts.wiring.group_of, count(), strict=False))
    fired = events.run.fired
    for position, waiting in enumerate(events.waiting):
        if position == LAUNCH or not waiting or not fired[position]:
            continue
        produced = max((last[g.number] for g in events.triggering[position]), default=-1)
        if produced > min(group.first for group in waiting):
            yield position


def _run(facts: RankFacts, workers: int, late: set[int]) -> QueueStall | None:
    events = facts.events
    needed = [event.num_triggers for event in events.events]
    # What never fires is told elsewhere; who waits for it holds nobody up here.
    passes = [not fired for fired in events.run.fired]
    group_of = facts.wiring.group_of
    waits, fires, weight = events.waits, events.fires, events.weight
    signals = [n // w if w else 0 for n, w in zip(events.signals, weight, strict=True)]
    held: dict[int, list[int]] = {}
    busy = 0

    def run(task: int) -> None:
        nonlocal busy
        wave = [task]
        while wave:
            number = group_of[wave.pop()]
            event = fires[number]
            if event < 0:
                continue
            needed[event] -= signals[number]
            if needed[event] <= 0 and event in held:
                ready = held.pop(event)
                busy -= len(ready)
                wave += ready

    for task in range(2, len(group_of)):
        event = waits[group_of[task]]
        if event < 0 or event == LAUNCH or passes[event] or needed[event] <= 0:
            run(task)
            continue
        held.setdefault(event, []).append(task)
        busy += 1
        if busy >= workers:
            return _stall(facts, held, task, late)
    return None


def _stall(facts: RankFacts, held: dict[int, list[int]], last: int, late: set[int]) -> QueueStall:
    group_of, fires = facts.wiring.group_of, facts.events.fires
    # Of the events that are waited for, one whose missing task is itself behind all heads.
    for event in sorted(held, key=lambda event: (event not in late, held[event][0])):
        for task in range(last + 1, len(group_of)):
            if fires[group_of[task]] == event:
                return QueueStall(held[event][0], event, task)
    event = min(held)
    return QueueStall(held[event][0], event, held[event][0])
