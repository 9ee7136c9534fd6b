"""MG402: events wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.order.following import silent
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._shared import capped, layer_text, task_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
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
    repeats=True,
)


@RULE.checked_by
def event_cycle(facts: RankFacts) -> Iterator[Finding]:
    graph = facts.events
    yield from capped(_cycle_finding(facts, cycle) for cycle in graph.cycles)


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
    return RULE.finding(
        facts.rank,
        (
            f"events {' → '.join([*shown, str(first)])} wait for each other: "
            f"task {group.first} ({kind}{layer_text(facts, group)}) waits for event {last} and "
            f"triggers event {first}, which comes before it"
            if len(cycle) > 1
            else f"event {first} waits for itself: task {group.first} "
            f"({kind}{layer_text(facts, group)}) waits for it and triggers it"
        ),
        facts.in_graph("all_tasks", group.first, "dependent_event"),
        hint=f"let task {group.first} wait for an event that comes before event {first}",
        trace=tuple(
            facts.in_graph(
                "all_tasks",
                between.first,
                "trigger_event",
                note=f"{task_text(facts, between)}, waits for event {event} and triggers {target}",
            )
            for event, target, between in steps[-12:]
        ),
        causes=map(silent, cycle),
        follows=facts.order.following.causes_of_cycles(),
    )
