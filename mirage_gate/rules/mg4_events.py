"""MG4: do the events count what is there, in ids that point somewhere, and does the graph end?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.events import INVALID, LAUNCH, NVSHMEM_TAG, gpu_of, position_of, tag_of
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

SHOWN = 5
"""Findings of one kind on one rank; the last of them says how many more there are."""

QUEUE_LENGTH = 8192
"""Entries of a worker's queue (``per_worker_queue_len`` in ``persistent_kernel.cuh``)."""

MOST_WORKERS = 144
"""Workers that MPK starts on the largest GPU it knows (``get_configurations_from_gpu``)."""


def _task(facts: RankFacts, group: Group) -> str:
    return f"task {group.first}, {facts.task_type(group.task_type).name}"


def _layer(facts: RankFacts, group: Group) -> str:
    layer = facts.layers.of_group[group.number]
    return "" if layer is None else f", layer {layer}"


def _by_type(facts: RankFacts, groups: Iterable[Group]) -> list[tuple[str, int, Group]]:
    """Tasks by type: (name, how many, first group), the most numerous first."""
    count: Counter[int] = Counter()
    first: dict[int, Group] = {}
    for group in groups:
        count[group.task_type] += facts.events.weight[group.number]
        first.setdefault(group.task_type, group)
    return [(facts.task_type(code).name, n, first[code]) for code, n in count.most_common()]


def _listed(kinds: list[tuple[str, int, Group]], most: int = 3) -> str:
    text = ", ".join(f"{count:,} {name}" for name, count, _ in kinds[:most])
    return text + (f" and {len(kinds) - most} more types" if len(kinds) > most else "")


def _waiters(facts: RankFacts, event: int) -> str:
    """Say who waits for an event: ``the 512 tasks that wait for it (first: task 11724, …)``."""
    groups = facts.events.waiting[event]
    if not groups:
        return "nobody waits for it"
    count, first = facts.events.tasks(groups), _task(facts, groups[0])
    return f"{plural(count, 'task')} wait{'s' * (count == 1)} for it (first: {first})"


def _capped(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass the first findings on; the last one says how many more like it were left out."""
    found = list(findings)
    left = len(found) - SHOWN
    if left <= 0:
        yield from found
        return
    yield from found[: SHOWN - 1]
    last = found[SHOWN - 1]
    yield msgspec.structs.replace(last, message=f"{last.message}; {left:,} more like it")


@rule(
    "MG401",
    "trigger-count",
    Severity.ERROR,
    "An event counts on another number of triggers than tasks trigger it.",
    why="""
        A task waits until its event was triggered `num_triggers` times for every iteration
        so far, and the counters are never reset. One trigger too few and whoever waits
        never starts: the kernel hangs. One too many and it starts before its inputs are
        there, and one trigger earlier still in every further iteration.
    """,
    example="""
        `"num_triggers": 18`, and 9 tasks have the event as their `trigger_event`: a join
        that counts its producers twice.
    """,
    fix="""
        The emitter derives the count from the operators that feed the join. Correct it
        there; an operator emitted twice or not at all shows as a wrong count as well.
    """,
    limits="""
        Triggers that come from other ranks are not in this rank's file. All ranks run one
        program, so as many are expected as this rank sends to the others' event of the same
        position; MG606 adds up the real ones where all ranks are at hand.
    """,
)
def trigger_count(facts: RankFacts) -> Iterator[Finding]:
    yield from _capped(_wrong_counts(facts))
    yield from _capped(_uneven(facts))


def _mend(event: int, needed: int, got: int) -> str:
    """Say how to mend a wrong count; never to make the count fit what may be missing."""
    if not got:
        return f"let the tasks that fill what its waiters read trigger event {event}"
    if got < needed:
        return (
            f"find the tasks that should trigger event {event} as well; "
            f"if there are none, set num_triggers to {got}"
        )
    return (
        f"find the tasks that should trigger another event than {event}; "
        f"if there are none, set num_triggers to {got}"
    )


def _wrong_counts(facts: RankFacts) -> Iterator[Finding]:
    graph = facts.events
    alike: dict[tuple[object, ...], list[int]] = {}
    for event in range(1, graph.count):
        needed, got = graph.events[event].num_triggers, graph.arrivals[event]
        if needed == got:
            continue
        triggering = tuple((n, count) for n, count, _ in _by_type(facts, graph.triggering[event]))
        waiting = tuple(sorted({group.task_type for group in graph.waiting[event]}))
        alike.setdefault((needed, got, triggering, waiting), []).append(event)
    for events in alike.values():
        event, others = events[0], events[1:]
        needed, got = graph.events[event].num_triggers, graph.arrivals[event]
        kinds = _by_type(facts, graph.triggering[event])
        by = f" ({_listed(kinds)})" if kinds else ""
        who = f"{plural(got, 'task')} trigger{'s' * (got == 1)} it{by}"
        if any(graph.is_remote(group.trigger) for group in graph.triggering[event]):
            who = f"{plural(got, 'trigger')} arrive{'s' * (got == 1)} from the other ranks{by}"
        if event == graph.end:
            effect = "END never comes" if needed > got else "the next iteration starts too early"
        elif not graph.waiting[event]:
            effect = "nobody waits for it"
        else:
            late = "never starts" if needed > got else "starts too early"
            early = "never start" if needed > got else "start too early"
            count = graph.tasks(graph.waiting[event])
            first = _task(facts, graph.waiting[event][0])
            effect = (
                f"{plural(count, 'task')} that wait for it (first: {first}) {early}"
                if count != 1
                else f"the task that waits for it ({first}) {late}"
            )
        also = f"; so do {plural(len(others), 'more event')} of the same operators"
        yield Finding(
            rule="MG401",
            severity=Severity.ERROR,
            message=(
                f"event {event} counts on {plural(needed, 'trigger')} and {who}: {effect}"
                + (also if others else "")
            ),
            location=facts.in_graph("all_events", event, "num_triggers"),
            hint=_mend(event, needed, got),
            related=(
                *(
                    facts.in_graph(
                        "all_tasks",
                        group.first,
                        "trigger_event",
                        note=f"{name} triggers it ({plural(count, 'task')}{_layer(facts, group)})",
                    )
                    for name, count, group in kinds[:3]
                ),
                *(
                    facts.in_graph("all_events", other, "num_triggers", note=f"event {other} too")
                    for other in others[:3]
                ),
            ),
            rank=facts.rank,
        )


def _uneven(facts: RankFacts) -> Iterator[Finding]:
    """Find events that this rank triggers on some of the other ranks more than on others.

    No proof of a hang, for a ring would look like it; so only where most events that go to
    other ranks go to all of them alike.
    """
    graph = facts.events
    ranks = facts.cuda.world_size
    if not ranks or ranks < 3:
        return
    sent: dict[int, Counter[int]] = {}
    for event, groups in enumerate(graph.triggering):
        for group in groups:
            if graph.is_remote(group.trigger):
                to = sent.setdefault(event, Counter())
                to[gpu_of(group.trigger)] += graph.weight[group.number]
    odd = {
        event: to
        for event, to in sent.items()
        if len(to) < ranks - 1 or max(to.values()) > min(to.values())
    }
    if 2 * len(odd) >= len(sent):
        return
    for event, to in odd.items():
        most, least = max(to.values()), min(to.values()) if len(to) == ranks - 1 else 0
        groups = [group for group in graph.triggering[event] if graph.is_remote(group.trigger)]
        busy = next(group for group in groups if to[gpu_of(group.trigger)] == most)
        yield Finding(
            rule="MG401",
            severity=Severity.WARNING,
            message=(
                f"event {event} is triggered {most} times on rank {gpu_of(busy.trigger)} and "
                f"{_times(least)} on another, where {len(sent) - len(odd)} of the events that "
                f"go to other ranks go to all of them alike (first: {_task(facts, busy)})"
            ),
            location=facts.in_graph("all_tasks", busy.first, "trigger_event"),
            hint="send to every other rank; a rank that gets too few triggers hangs",
            related=(facts.in_graph("all_events", event, "num_triggers", note=f"event {event}"),),
            rank=facts.rank,
        )


def _times(count: int) -> str:
    return ("never", "once")[count] if count < 2 else f"{count} times"


@rule(
    "MG402",
    "event-cycle",
    Severity.ERROR,
    "Events wait for each other in a circle.",
    why="""
        A task waits for one event and triggers another, which puts the second behind the
        first. A circle of events puts each behind itself: none ever fires, whatever the
        counts are, and nothing behind them starts.
    """,
    example="Event 9 needs a task that waits for event 5, and event 5 one that waits for 9.",
    fix="""
        Look at the edge that goes back (the first location): a task that waits for an event
        that its own output leads to. In the builder this is an operator that reads what a
        later operator makes.
    """,
)
def event_cycle(facts: RankFacts) -> Iterator[Finding]:
    graph = facts.events
    yield from _capped(_cycle_finding(facts, cycle) for cycle in graph.cycles)


def _cycle_finding(facts: RankFacts, cycle: list[int]) -> Finding:
    graph = facts.events
    steps = [
        (event, target, graph.edges[event][target])
        for event, target in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    ]
    last, first, group = steps[-1]
    shown = [str(event) for event in cycle]
    if len(shown) > 8:
        shown = [*shown[:4], "…", *shown[-3:]]
    kind = facts.task_type(group.task_type).name
    return Finding(
        rule="MG402",
        severity=Severity.ERROR,
        message=(
            f"events {' → '.join([*shown, str(first)])} wait for each other: "
            f"task {group.first} ({kind}{_layer(facts, group)}) waits for event {last} and "
            f"triggers event {first}, which comes before it"
            if len(cycle) > 1
            else f"event {first} waits for itself: task {group.first} "
            f"({kind}{_layer(facts, group)}) waits for it and triggers it"
        ),
        location=facts.in_graph("all_tasks", group.first, "dependent_event"),
        hint=f"let task {group.first} wait for an event that comes before event {first}",
        trace=tuple(
            facts.in_graph(
                "all_tasks",
                between.first,
                "trigger_event",
                note=f"{_task(facts, between)}, waits for event {event} and triggers {target}",
            )
            for event, target, between in steps[-12:]
        ),
        rank=facts.rank,
    )


@rule(
    "MG403",
    "stall",
    Severity.ERROR,
    "Run by counting triggers, the graph does not come to its end.",
    why="""
        The gate runs one iteration the way the workers do: a task starts when its event has
        all its triggers, and adds one to the event it triggers. Tasks that never start, or
        an END that never fires, are a kernel that spins until somebody kills it.
    """,
    example="""
        A join counts on 18 triggers and 9 come: it and the 1,938 tasks behind it wait
        forever.
    """,
    fix="Mend the first event to blame (MG401 or MG402 name its defect); the rest follows it.",
    limits="""
        Workers take their tasks in order, which could block them earlier than the counts
        say; how many workers there are is not in the files.
    """,
)
def stall(facts: RankFacts) -> Iterator[Finding]:
    graph = facts.events
    found = graph.stall
    if found is None:
        return
    never = (
        f"{plural(found.idle_tasks, 'task')} of {len(facts.graph.tasks):,} never "
        f"start{'s' * (found.idle_tasks == 1)}"
        if found.idle_tasks
        else "every task starts and END never fires"
    )
    event = found.event
    if event is None:
        lost = [g for g in graph.run.idle if graph.waits[g.number] == INVALID]
        first = lost[0] if lost else graph.run.idle[0]
        yield Finding(
            rule="MG403",
            severity=Severity.ERROR,
            message=f"run by counting, {never}: {_task(facts, first)}, waits for no event there is",
            location=facts.in_graph("all_tasks", first.first, "dependent_event"),
            hint="mend the id (MG405), then look again",
            rank=facts.rank,
        )
        return
    needed, got = graph.events[event].num_triggers, graph.arrivals[event]
    why = (
        f"event {event} needs {plural(needed, 'trigger')} and gets {got}"
        if got < needed
        else f"event {event} waits for itself"
    )
    behind = len(found.chain) - 1
    reaches = f", and END is {plural(behind, 'event')} behind it" if behind > 0 else ""
    yield Finding(
        rule="MG403",
        severity=Severity.ERROR,
        message=f"run by counting, {never}: {why}; {_waiters(facts, event)}{reaches}",
        location=facts.in_graph("all_events", event, "num_triggers"),
        hint=f"mend event {event} first: it is the first to blame",
        trace=tuple(_chain(facts, found.chain)),
        rank=facts.rank,
    )


def _chain(facts: RankFacts, chain: tuple[int, ...]) -> Iterator[Location]:
    graph = facts.events
    shown = chain if len(chain) <= 8 else (*chain[:5], *chain[-2:])
    for event in shown:
        needed, got = graph.events[event].num_triggers, graph.arrivals[event]
        count = graph.tasks(graph.waiting[event])
        text = f"needs {plural(needed, 'trigger')}, gets {got}"
        if got == needed:
            text = f"needs {plural(needed, 'trigger')}"
        waiters = f"; {plural(count, 'task')} wait{'s' * (count == 1)} for it" if count else ""
        name = "END, event" if event == graph.end else "event"
        yield facts.in_graph(
            "all_events", event, "num_triggers", note=f"{name} {event} {text}{waiters}"
        )


@rule(
    "MG404",
    "range-mismatch",
    Severity.ERROR,
    "An event's task range and the tasks' dependent events do not agree.",
    why="""
        Each event says which tasks wait for it, and each task says which event it waits
        for. The emitter writes both from one list; where they differ the file is damaged
        or its ids were counted wrongly, and one of the two is a lie.
    """,
    example="""
        Event 4 has the range 107..108, and task 107 has event 5 as its `dependent_event`.
    """,
    fix="Emit the graph again. In an emitter of your own, number tasks and ranges in one pass.",
)
def range_mismatch(facts: RankFacts) -> Iterator[Finding]:
    yield from _capped(_outside_ranges(facts))
    yield from _capped(_shared_ranges(facts))
    yield from _capped(_other_events(facts))


class _Range(msgspec.Struct, frozen=True):
    """The tasks ``low`` to ``high`` (exclusive) that an event says wait for it."""

    low: int
    high: int
    event: int


def _ranges(facts: RankFacts) -> list[_Range]:
    """Every range that holds a task, in order of the tasks."""
    events, count = facts.graph.events, len(facts.graph.tasks)
    found = [
        _Range(event.first_task_id, min(event.last_task_id, count), position)
        for position, event in enumerate(events)
        if position > LAUNCH and position < len(events) - 1
    ]
    return sorted((r for r in found if r.low < r.high), key=lambda r: (r.low, r.event))


def _at_range(facts: RankFacts, event: int, note: str = "") -> Location:
    return facts.in_graph("all_events", event, "first_task_id", note=note)


def _outside_ranges(facts: RankFacts) -> Iterator[Finding]:
    """Find tasks that no range holds and that are no first tasks, and ranges past the tasks."""
    tasks = facts.graph.tasks
    first = set(facts.graph.first_tasks)
    for position, event in enumerate(facts.graph.events):
        low, high = event.first_task_id, event.last_task_id
        if position > LAUNCH and position < facts.events.end and (high > len(tasks) or low > high):
            yield Finding(
                rule="MG404",
                severity=Severity.ERROR,
                message=(
                    f"event {position} has the range {low}..{high}, "
                    f"and there are {plural(len(tasks), 'task')}"
                    if high > len(tasks)
                    else f"event {position} has the range {low}..{high}: it ends before it starts"
                ),
                location=facts.in_graph(
                    "all_events", position, "last_task_id" if high > len(tasks) else "first_task_id"
                ),
                hint="emit the graph again",
                rank=facts.rank,
            )
    at = 2
    gaps: list[tuple[int, int]] = []
    for held in _ranges(facts):
        if held.low > at:
            gaps.append((at, held.low))
        at = max(at, held.high)
    if at < len(tasks):
        gaps.append((at, len(tasks)))
    for low, high in gaps:
        lost = [task for task in range(low, high) if task not in first]
        if not lost:
            continue
        task = lost[0]
        name = facts.task_type(tasks[task].task_type).name
        count = len(lost)
        whom = _event_text(tasks[task].dependent_event)
        yield Finding(
            rule="MG404",
            severity=Severity.ERROR,
            message=(
                f"task {task} ({name}) waits for {whom} and is in no event's range"
                if count == 1
                else f"{plural(count, 'task')} are in no event's range "
                f"(first: task {task}, {name}, which waits for {whom})"
            ),
            location=facts.in_graph("all_tasks", task, "dependent_event"),
            hint="emit the graph again",
            rank=facts.rank,
        )


def _shared_ranges(facts: RankFacts) -> Iterator[Finding]:
    """Find tasks in two ranges, and first tasks in one."""
    before: _Range | None = None
    for held in _ranges(facts):
        if before is not None and held.low < before.high:
            count = min(held.high, before.high) - held.low
            yield Finding(
                rule="MG404",
                severity=Severity.ERROR,
                message=(
                    f"{plural(count, 'task')} (first: task {held.low}) "
                    f"{'is' if count == 1 else 'are'} in the ranges of two events, "
                    f"{before.event} ({before.low}..{before.high}) and "
                    f"{held.event} ({held.low}..{held.high})"
                ),
                location=_at_range(facts, held.event),
                hint="emit the graph again",
                related=(_at_range(facts, before.event, f"the range of event {before.event}"),),
                rank=facts.rank,
            )
        if before is None or held.high > before.high:
            before = held
    first = sorted(set(facts.graph.first_tasks))
    for held in _ranges(facts):
        if held.low < 2:
            yield _frame_in_range(facts, held, held.low)
        inside = [task for task in first if max(held.low, 2) <= task < held.high]
        if inside:
            yield _frame_in_range(facts, held, inside[0])


def _frame_in_range(facts: RankFacts, held: _Range, task: int) -> Finding:
    which = f"task {task} is one of first_tasks" if task > 1 else f"task {task} waits for nothing"
    return Finding(
        rule="MG404",
        severity=Severity.ERROR,
        message=f"{which} and is in the range of event {held.event} ({held.low}..{held.high})",
        location=_at_range(facts, held.event),
        hint="emit the graph again",
        rank=facts.rank,
    )


def _event_text(event_id: int) -> str:
    return "no event" if event_id == NO_EVENT else f"event {position_of(event_id)}"


def _other_events(facts: RankFacts) -> Iterator[Finding]:
    """Find tasks in an event's range that wait for another one."""
    graph, tasks = facts.graph, facts.graph.tasks
    first = {0, 1, *graph.first_tasks}
    dependents = [alike.dependent_event for alike in graph.alike]
    for held in _ranges(facts):
        here = graph.alike_of[held.low : held.high]
        others = {
            alike
            for alike in set(here)
            if dependents[alike] == NO_EVENT or position_of(dependents[alike]) != held.event
        }
        if not others:
            continue
        odd: dict[int, list[int]] = {}
        for task, alike in enumerate(here, held.low):
            if alike in others and task not in first:
                odd.setdefault(dependents[alike], []).append(task)
        if not odd:
            continue
        event_id, waiting = max(odd.items(), key=lambda item: len(item[1]))
        count = sum(map(len, odd.values()))
        task = waiting[0]
        name = facts.task_type(tasks[task].task_type).name
        whom = _event_text(event_id)
        yield Finding(
            rule="MG404",
            severity=Severity.ERROR,
            message=(
                f"task {task} ({name}) waits for {whom} and is in the range of event {held.event} "
                f"({held.low}..{held.high})"
                + (f"; so do {count - 1:,} more tasks of that range" if count > 1 else "")
            ),
            location=facts.in_graph("all_tasks", task, "dependent_event"),
            hint=f"let it wait for event {held.event}, or correct the range",
            related=(_at_range(facts, held.event, f"the range of event {held.event}"),),
            rank=facts.rank,
        )
    yield from _first_tasks(facts)


def _first_tasks(facts: RankFacts) -> Iterator[Finding]:
    """Find first tasks that wait for something."""
    tasks = facts.graph.tasks
    for entry, task in enumerate(facts.graph.first_tasks):
        if 2 <= task < len(tasks) and tasks[task].dependent_event != NO_EVENT:
            yield Finding(
                rule="MG404",
                severity=Severity.ERROR,
                message=(
                    f"task {task} is one of first_tasks and waits for "
                    f"{_event_text(tasks[task].dependent_event)}"
                ),
                location=facts.in_graph("all_tasks", task, "dependent_event"),
                hint="a first task waits for nothing: it has the invalid id",
                related=(facts.in_graph("first_tasks", entry, note="listed here"),),
                rank=facts.rank,
            )


@rule(
    "MG405",
    "bad-event-id",
    Severity.ERROR,
    "A task carries an event id that cannot be meant.",
    why="""
        An id is a tag, the rank that owns the event, and its position. The runtime indexes
        its counters with the position and checks nothing in the default build: an id past
        the end writes into other memory. Another rank's number in a local id means that the
        file belongs to another rank, and an NVSHMEM tag on a task that sends nothing means
        that nobody ever triggers the event.
    """,
    example="`trigger_event` has position 900, and the graph has 726 events.",
    fix="Emit the graph again; in an emitter of your own, look at how ids are put together.",
)
def bad_event_id(facts: RankFacts) -> Iterator[Finding]:
    graph = facts.events
    groups = [group for group in facts.wiring.groups if graph.weight[group.number]]
    remote = {
        position_of(event_id)
        for event_id in {group.trigger for group in groups}
        if graph.is_remote(event_id)
    }
    dependents = {group.dependent for group in groups}
    bad_dependents = {
        event_id: bad for event_id in dependents if (bad := _bad_dependent(facts, event_id, remote))
    }
    triggers = {(group.trigger, group.task_type) for group in groups}
    bad_triggers = {pair: bad for pair in triggers if (bad := _bad_trigger(facts, *pair))}
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups if bad_dependents or bad_triggers else ():
        problems = (
            ("dependent_event", bad_dependents.get(group.dependent)),
            ("trigger_event", bad_triggers.get((group.trigger, group.task_type))),
        )
        for field, problem in problems:
            if problem:
                found.setdefault((field, problem), []).append(group)
    yield from _capped(
        _bad_id(facts, field, problem, groups) for (field, problem), groups in found.items()
    )


def _bad_id(facts: RankFacts, field: str, problem: str, groups: list[Group]) -> Finding:
    count = facts.events.tasks(groups)
    first = groups[0]
    task = first.first or 1
    event_id = first.dependent if field == "dependent_event" else first.trigger
    more = f" ({plural(count - 1, 'more task')} like it)" if count > 1 else ""
    return Finding(
        rule="MG405",
        severity=Severity.WARNING if problem.startswith("carries") else Severity.ERROR,
        message=(
            f"{field} {event_id} of task {task} "
            f"({facts.task_type(first.task_type).name}{_layer(facts, first)}) {problem}{more}"
        ),
        location=facts.in_graph("all_tasks", task, field),
        hint="emit the graph again",
        rank=facts.rank,
    )


def _bad_dependent(facts: RankFacts, event_id: int, remote: set[int]) -> str:
    if event_id == NO_EVENT:
        return ""
    position, tag = position_of(event_id), tag_of(event_id)
    problem = _bad_anywhere(facts, event_id)
    if problem:
        return problem
    if gpu_of(event_id) != facts.events.gpu:
        return f"is rank {gpu_of(event_id)}'s, and this rank is {facts.events.gpu}"
    if not position:
        return "is event 0, the end of the kernel, which no task waits for"
    if tag and position not in remote:
        return "carries the NVSHMEM tag, and no other rank triggers that event"
    return ""


def _bad_trigger(facts: RankFacts, event_id: int, task_type: int) -> str:
    if event_id == NO_EVENT:
        return ""
    problem = _bad_anywhere(facts, event_id)
    if problem:
        return problem
    gpu, own, ranks = gpu_of(event_id), facts.events.gpu, facts.cuda.world_size
    if not tag_of(event_id):
        if gpu != own:
            return f"is rank {gpu}'s without the NVSHMEM tag, and this rank is {own}"
        return "" if position_of(event_id) else "is event 0: triggering it ends the kernel"
    if not _sends(facts, task_type):
        return "has the NVSHMEM tag, and its task sends nothing: nobody ever triggers it"
    if gpu == own:
        return f"goes to rank {gpu} by NVSHMEM, which is this rank"
    if ranks and gpu >= ranks:
        return f"goes to rank {gpu}, and there are {ranks}"
    return ""


def _sends(facts: RankFacts, task_type: int) -> bool:
    """Whether a type may signal other ranks: it writes there, or nothing is known about it."""
    kind = facts.task_type(task_type)
    remote = any(slot.remote and slot.writes for slot in (*kind.inputs, *kind.outputs))
    return remote or not facts.knows(task_type)


def _bad_anywhere(facts: RankFacts, event_id: int) -> str:
    position, tag = position_of(event_id), tag_of(event_id)
    if tag not in (0, NVSHMEM_TAG):
        return f"has the tag 0x{tag:x}, which is none (0x{NVSHMEM_TAG:x} is NVSHMEM's)"
    if position >= facts.events.count:
        return f"has position {position}, and there are {plural(facts.events.count, 'event')}"
    return ""


@rule(
    "MG406",
    "frame",
    Severity.ERROR,
    "The first tasks and the first and last events are not what the runtime assumes.",
    why="""
        The runtime has some numbers built in: task 1 begins an iteration and triggers event
        1, event 1 launches every task from 2 on, event 0 ends the kernel, the last event
        ends the iteration. No field says so, and no check in the default build.
    """,
    example="The last event has the type 900 (EMPTY): no iteration ever ends.",
    fix="Emit the graph again; in an emitter of your own, keep these places as they are.",
)
def frame(facts: RankFacts) -> Iterator[Finding]:
    yield from _frame_tasks(facts)
    yield from _capped(_frame_events(facts))
    yield from _capped(_stray_terminators(facts))
    yield from _capped(_stray_first_tasks(facts))


def _misframed(facts: RankFacts, message: str, *at: str | int) -> Finding:
    return Finding(
        rule="MG406",
        severity=Severity.ERROR,
        message=message,
        location=facts.in_graph(*at),
        hint="emit the graph again",
        rank=facts.rank,
    )


def _frame_tasks(facts: RankFacts) -> Iterator[Finding]:
    tasks = facts.graph.tasks
    if len(tasks) < 2:
        yield _misframed(
            facts,
            f"the graph has {plural(len(tasks), 'task')}: tasks 0 and 1 are built in",
            "all_tasks",
        )
    for number, (code, name) in enumerate(((0, "TERMINATE"), (10, "BEGIN"))):
        if number >= len(tasks):
            return
        task = tasks[number]
        if task.task_type != code:
            kind = facts.task_type(task.task_type).name
            message = f"task {number} is {kind}, and the runtime takes it for {name} ({code})"
            yield _misframed(facts, message, "all_tasks", number, "task_type")
        if task.dependent_event != NO_EVENT:
            whom = _event_text(task.dependent_event)
            message = f"task {number} ({name}) waits for {whom}: it must wait for nothing"
            yield _misframed(facts, message, "all_tasks", number, "dependent_event")
        meant = (NO_EVENT, LAUNCH)[number]
        fires = NO_EVENT if task.trigger_event == NO_EVENT else position_of(task.trigger_event)
        if fires != meant:
            must = "event 1, which launches the rest" if number else "nothing"
            whom = _event_text(task.trigger_event)
            message = f"task {number} ({name}) triggers {whom}: it must trigger {must}"
            yield _misframed(facts, message, "all_tasks", number, "trigger_event")


_EVENT_TYPES = {
    900: "EMPTY",
    901: "LAUNCH_TASKS",
    902: "LAUNCH_MASSIVE_TASKS",
    903: "LAUNCH_DEPENDENT_TASKS",
    910: "END_OF_TASK_GRAPH",
    911: "TERMINATION",
    999: "INVALID",
}


def _frame_events(facts: RankFacts) -> Iterator[Finding]:
    events, tasks = facts.graph.events, facts.graph.tasks
    if len(events) < 3:
        message = f"the graph has {plural(len(events), 'event')}: three are built in"
        yield _misframed(facts, message, "all_events")
        return
    last = len(events) - 1
    meant = {
        0: (911, "it ends the kernel"),
        LAUNCH: (903, "it launches the tasks"),
        last: (910, "it ends the iteration"),
    }
    stray = {
        901: "its tasks are launched twice",
        902: "its tasks are launched twice",
        903: "its tasks are launched twice",
        910: "the iteration ends there",
    }
    for position, event in enumerate(events):
        code, reason = meant.get(
            position, (900, stray.get(event.event_type, "it is none of its own"))
        )
        if event.event_type != code:
            is_type = f"{event.event_type} ({_EVENT_TYPES.get(event.event_type, 'unknown')})"
            name = "the last event" if position == last else "event"
            message = (
                f"{name} {position} is of type {is_type} and must be {code} "
                f"({_EVENT_TYPES[code]}): {reason}"
            )
            yield _misframed(facts, message, "all_events", position, "event_type")
    launch = events[LAUNCH]
    wrong = (
        "first_task_id" if launch.first_task_id != 2 else "",
        "last_task_id" if launch.last_task_id != len(tasks) else "",
    )
    for field in filter(None, wrong):
        message = (
            f"event 1 launches tasks {launch.first_task_id}..{launch.last_task_id}, "
            f"and the tasks to launch are 2..{len(tasks)}"
        )
        yield _misframed(facts, message, "all_events", LAUNCH, field)
        break


def _stray_terminators(facts: RankFacts) -> Iterator[Finding]:
    """Find TERMINATE tasks that event 1 launches: the worker that takes one stops for good."""
    graph = facts.graph
    terminate = {number for number, alike in enumerate(graph.alike) if not alike.task_type}
    if sum(facts.events.weight[number] for number in terminate) == 0:
        return
    for task, alike in enumerate(graph.alike_of):
        if task > 1 and alike in terminate:
            message = f"task {task} is TERMINATE: the worker that takes it stops for good"
            yield _misframed(facts, message, "all_tasks", task, "task_type")


def _stray_first_tasks(facts: RankFacts) -> Iterator[Finding]:
    count = len(facts.graph.tasks)
    for entry, task in enumerate(facts.graph.first_tasks):
        if not 2 <= task < count:
            message = (
                f"first_tasks names task {task}, and there are {plural(count, 'task')}"
                if task >= count
                else f"first_tasks names task {task}, which the runtime starts itself"
            )
            yield _misframed(facts, message, "first_tasks", entry)


@rule(
    "MG407",
    "queue-overflow",
    Severity.WARNING,
    "There are more tasks than the workers' queues can hold.",
    why="""
        All tasks of an iteration are put into the workers' queues at its start, 8,192
        entries each, round robin. A scheduler does not wait for room: what does not fit
        overwrites tasks that were not taken yet. The check is an assert, compiled out in
        the default build.
    """,
    example="A graph of 1.2 million tasks on 144 workers, with `--workers 144` given.",
    fix="""
        Fewer, larger tasks (wider tiles, fewer prefill chunks in one graph), or a longer
        queue in `persistent_kernel.cuh`.
    """,
    limits="""
        The number of workers is not in the files. Without `--workers` the rule speaks only
        when the tasks do not fit on the largest GPU that MPK knows (144 workers).
    """,
)
def queue_overflow(facts: RankFacts) -> Iterator[Finding]:
    tasks = len(facts.graph.tasks) - 2
    given = facts.options.workers
    workers = given or MOST_WORKERS
    most = -(-tasks // workers)
    if most <= QUEUE_LENGTH or len(facts.graph.events) <= LAUNCH:
        return
    needed = -(-tasks // QUEUE_LENGTH)
    yield Finding(
        rule="MG407",
        severity=Severity.ERROR if given else Severity.WARNING,
        message=(
            f"{tasks:,} tasks are launched at once, {most:,} for each of {workers} workers"
            f"{'' if given else ' (the most that MPK starts)'}, and a worker's queue holds "
            f"{QUEUE_LENGTH:,}"
        ),
        location=facts.in_graph("all_events", LAUNCH, "last_task_id"),
        hint=f"it takes {needed:,} workers, or larger tasks",
        rank=facts.rank,
    )
