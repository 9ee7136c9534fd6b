"""MG406: the first tasks and the first and last events are not what the runtime assumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.events import LAUNCH, position_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._shared import capped, event_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
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
    repeats=True,
)


_EVENT_TYPES = {
    900: "EMPTY",
    901: "LAUNCH_TASKS",
    902: "LAUNCH_MASSIVE_TASKS",
    903: "LAUNCH_DEPENDENT_TASKS",
    910: "END_OF_TASK_GRAPH",
    911: "TERMINATION",
    999: "INVALID",
}


@RULE.checked_by
def frame(facts: RankFacts) -> Iterator[Finding]:
    yield from _frame_tasks(facts)
    yield from capped(_frame_events(facts))
    yield from capped(_stray_terminators(facts))
    yield from capped(_stray_first_tasks(facts))


def _misframed(facts: RankFacts, message: str, *at: str | int) -> Finding:
    return RULE.finding(
        facts.rank,
        message,
        facts.in_graph(*at),
        hint="emit the graph again",
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
            whom = event_text(task.dependent_event)
            message = f"task {number} ({name}) waits for {whom}: it must wait for nothing"
            yield _misframed(facts, message, "all_tasks", number, "dependent_event")
        meant = (NO_EVENT, LAUNCH)[number]
        fires = NO_EVENT if task.trigger_event == NO_EVENT else position_of(task.trigger_event)
        if fires != meant:
            must = "event 1, which launches the rest" if number else "nothing"
            whom = event_text(task.trigger_event)
            message = f"task {number} ({name}) triggers {whom}: it must trigger {must}"
            yield _misframed(facts, message, "all_tasks", number, "trigger_event")


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
    first = facts.graph.first_tasks
    if len(set(first)) < len(first):
        task, times = Counter(first).most_common(1)[0]
        entry = first.index(task, first.index(task) + 1)
        message = f"first_tasks names task {task} {times:,} times: it would start as often"
        yield _misframed(facts, message, "first_tasks", entry)
    for entry, task in enumerate(first):
        if not 2 <= task < count:
            message = (
                f"first_tasks names task {task}, and there are {plural(count, 'task')}"
                if task >= count
                else f"first_tasks names task {task}, which the runtime starts itself"
            )
            yield _misframed(facts, message, "first_tasks", entry)
