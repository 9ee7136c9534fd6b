"""Which races are one finding, and which of those follow from something else.

A finding on order is about a kind of race and a role of tensors: what happens in every layer is
one. It follows from another mistake if all its races would be gone with that one mended
(:mod:`mirage_gate.facts.order.mended`): from a wrong trigger or a wrong wait, where the rest of the
file says which event was meant, or from other races.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mirage_gate.artifacts.names import role_of
from mirage_gate.facts.order.meant import Lost, lost_triggers, meant_waits
from mirage_gate.facts.order.mended import Mend, Mended

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.order.races import Race, TensorOrder
    from mirage_gate.facts.order.waves import Wave
    from mirage_gate.facts.wiring import Group

Kind = Literal["read", "overwritten", "written twice"]
"""A read and a write before it; a read and a write after it; two writes."""

Key = tuple[Kind, str, bool, str]
"""The kind of some races, their tensors' role, whether their bytes surely meet; and what is wrong
with an event so that they follow from it, if anything is."""

_MOST_MENDS, _MOST_GROUPS, _MOST_RACES = 12, 12, 500
"""From so many events, and groups of so many races each, is anything taken to follow: each is a
graph of events to look at."""


class Following:
    """What follows from what, among what is wrong with events and order."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def races(self) -> dict[Key, list[Race]]:
        """The races, by what one finding is about."""
        alike: dict[Key, list[Race]] = {}
        for tensor, order in self._facts.order.tensors.items():
            role = role_of(tensor)
            for race in _without_echoes(order):
                key = (_kind_of(race), role, race.certain, self._cause_of(race))
                alike.setdefault(key, []).append(race)
        return alike

    def _cause_of(self, race: Race) -> str:
        return next((text for text, one in self._mends.items() if one.orders(race)), "")

    @cached_property
    def more(self) -> dict[str, int]:
        """Of how many tensors of a role not every race is listed."""
        more: dict[str, int] = {}
        for tensor, order in self._facts.order.tensors.items():
            role = role_of(tensor)
            more[role] = more.get(role, 0) + order.more
        return more

    @cached_property
    def lost(self) -> dict[int, Lost]:
        """The events that lack triggers of which it is known where they go."""
        return {lost.event: lost for lost in lost_triggers(self._facts)}

    @cached_property
    def waits(self) -> dict[int, dict[int, int]]:
        """By event, the groups in its range that wait for another."""
        return meant_waits(self._facts)

    @cached_property
    def _mends(self) -> dict[str, Mended]:
        """What the events' own fields say is meant, by what is wrong."""
        mends = {lacking(lost.event): Mend(fires=lost.fires) for lost in self.lost.values()}
        for event, waits in self.waits.items():
            mends[astray(event)] = Mend(waits=waits)
        if len(mends) > _MOST_MENDS:
            return {}
        return {text: Mended(self._facts, mend) for text, mend in mends.items()}

    @cached_property
    def _orders(self) -> dict[Key, Mended]:
        """What there would be without each of the first groups of races."""
        sure = [
            key
            for key, races in sorted(self.races.items())
            if key[2] and len(races) <= _MOST_RACES and not self.more[key[1]]
        ]
        return {
            key: Mended(self._facts, Mend(races=tuple(self.races[key])))
            for key in sure[:_MOST_GROUPS]
        }

    def causes_of(self, key: Key) -> list[str]:
        """Say from what a group of races follows."""
        if self.more[key[1]]:
            return []
        races = self.races[key]
        return [key[3]] * (key[3] != "") + [
            unordered(other)
            for other, one in self._orders.items()
            if other != key and all(map(one.orders, races))
        ]

    def causes_of_lost(self, groups: Iterable[Group]) -> list[str]:
        """Say from what it follows that END does not wait for some tasks."""
        groups = list(groups)
        found = [text for text, one in self._mends.items() if one.leads_to_end(groups)]
        return found + [
            unordered(key) for key, one in self._orders.items() if one.leads_to_end(groups)
        ]

    def causes_of_cycles(self) -> list[str]:
        """Say from what it follows that events wait for each other."""
        return [text for text, one in self._mends.items() if not one.goes_round]

    def causes_of_surplus(self, event: int) -> Iterator[str]:
        """Say from what it follows that an event gets too many triggers."""
        takers = [lost.event for lost in self.lost.values() if event in lost.taken]
        if len(takers) == 1:
            yield lacking(takers[0])


def lacking(event: int) -> str:
    """What is wrong where tasks that are meant for an event trigger another or none."""
    return f"event {event} lacks triggers that go astray"


def astray(event: int) -> str:
    """What is wrong where tasks in an event's range wait for another."""
    return f"tasks in the range of event {event} do not wait for it"


def bad_id_of(text: str) -> str:
    """What is wrong where it is ids of no event that make tasks go astray."""
    return f"{text}: their ids are those of no event"


def silent(event: int) -> str:
    """What is wrong where an event never fires."""
    return f"event {event} never fires"


def unordered(key: Key) -> str:
    """What is wrong where nothing orders some tasks."""
    kind, role, _, cause = key
    return f"{role} is {kind} with nothing to order it{cause and ': '}{cause}"


def _kind_of(race: Race) -> Kind:
    if race.earlier_writes and race.later_writes:
        return "written twice"
    return "read" if race.earlier_writes or race.unprovided else "overwritten"


def _without_echoes(order: TensorOrder) -> list[Race]:
    """Leave out two writers if the later one races with a reader: the same edge is missing.

    Where not all races are listed, the one with the reader may be among those that are not:
    then a kernel that races with a reader elsewhere counts as one that does.
    """
    readers = [
        race.earlier if race.earlier_writes else race.later
        for race in order.races
        if race.certain and not (race.earlier_writes and race.later_writes)
    ]
    named = {id(wave) for wave in readers}
    kernels = {_kernel(wave) for wave in readers} if order.more else set()
    return [
        race
        for race in order.races
        if not (race.earlier_writes and race.later_writes)
        or race.earlier is race.later
        or not (id(race.later) in named or _kernel(race.later) in kernels)
    ]


def _kernel(wave: Wave) -> tuple[int, int]:
    return wave.first.task_type, wave.first.variant
