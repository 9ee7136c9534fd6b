"""MG404: an event's task range and the tasks' dependent events do not agree."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.events import LAUNCH, position_of
from mirage_gate.facts.order.following import astray, bad_id_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._ranges import Range, at_range, ranges_of
from mirage_gate.rules.events._shared import capped, event_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
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
    repeats=True,
)


@RULE.checked_by
def range_mismatch(facts: RankFacts) -> Iterator[Finding]:
    yield from capped(_outside_ranges(facts))
    yield from capped(_shared_ranges(facts))
    yield from capped(_other_events(facts))


def _outside_ranges(facts: RankFacts) -> Iterator[Finding]:
    """Find tasks that no range holds and that are no first tasks, and ranges past the tasks."""
    tasks = facts.graph.tasks
    first = set(facts.graph.first_tasks)
    for position, event in enumerate(facts.graph.events):
        low, high = event.first_task_id, event.last_task_id
        if position > LAUNCH and position < facts.events.end and (high > len(tasks) or low > high):
            yield RULE.finding(
                facts.rank,
                (
                    f"event {position} has the range {low}..{high}, "
                    f"and there are {plural(len(tasks), 'task')}"
                    if high > len(tasks)
                    else f"event {position} has the range {low}..{high}: it ends before it starts"
                ),
                facts.in_graph(
                    "all_events", position, "last_task_id" if high > len(tasks) else "first_task_id"
                ),
                hint="emit the graph again",
            )
    at = 2
    gaps: list[tuple[int, int]] = []
    for held in ranges_of(facts):
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
        whom = event_text(tasks[task].dependent_event)
        yield RULE.finding(
            facts.rank,
            (
                f"task {task} ({name}) waits for {whom} and is in no event's range"
                if count == 1
                else f"{plural(count, 'task')} are in no event's range "
                f"(first: task {task}, {name}, which waits for {whom})"
            ),
            facts.in_graph("all_tasks", task, "dependent_event"),
            hint="emit the graph again",
        )


def _shared_ranges(facts: RankFacts) -> Iterator[Finding]:
    """Find tasks in two ranges, and first tasks in one."""
    before: Range | None = None
    for held in ranges_of(facts):
        if before is not None and held.low < before.high:
            count = min(held.high, before.high) - held.low
            yield RULE.finding(
                facts.rank,
                (
                    f"{plural(count, 'task')} (first: task {held.low}) "
                    f"{'is' if count == 1 else 'are'} in the ranges of two events, "
                    f"{before.event} ({before.low}..{before.high}) and "
                    f"{held.event} ({held.low}..{held.high})"
                ),
                at_range(facts, held.event),
                hint="emit the graph again",
                related=(at_range(facts, before.event, f"the range of event {before.event}"),),
            )
        if before is None or held.high > before.high:
            before = held
    first = sorted(set(facts.graph.first_tasks))
    for held in ranges_of(facts):
        if held.low < 2:
            yield _frame_in_range(facts, held, held.low)
        at = bisect_left(first, max(held.low, 2))
        if at < len(first) and first[at] < held.high:
            yield _frame_in_range(facts, held, first[at])


def _frame_in_range(facts: RankFacts, held: Range, task: int) -> Finding:
    which = f"task {task} is one of first_tasks" if task > 1 else f"task {task} waits for nothing"
    return RULE.finding(
        facts.rank,
        f"{which} and is in the range of event {held.event} ({held.low}..{held.high})",
        at_range(facts, held.event),
        hint="emit the graph again",
    )


def _other_events(facts: RankFacts) -> Iterator[Finding]:
    """Find tasks in an event's range that wait for another one."""
    graph, tasks = facts.graph, facts.graph.tasks
    first = {0, 1, *graph.first_tasks}
    dependents = [alike.dependent_event for alike in graph.alike]
    seen = 0
    for held in ranges_of(facts):
        # Of ranges over one another it is said that they are; each task is looked at once.
        low, seen = max(held.low, seen), max(held.high, seen)
        here = graph.alike_of[low : held.high]
        others = {
            alike
            for alike in set(here)
            if dependents[alike] == NO_EVENT or position_of(dependents[alike]) != held.event
        }
        if not others:
            continue
        odd: dict[int, list[int]] = {}
        for task, alike in enumerate(here, low):
            if alike in others and task not in first:
                odd.setdefault(dependents[alike], []).append(task)
        if not odd:
            continue
        event_id, waiting = max(odd.items(), key=lambda item: len(item[1]))
        count = sum(map(len, odd.values()))
        task = waiting[0]
        name = facts.task_type(tasks[task].task_type).name
        whom = event_text(event_id)
        yield RULE.finding(
            facts.rank,
            f"task {task} ({name}) waits for {whom} and is in the range of event {held.event} "
            f"({held.low}..{held.high})"
            + (f"; so do {count - 1:,} more tasks of that range" if count > 1 else ""),
            facts.in_graph("all_tasks", task, "dependent_event"),
            hint=f"let it wait for event {held.event}, or correct the range",
            related=(at_range(facts, held.event, f"the range of event {held.event}"),),
            causes=[astray(held.event)],
            follows=[bad_id_of(astray(held.event))] if len(odd) == 1 else (),
        )
    yield from _first_tasks(facts)


def _first_tasks(facts: RankFacts) -> Iterator[Finding]:
    """Find first tasks that wait for something."""
    tasks = facts.graph.tasks
    for entry, task in enumerate(facts.graph.first_tasks):
        if 2 <= task < len(tasks) and tasks[task].dependent_event != NO_EVENT:
            yield RULE.finding(
                facts.rank,
                (
                    f"task {task} is one of first_tasks and waits for "
                    f"{event_text(tasks[task].dependent_event)}"
                ),
                facts.in_graph("all_tasks", task, "dependent_event"),
                hint="a first task waits for nothing: it has the invalid id",
                related=(facts.in_graph("first_tasks", entry, note="listed here"),),
            )
