"""Events: who triggers which, who waits for it, and what therefore happens before what.

Sources: MPK's ``persistent_kernel.cuh`` (the worker loop) and the graphs that it emits. A
worker takes a task, waits until its ``dependent_event`` was triggered ``num_triggers`` times
for every iteration so far, runs it, and adds one to its ``trigger_event``. Nothing else
orders tasks: A happens before B exactly if A's trigger is B's dependent event or one of
that event's ancestors, where every task makes an edge from the event it waits for to the
one it triggers. An event's task range only says who waits for it; the worker does not look
at it, save for event 1, whose range is all that is launched.

A trigger with the NVSHMEM tag lands on another rank. Every rank runs the same program, so
what this rank sends to the others' event *p* is what the others send to its own event *p*:
such a trigger is counted, and orders, as if it landed here.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import prod
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import NO_EVENT

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

LAUNCH = 1
"""The event that launches every task but the first two."""

NOTHING = -1
INVALID = -2
"""In ``EventGraph.waits`` and ``.fires``: no event at all, and one that is not there."""


def tag_of(event_id: int) -> int:
    """The upper 16 bits: 0, or :data:`NVSHMEM_TAG` where ranks talk."""
    return event_id >> 48


def gpu_of(event_id: int) -> int:
    """The rank that owns the event."""
    return event_id >> 32 & 0xFFFF


def position_of(event_id: int) -> int:
    """The index into ``all_events``. Ask only after comparing with ``NO_EVENT``."""
    return event_id & 0xFFFF_FFFF


class Run(msgspec.Struct, frozen=True):
    """One iteration, run by counting.

    ``fired`` says of each event whether its triggers arrived; ``idle`` are the groups that
    never start, and ``idle_tasks`` how many tasks they are.
    """

    fired: list[bool]
    idle: list[Group]
    idle_tasks: int


class Stall(msgspec.Struct, frozen=True):
    """Why an iteration does not end.

    ``event`` is the first to blame: the tasks of the whole graph do not trigger it often
    enough, or it waits for itself. ``chain`` leads from it to END, over events that wait
    for it in turn; it is empty where no path leads there. ``event`` is None where only
    tasks that wait for an event that is not there are to blame.
    """

    idle_tasks: int
    event: int | None
    chain: tuple[int, ...]


class EventGraph:
    """The events of a rank. Events are named by position, groups by number.

    Nothing here trusts the ids: one that points nowhere makes no edge, a task behind a
    cycle has no order, and neither is an error of this module's.
    """

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self.events = facts.graph.events
        self.count = len(self.events)
        self.end = self.count - 1

    @cached_property
    def weight(self) -> list[int]:
        """How many tasks of each group run."""
        # Task 0 only ends a worker, and task 1 is not launched by event 1.
        return [group.count - (group.first == 0) for group in self._facts.wiring.groups]

    @cached_property
    def signals(self) -> list[int]:
        """How often each group triggers its event in one iteration."""
        return [
            weight * self._signals(group)
            for weight, group in zip(self.weight, self._facts.wiring.groups, strict=True)
        ]

    @cached_property
    def waits(self) -> list[int]:
        """The event that each group waits for."""
        return [
            NOTHING if self._outside(group) else self._waits(group.dependent)
            for group in self._facts.wiring.groups
        ]

    @cached_property
    def fires(self) -> list[int]:
        """The event that each group triggers."""
        return [self._position(group.trigger) for group in self._facts.wiring.groups]

    @cached_property
    def joins(self) -> Counter[tuple[int, int]]:
        """How many groups that run wait for one event and trigger another."""
        weighed = zip(self.waits, self.fires, self.weight, strict=True)
        return Counter((waits, fires) for waits, fires, weight in weighed if weight)

    @staticmethod
    def _outside(group: Group) -> bool:
        """Whether event 1 does not launch the group: task 0, or task 1 and what is just like it."""
        return group.first == 1 or (group.first == 0 and group.count == 1)

    def _signals(self, group: Group) -> int:
        """How often one task triggers its event: copies between ranks once signalled each row."""
        if not self._facts.task_type(group.task_type).signals_rows or not group.inputs:
            return 1
        *rows, _ = self._facts.graph.tensors[group.inputs[0]].dims or (1, 1)
        return prod(rows)

    def _position(self, event_id: int) -> int:
        if event_id == NO_EVENT:
            return NOTHING
        position = event_id & 0xFFFF_FFFF
        return position if position < self.count else INVALID

    def _waits(self, event_id: int) -> int:
        if event_id == NO_EVENT:
            return LAUNCH if self.count > LAUNCH else INVALID
        return self._position(event_id)

    @cached_property
    def gpu(self) -> int:
        """The rank that most ids of the file name as their own."""
        uses: dict[int, int] = {}
        for group in self._facts.wiring.groups:
            uses[group.dependent] = uses.get(group.dependent, 0) + group.count
            uses[group.trigger] = uses.get(group.trigger, 0) + group.count
        votes: dict[int, int] = {}
        for event_id, count in uses.items():
            if event_id != NO_EVENT and not tag_of(event_id):
                gpu = gpu_of(event_id)
                votes[gpu] = votes.get(gpu, 0) + count
        return max(votes, key=lambda gpu: votes[gpu], default=self._facts.rank)

    def is_remote(self, event_id: int) -> bool:
        """Whether a trigger lands on another rank."""
        return event_id != NO_EVENT and tag_of(event_id) != 0

    @cached_property
    def triggering(self) -> list[list[Group]]:
        """The groups that trigger each event."""
        return self._groups_by(self.fires)

    @cached_property
    def waiting(self) -> list[list[Group]]:
        """The groups that wait for each event; those that wait for nothing are launched by 1."""
        return self._groups_by(self.waits)

    def _groups_by(self, positions: list[int]) -> list[list[Group]]:
        found: list[list[Group]] = [[] for _ in range(self.count)]
        for group, position in zip(self._facts.wiring.groups, positions, strict=True):
            if position >= 0 and self.weight[group.number]:
                found[position].append(group)
        return found

    def tasks(self, groups: list[Group]) -> int:
        """Count the tasks of some groups, task 0 aside."""
        return sum(self.weight[group.number] for group in groups)

    @cached_property
    def arrivals(self) -> list[int]:
        """How often each event is triggered in one iteration, if every task runs."""
        return [sum(self.signals[g.number] for g in groups) for groups in self.triggering]

    @cached_property
    def edges(self) -> list[dict[int, Group]]:
        """The event graph: for each event, those behind it, each with the first group between."""
        edges: list[dict[int, Group]] = [{} for _ in range(self.count)]
        for group, waits, fires in zip(
            self._facts.wiring.groups, self.waits, self.fires, strict=True
        ):
            if waits >= 0 and fires >= 0:
                edges[waits].setdefault(fires, group)
        return edges

    @cached_property
    def _arranged(self) -> tuple[list[int], list[int]]:
        """All events that no cycle holds up, in an order that every edge follows; and the rest.

        Of events that may come next the one with the lowest position does. An event without
        any edge comes last: nothing is before or after it.
        """
        before = [0] * self.count
        for targets in self.edges:
            for target in targets:
                before[target] += 1
        roots = [event for event in range(self.count) if not before[event]]
        ready = [event for event in roots if self.edges[event]]
        heapify(ready)
        arranged: list[int] = []
        while ready:
            event = heappop(ready)
            arranged.append(event)
            for target in self.edges[event]:
                before[target] -= 1
                if not before[target]:
                    heappush(ready, target)
        arranged += [event for event in roots if not self.edges[event]]
        return arranged, [event for event in range(self.count) if before[event]]

    @property
    def order(self) -> list[int]:
        """A topological order of the events; those in or behind a cycle are not in it."""
        return self._arranged[0]

    @property
    def stuck(self) -> list[int]:
        """The events in or behind a cycle: what waits for them never starts."""
        return self._arranged[1]

    @cached_property
    def index(self) -> list[int]:
        """The place of each event in ``order``; -1 for one that is stuck."""
        index = [-1] * self.count
        for place, event in enumerate(self.order):
            index[event] = place
        return index

    @cached_property
    def before(self) -> Before:
        """What happens before what, by places in ``order``."""
        sources: list[list[int]] = [[] for _ in self.order]
        for place, event in enumerate(self.order):
            for target in self.edges[event]:
                if self.index[target] >= 0:
                    sources[self.index[target]].append(place)
        return Before(sources)

    @cached_property
    def cycles(self) -> list[list[int]]:
        """One cycle for each knot of events that wait for each other.

        Each is a list of events, each with an edge to the next, and from the last to the
        first. The edge that closes it is the one that goes furthest back: in what MPK emits
        every edge goes up.
        """
        return [self._cycle(knot) for knot in self._knots()]

    def _knots(self) -> list[set[int]]:
        """The strongly connected parts among the stuck events (Kosaraju's two passes)."""
        stuck = set(self.stuck)
        backward: dict[int, list[int]] = {event: [] for event in stuck}
        for event in stuck:
            for target in self.edges[event]:
                backward[target].append(event)  # what is behind a stuck event is stuck
        seen: set[int] = set()
        finished: list[int] = []
        for start in sorted(stuck):
            if start in seen:
                continue
            seen.add(start)
            path = [(start, iter(self.edges[start]))]
            while path:
                event, targets = path[-1]
                onward = next((target for target in targets if target not in seen), None)
                if onward is None:
                    finished.append(event)
                    path.pop()
                else:
                    seen.add(onward)
                    path.append((onward, iter(self.edges[onward])))
        knots: list[set[int]] = []
        taken: set[int] = set()
        for start in reversed(finished):
            if start in taken:
                continue
            knot, wave = {start}, [start]
            while wave:
                for event in backward[wave.pop()]:
                    if event not in taken and event not in knot:
                        knot.add(event)
                        wave.append(event)
            taken |= knot
            if len(knot) > 1 or start in self.edges[start]:
                knots.append(knot)
        return sorted(knots, key=min)

    def _cycle(self, knot: set[int]) -> list[int]:
        backward = [
            (target - event, event, target)
            for event in knot
            for target in self.edges[event]
            if target in knot and target <= event
        ]
        _, last, first = min(backward)
        return self.path(first, last, within=knot)

    def path(self, start: int, goal: int, within: set[int] | None = None) -> list[int]:
        """Give a shortest path from one event to another, both included; none is empty."""
        came: dict[int, int] = {start: start}
        wave = deque([start])
        while wave and goal not in came:
            event = wave.popleft()
            for target in self.edges[event]:
                if target not in came and (within is None or target in within):
                    came[target] = event
                    wave.append(target)
        if goal not in came:
            return []
        path = [goal]
        while path[-1] != start:
            path.append(came[path[-1]])
        return path[::-1]

    @cached_property
    def to_end(self) -> list[bool]:
        """Of each event, whether it is END or one that END waits for in the end."""
        reaches = [False] * self.count
        if not self.count:
            return reaches
        backward: list[list[int]] = [[] for _ in range(self.count)]
        for event, targets in enumerate(self.edges):
            for target in targets:
                backward[target].append(event)
        reaches[self.end] = True
        wave = [self.end]
        while wave:
            for event in backward[wave.pop()]:
                if not reaches[event]:
                    reaches[event] = True
                    wave.append(event)
        return reaches

    @cached_property
    def run(self) -> Run:
        """Run the first iteration by counting triggers."""
        groups = self._facts.wiring.groups
        needed = [event.num_triggers for event in self.events]
        fired = [False] * self.count
        # Task 1 is put on a worker's queue before anything else happens.
        started = [self._outside(group) for group in groups]
        wave = [group for group in groups if started[group.number]]
        # What needs no trigger does not wait; but first it must be launched.
        free = [p for p in range(2, self.count) if not needed[p]]
        arrived = [0] * self.count

        def fire(*positions: int) -> None:
            for position in positions:
                fired[position] = True
                for group in self.waiting[position]:
                    started[group.number] = True
                    wave.append(group)
            if LAUNCH in positions:
                fire(*free)

        if self.count > LAUNCH and not needed[LAUNCH]:
            fire(LAUNCH)
        while wave:
            group = wave.pop()
            position = self.fires[group.number]
            if position < 0 or not self.weight[group.number]:
                continue
            arrived[position] += self.signals[group.number]
            if arrived[position] >= needed[position] and not fired[position]:
                fire(position)
        idle = [group for group in groups if not started[group.number]]
        return Run(fired, idle, self.tasks(idle))

    @cached_property
    def stall(self) -> Stall | None:
        """Why END never fires or some task never starts, and whom to blame first; else None."""
        run = self.run
        if not self.count or (not run.idle and run.fired[self.end]):
            return None
        concerned = {self.waits[group.number] for group in run.idle}
        concerned |= {LAUNCH, self.end}
        behind = {event for cycle in self.cycles for event in cycle}
        to_blame = [
            event
            for event in range(1, self.count)
            if event in concerned
            and not run.fired[event]
            and (self.arrivals[event] < self.events[event].num_triggers or event in behind)
        ]
        if not to_blame:
            # Without any event but 0 there is no END to wait for, which MG406 says.
            return Stall(run.idle_tasks, None, ()) if run.idle else None
        first = to_blame[0]
        return Stall(run.idle_tasks, first, tuple(self.path(first, self.end)))


class Before:
    """Reachability among places 0, 1, … of a topological order.

    A place's ancestors (itself among them) are all places below ``base`` and those that
    ``bits`` has beyond it. The events of a layer have nearly all of the earlier layers for
    ancestors, so the bits stay few and a graph may have any number of events.
    """

    def __init__(self, sources: list[list[int]]) -> None:
        """``sources[i]`` are the places with an edge to place i, all of them below i."""
        self.base: list[int] = []
        self.bits: list[int] = []
        for place, places in enumerate(sources):
            base = max((self.base[source] for source in places), default=0)
            bits = 1 << (place - base)
            for source in places:
                bits |= self.bits[source] >> (base - self.base[source])
            full = ((bits + 1) & ~bits).bit_length() - 1
            self.base.append(base + full)
            self.bits.append(bits >> full)

    def holds(self, first: int, second: int) -> bool:
        """Whether ``first`` is ``second`` or one of its ancestors."""
        base = self.base[second]
        return first < base or bool(self.bits[second] >> (first - base) & 1)

    def missing(self, places: int, second: int) -> int:
        """Of a bit set of places, those that are neither ``second`` nor an ancestor of it."""
        base = self.base[second]
        rest = (places >> base) & ~self.bits[second]
        return rest << base if rest else 0

    def last_common(self, first: int, second: int) -> int:
        """Give the last place that is (or is an ancestor of) both; -1 for none."""
        low, high = sorted((first, second), key=self.base.__getitem__)
        base, apart = self.base[low], self.base[high] - self.base[low]
        bits = self.bits[low] & (self.bits[high] << apart | (1 << apart) - 1)
        return base + bits.bit_length() - 1
