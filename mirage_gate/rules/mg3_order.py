"""MG3: does something order every two tasks that touch the same bytes, one of them writing?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.events import NOTHING
from mirage_gate.facts.layers import role_of
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.order import EarlyRead, Part, Race, Wave
    from mirage_gate.facts.wiring import Access, Group

_LIMITS = """
    Where a slot picks its rows at run time (pages, requests, experts, splits) two tasks may
    miss each other although their tiles meet: there the rule only warns, and says nothing
    within one operator. Ranks are taken to be in step: a remote trigger is counted as if it
    landed on the rank that sends it. Of two writers the later of which races
    with a reader too, only that race is reported: the same edge is missing.
"""


def _kind(facts: RankFacts, group: Group) -> str:
    return facts.task_type(group.task_type).name


class _Side:
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
        self.kind = _kind(facts, part.group)

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


def _sides(facts: RankFacts, race: Race) -> tuple[_Side, _Side, str]:
    """Take one pair of tasks of a race, the first that meet, and name the bytes."""
    first, second = _meeting(race.earlier, race.later, race.earlier_writes, race.later_writes)
    one = _Side(facts, race.tensor, first, race.earlier_writes)
    other = _Side(facts, race.tensor, second, race.later_writes)
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


def _rule_of(race: Race) -> str:
    if race.earlier_writes and race.later_writes:
        return "MG303"
    return "MG301" if race.earlier_writes or race.unprovided else "MG302"


def _races(facts: RankFacts, rule_id: str) -> Iterator[Finding]:
    """Report the races that are a rule's: one finding for what a tensor is in every layer.

    Those whose bytes are picked at run time are apart.
    """
    alike: dict[tuple[str, bool], list[Race]] = {}
    more: dict[str, int] = {}
    for tensor, order in facts.order.tensors.items():
        role = role_of(tensor)
        more[role] = more.get(role, 0) + order.more
        for race in _without_echoes(order.races):
            if _rule_of(race) == rule_id:
                alike.setdefault((role, race.certain), []).append(race)
    for (role, _), races in sorted(alike.items(), key=lambda item: not item[0][1]):
        yield _race(facts, rule_id, races, more[role])


def _without_echoes(races: tuple[Race, ...]) -> list[Race]:
    """Leave out two writers if the later one races with a reader: the same edge is missing."""
    named = {
        id(race.earlier if race.earlier_writes else race.later)
        for race in races
        if race.certain and not (race.earlier_writes and race.later_writes)
    }
    return [
        race
        for race in races
        if not (race.earlier_writes and race.later_writes)
        or race.earlier is race.later
        or id(race.later) not in named
    ]


def _race(facts: RankFacts, rule_id: str, races: list[Race], more: int) -> Finding:
    race = min(races, key=lambda r: (r.earlier.first.first, r.later.first.first))
    tensor = race.tensor
    one, other, what = _sides(facts, race)
    writer, reader = (one, other) if one.writes else (other, one)
    if rule_id == "MG303":
        message = f"{one.task} and {other.task} both write {what} of {tensor}"
    elif rule_id == "MG302":
        message = f"{one.task} reads {what} of {tensor}, which {other.task} writes anew"
    else:
        message = f"{reader.task} reads {what} of {tensor}, which {writer.task} writes"
    fork = _fork(facts, race)
    message += ", and nothing orders them"
    if fork >= 0:
        together = one.group.dependent == other.group.dependent
        message += (
            f": both wait for event {fork}"
            if together
            else f": event {fork} is the last that comes before both"
        )
    if not race.certain:
        message += " (their rows are picked at run time and may not meet)"
    others = _others(races, race)
    return Finding(
        rule=rule_id,
        severity=Severity.ERROR if race.certain else Severity.WARNING,
        message=message + _extent(facts, races, more) + _other_kinds(facts, others),
        location=other.at("dependent_event"),
        hint=_hint(facts, one, other),
        related=(
            other.at_slot(f"{other.task} {other.does} {tensor}"),
            one.at_slot(f"{one.task} {one.does} {tensor}"),
            *(
                _sides(facts, another)[1].at_slot(f"{_pair(facts, another)} as well")
                for another in others[:3]
            ),
        ),
        trace=tuple(_steps(facts, one, other, fork, f"{what} of {tensor}")),
        tensor=tensor,
        rank=facts.rank,
    )


def _steps(facts: RankFacts, one: _Side, other: _Side, fork: int, what: str) -> Iterator[Location]:
    """Tell the race in steps: the earlier task, its event, the fork, the later task."""
    fires = facts.events.fires[one.group.number]
    waits = facts.events.waits[other.group.number]
    yield one.at_slot(f"{one.task} {one.does} {what}")
    yield one.at("trigger_event", note=f"task {one.number} triggers {_event(facts, fires)} then")
    if fork >= 0:
        note = f"event {fork} is the last that comes before both"
        yield facts.in_graph("all_events", fork, "num_triggers", note=note)
    yield other.at(
        "dependent_event",
        note=f"{other.task} waits for {_event(facts, waits)} only, and {other.does} {what}",
    )


def _others(races: list[Race], shown: Race) -> list[Race]:
    """Give one race for each further pair of task types."""
    pairs = {(shown.earlier.first.task_type, shown.later.first.task_type)}
    others: list[Race] = []
    for race in races:
        pair = (race.earlier.first.task_type, race.later.first.task_type)
        if pair not in pairs:
            pairs.add(pair)
            others.append(race)
    return others


def _pair(facts: RankFacts, race: Race) -> str:
    return f"{_kind(facts, race.earlier.first)} and {_kind(facts, race.later.first)}"


def _other_kinds(facts: RankFacts, others: list[Race]) -> str:
    if not others:
        return ""
    left = len(others) - 1
    more = f" and {plural(left, 'more pair')} of types" if left else ""
    return f"; {_pair(facts, others[0])}{more} likewise"


def _event(facts: RankFacts, position: int) -> str:
    if position < 0:
        return "no event"
    return f"event {position}{' (END)' if position == facts.events.end else ''}"


def _hint(facts: RankFacts, one: _Side, other: _Side) -> str:
    same = one.group.dependent == other.group.dependent and one.kind == other.kind
    if same and one.writes and other.writes:
        return "give the tasks of the operator tiles that do not meet, or one event after another"
    depend = (
        f"in the builder, make the operator of task {other.number} depend on that of "
        f"task {one.number}"
    )
    events = facts.events
    place, before = (events.index[events.waits[side.group.number]] for side in (one, other))
    if events.before.holds(before, place):
        # What the later one waits for comes before the earlier one: that cannot be triggered.
        return f"let task {other.number} wait for what task {one.number} triggers: {depend}"
    waits = _event(facts, events.waits[other.group.number])
    return f"let task {one.number} trigger {waits}, or an event before it: {depend}"


def _fork(facts: RankFacts, race: Race) -> int:
    """Give the last event that comes before both sides of a race; -1 for none."""
    events = facts.events
    place = events.before.last_common(race.earlier.waits, race.later.waits)
    return events.order[place] if place >= 0 else -1


def _extent(facts: RankFacts, races: list[Race], more: int) -> str:
    """Say how often it happens: ``; in 4 layers (0 to 3)``."""
    if len(races) == 1 and not more:
        return ""
    layers = facts.layers.of_group
    touched = {layers[w.first.number] for race in races for w in (race.earlier, race.later)}
    known = sorted(layer for layer in touched if layer is not None)
    tensors = len({race.tensor for race in races})
    count = f"{len(races):,}{'+' if more else ''} such pairs"
    if tensors > 1:
        count += f" over {tensors} tensors of that role"
    if len(known) > 1:
        return f"; {count} in {len(known)} layers ({known[0]} to {known[-1]})"
    return f"; {count}"


@rule(
    "MG301",
    "read-without-order",
    Severity.ERROR,
    "A task reads bytes that another writes, and no event makes it wait for the writer.",
    why="""
        Between operators of one kernel only events make order. Without a path of events
        from the writer to the reader the read may come first: the model gets the values
        of the layer or the iteration before, now and then, and most tests pass.
    """,
    example="""
        The KV gather triggers END alone, and the decode that reads what it gathered waits
        for the query projection alone.
    """,
    fix="""
        Give the reader's operator the writer's output as an input, so that the emitter joins
        the two events; or make the writer trigger the event that the reader waits for, and
        count it there.
    """,
    limits=_LIMITS,
)
def read_without_order(facts: RankFacts) -> Iterator[Finding]:
    yield from _races(facts, "MG301")


@rule(
    "MG302",
    "overwritten-while-read",
    Severity.ERROR,
    "A task overwrites bytes that an earlier one may still be reading.",
    why="""
        Activation buffers are shared by all layers. When nothing makes the next writer wait
        for the last reader, a slow reader gets values of the layer after.
    """,
    example="""
        Layer 1 quantizes into the buffer that layer 0's latent projection reads, and that
        projection leads to END alone.
    """,
    fix="""
        Make the writer's operator depend on the reader's, directly or over what follows
        from it, or give it a buffer of its own.
    """,
    limits=_LIMITS,
)
def overwritten_while_read(facts: RankFacts) -> Iterator[Finding]:
    yield from _races(facts, "MG302")


@rule(
    "MG303",
    "two-writers",
    Severity.ERROR,
    "Two tasks write the same bytes, and nothing orders them.",
    why="""
        Whichever comes last wins, and that differs from run to run. Tasks that add into one
        tile (split-K) and tasks that repeat the same work are no error here; the second is
        MG505's.
    """,
    example="Two column tiles of one linear operator overlap by 64 columns.",
    fix="""
        Give the tasks tiles that do not overlap. Where both writes are meant, make the second
        operator depend on the first.
    """,
    limits=_LIMITS,
)
def two_writers(facts: RankFacts) -> Iterator[Finding]:
    yield from _races(facts, "MG303")


@rule(
    "MG304",
    "not-before-end",
    Severity.ERROR,
    "A task does not lead to END: the next iteration may start before it has run.",
    why="""
        END is the barrier between iterations. It fires when its triggers have arrived, and
        the only tasks it waits for are those whose events lead to it. Any other may still
        run, or not have started, when the next iteration uses the same buffers.
    """,
    example="""
        Event 5 has 48 tasks that trigger it and none that waits for it, because its waiter
        was counted into the range of event 4.
    """,
    fix="""
        Let some task wait for the event and lead on to END, or let the tasks trigger END
        itself and count them there.
    """,
)
def not_before_end(facts: RankFacts) -> Iterator[Finding]:
    events = facts.events
    lost: dict[tuple[int, ...], list[tuple[int, list[Group]]]] = {}
    nowhere: list[Group] = []
    for group in facts.wiring.groups:
        if events.fires[group.number] == NOTHING and group.first and group.count:
            nowhere.append(group)
    for event, groups in enumerate(events.triggering):
        if not groups or events.to_end[event] or event == 0 or events.waiting[event]:
            continue  # what somebody waits for is lost with that task, if at all
        types = tuple(sorted({group.task_type for group in groups}))
        lost.setdefault(types, []).append((event, groups))
    for dead_ends in lost.values():
        event, groups = dead_ends[0]
        yield _lost(facts, groups, f"event {event}, which nobody waits for", dead_ends[1:])
    if nowhere:
        yield _lost(facts, nowhere, "no event", [])


def _lost(
    facts: RankFacts, groups: list[Group], where: str, others: list[tuple[int, list[Group]]]
) -> Finding:
    count = facts.events.tasks(groups)
    first = groups[0]
    who = f"task {first.first} ({_kind(facts, first)})"
    if count > 1:
        who = f"{count:,} tasks (first: {who})"
    more = facts.events.tasks([group for _, own in others for group in own])
    also = f"; {plural(more, 'task')} at {plural(len(others), 'more event')} likewise"
    return Finding(
        rule="MG304",
        severity=Severity.ERROR,
        message=(
            f"{who} trigger{'s' * (count == 1)} {where}: END does not wait for "
            f"{'it' if count == 1 else 'them'}, and the next iteration may overtake "
            f"{'it' if count == 1 else 'them'}" + (also if others else "")
        ),
        location=facts.in_graph("all_tasks", first.first, "trigger_event"),
        hint="let a task that leads to END wait for them, or let them trigger END",
        related=tuple(
            facts.in_graph(
                "all_tasks", own[0].first, "trigger_event", note=f"event {event} likewise"
            )
            for event, own in others[:3]
        ),
        rank=facts.rank,
    )


@rule(
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
    limits="Reads whose rows are picked at run time are not judged.",
)
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
    reader = _Side(facts, tensor, reading, writes=False)
    writer = _Side(facts, tensor, writing, writes=True)
    cells = reader.cells & early.cells if reader.cells else 0
    reader.choose(cells)
    what = facts.regions.of(tensor).text(cells) if cells else "a tile"
    count = facts.events.tasks([part.group for early in reads for part in early.reader.parts])
    more = f"; {plural(count - 1, 'more task')} of that type likewise" if count > 1 else ""
    return Finding(
        rule="MG305",
        severity=Severity.WARNING,
        message=(
            f"{reader.task} reads {what} of {tensor} before any task writes them: "
            f"{writer.task} does, later{more}"
        ),
        location=reader.at_slot(),
        hint=f"read what is written before, or give {tensor} a start value",
        related=(writer.at_slot(f"{writer.task} writes {tensor}"),),
        tensor=tensor,
        rank=facts.rank,
    )
