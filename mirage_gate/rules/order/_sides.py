"""The two tasks of a race, and the bytes they meet on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.order import Part, Race, Wave
    from mirage_gate.facts.wiring import Access, Group


def kind_of(facts: RankFacts, group: Group) -> str:
    """Name the type of a group's tasks."""
    return facts.task_type(group.task_type).name


class Side:
    """One of two tasks that meet: the task, its slot, and what it does there."""

    def __init__(self, facts: RankFacts, tensor: str, part: Part, writes: bool) -> None:
        self._facts = facts
        self._tensor = tensor
        self.group = part.group
        self.number = part.group.first
        self.writes = writes
        self.accesses = [a for a in part.accesses if (a.writes if writes else a.reads)]
        self.access: Access = self.accesses[0]
        layer = facts.layers.of_group[part.group.number]
        self.where = "" if layer is None else f", layer {layer}"
        self.kind = kind_of(facts, part.group)

    @property
    def cells(self) -> int:
        return self._facts.regions.of(self._tensor).union(a.tensor for a in self.accesses)

    def choose(self, cells: int) -> None:
        """Point at the slot that touches ``cells``, where several carry the tensor."""
        regions = self._facts.regions.of(self._tensor)
        for access in self.accesses:
            if regions.mask(access.tensor) & cells:
                self.access = access
                break

    @property
    def task(self) -> str:
        slot = f"{self.access.side[:-1]} {self.access.index}"
        return f"task {self.number} ({self.kind}{self.where}, {slot})"

    @property
    def does(self) -> str:
        return "writes" if self.writes else "reads"

    def at(self, *field: str | int, note: str = "") -> Location:
        return self._facts.in_graph("all_tasks", self.number, *field, note=note)

    def at_slot(self, note: str = "") -> Location:
        return self.at(self.access.side, self.access.index, "base_ptr", note=note)


def sides_of(facts: RankFacts, race: Race) -> tuple[Side, Side, str]:
    """Take one pair of tasks of a race, the first that meet, and name the bytes."""
    first, second = _meeting(race.earlier, race.later, race.earlier_writes, race.later_writes)
    one = Side(facts, race.tensor, first, race.earlier_writes)
    other = Side(facts, race.tensor, second, race.later_writes)
    if first is second:  # alike in all but metadata: the group's second task
        other.number = facts.graph.alike_of.index(first.group.number, one.number + 1)
    cells = one.cells & other.cells
    one.choose(cells)
    other.choose(cells)
    return one, other, facts.regions.of(race.tensor).text(cells) if cells else "the same tile"


def _meeting(one: Wave, other: Wave, one_writes: bool, other_writes: bool) -> tuple[Part, Part]:
    """Find two tasks that meet, of two waves or of one."""
    if one is other and one_writes and other_writes:
        written = 0
        for part in one.parts:
            if part.writes & written or part.group.count > 1:
                return next(p for p in one.parts if p.writes & part.writes), part
            written |= part.writes
    for first in one.parts:
        cells = first.writes if one_writes else first.reads
        if cells:
            for second in other.parts:
                touched = second.writes if other_writes else second.reads
                if cells & touched and (second is not first or first.group.count > 1):
                    return first, second
    return one.parts[0], other.parts[-1]


def event_text(facts: RankFacts, position: int) -> str:
    """Name an event: ``event 4``, ``event 88 (END)``, ``no event``."""
    if position < 0:
        return "no event"
    return f"event {position}{' (END)' if position == facts.events.end else ''}"
