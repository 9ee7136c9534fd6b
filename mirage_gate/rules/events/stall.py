"""MG403: run by counting triggers, the graph does not come to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.events import INVALID
from mirage_gate.facts.order.following import silent
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._shared import task_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
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
    repeats=True,
)


@RULE.checked_by
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
        yield RULE.finding(
            facts.rank,
            f"run by counting, {never}: {task_text(facts, first)}, waits for no event there is",
            facts.in_graph("all_tasks", first.first, "dependent_event"),
            hint="mend the id (MG405), then look again",
            follows=[f"dependent_event {first.dependent}"],
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
    yield RULE.finding(
        facts.rank,
        f"run by counting, {never}: {why}; {_waiters(facts, event)}{reaches}",
        facts.in_graph("all_events", event, "num_triggers"),
        hint=f"mend event {event} first: it is the first to blame",
        trace=tuple(_chain(facts, found.chain)),
        follows=[silent(event)],
    )


def _waiters(facts: RankFacts, event: int) -> str:
    """Say who waits for an event: ``the 512 tasks that wait for it (first: task 11724, …)``."""
    groups = facts.events.waiting[event]
    if not groups:
        return "nobody waits for it"
    count, first = facts.events.tasks(groups), task_text(facts, groups[0])
    return f"{plural(count, 'task')} wait{'s' * (count == 1)} for it (first: {first})"


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
