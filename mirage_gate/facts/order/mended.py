"""What follows from what: which races would be gone if something else about events were right.

A mend is what one finding asks for: that a task triggers, or waits for, the event that it is
meant for, or that some tasks come before some others. The graph of events is built once more
with it. A race whose sides are ordered there is no mistake of its own: whoever mends the one,
in whatever way puts those tasks in that order, has mended the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.events import INVALID, NOTHING, Before

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.order.races import Race
    from mirage_gate.facts.order.waves import Wave
    from mirage_gate.facts.wiring import Group


class Mend(msgspec.Struct, frozen=True):
    """What is to be put right. ``waits`` and ``fires``: groups, by number, and the event meant.

    ``races`` are those whose earlier side is to come before the later one.
    """

    waits: dict[int, int] = {}
    fires: dict[int, int] = {}
    races: tuple[Race, ...] = ()


class Mended:
    """The events as they would be with a mend: nodes are events, and some groups of tasks.

    A group that the mend is about, or that triggers nothing that there is, is a node of its
    own: what comes after it comes after no event.
    """

    def __init__(self, facts: RankFacts, mend: Mend) -> None:
        self._facts = facts
        self._mend = mend
        events = facts.events
        concerned = {*mend.waits, *mend.fires}
        pairs = [(_meeting(race.earlier, race), _meeting(race.later, race)) for race in mend.races]
        concerned.update(number for pair in pairs for side in pair for number in side)
        concerned |= {
            number for number, fires in enumerate(events.fires) if fires in (NOTHING, INVALID)
        }
        self._own = {number: events.count + at for at, number in enumerate(sorted(concerned))}
        self._targets: list[set[int]] = [set() for _ in range(events.count + len(self._own))]
        apart = Counter(
            (events.waits[number], events.fires[number])
            for number in concerned
            if events.weight[number]
        )
        for (waits, fires), count in events.joins.items():
            if count > apart[waits, fires] and waits >= 0 and fires >= 0:
                self._targets[waits].add(fires)
        for number, node in self._own.items():
            if events.weight[number]:
                self._join(number, node)
        for earlier, later in pairs:
            between = len(self._targets)
            self._targets.append({self._own[number] for number in later})
            for number in earlier:
                self._targets[self._own[number]].add(between)

    def _join(self, number: int, node: int) -> None:
        waits, fires = self._waits(number), self._fires(number)
        if waits >= 0:
            self._targets[waits].add(node)
        if fires >= 0:
            self._targets[node].add(fires)

    def _waits(self, number: int) -> int:
        return self._mend.waits.get(number, self._facts.events.waits[number])

    def _fires(self, number: int) -> int:
        return self._mend.fires.get(number, self._facts.events.fires[number])

    @cached_property
    def _places(self) -> list[int]:
        """The place of each node in an order that every edge follows; -1 for one in a circle."""
        lacking = [0] * len(self._targets)
        for targets in self._targets:
            for target in targets:
                lacking[target] += 1
        ready = [node for node, count in enumerate(lacking) if not count]
        places = [-1] * len(self._targets)
        for at, node in enumerate(ready):  # grows
            places[node] = at
            for target in self._targets[node]:
                lacking[target] -= 1
                if not lacking[target]:
                    ready.append(target)
        return places

    @cached_property
    def goes_round(self) -> bool:
        """Whether something still waits for itself."""
        return any(place < 0 for place in self._places)

    @cached_property
    def _before(self) -> Before:
        sources: list[list[int]] = [[] for _ in self._places]
        for node, targets in enumerate(self._targets):
            for target in targets:
                sources[self._places[target]].append(self._places[node])
        return Before(sources)

    def orders(self, race: Race) -> bool:
        """Whether every task of the one side comes before every one of the other."""
        if self.goes_round or race.earlier is race.later:
            return False
        earlier, later = _meeting(race.earlier, race), _meeting(race.later, race)
        return self._comes_before(earlier, later) or self._comes_before(later, earlier)

    def _comes_before(self, one: set[int], other: set[int]) -> bool:
        ends = {self._own.get(number, self._fires(number)) for number in one}
        starts = {self._own.get(number, self._waits(number)) for number in other}
        if min(ends) < 0 or min(starts) < 0:
            return False
        places, before = self._places, self._before
        return all(before.holds(places[end], places[start]) for end in ends for start in starts)

    def leads_to_end(self, groups: Iterable[Group]) -> bool:
        """Whether END waits for all of some tasks."""
        events = self._facts.events
        if self.goes_round or not events.count:
            return False
        end = self._places[events.end]
        for group in groups:
            node = self._own.get(group.number)
            node = self._fires(group.number) if node is None else node
            if node < 0 or not self._before.holds(self._places[node], end):
                return False
        return True


def _meeting(wave: Wave, race: Race) -> set[int]:
    """Give the groups of a wave, by number, that touch the bytes of a race."""
    return {p.group.number for p in wave.parts if (p.reads | p.writes) & race.cells}
