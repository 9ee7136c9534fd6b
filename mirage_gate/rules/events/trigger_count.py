"""MG401: an event counts on another number of triggers than tasks trigger it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mirage_gate.facts.events import gpu_of
from mirage_gate.facts.order.following import bad_id_of, lacking, silent
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._astray import lost_by, triggers_astray
from mirage_gate.rules.events._shared import (
    by_type,
    capped,
    layer_text,
    listed,
    task_text,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
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
    repeats=True,
)


@RULE.checked_by
def trigger_count(facts: RankFacts) -> Iterator[Finding]:
    yield from capped(_wrong_counts(facts))
    yield from capped(_uneven(facts))


def _mend(facts: RankFacts, event: int, needed: int, got: int) -> str:
    """Say how to mend a wrong count; never to make the count fit what may be missing."""
    if lost := lost_by(facts, event):
        more = facts.events.tasks(lost) - 1
        also = f" and {plural(more, 'more task')} of its operator" if more else ""
        return f"let task {lost[0].first}{also} trigger event {event}"
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
        triggering = tuple((n, count) for n, count, _ in by_type(facts, graph.triggering[event]))
        waiting = tuple(sorted({group.task_type for group in graph.waiting[event]}))
        alike.setdefault((needed, got, triggering, waiting), []).append(event)
    for events in alike.values():
        event, others = events[0], events[1:]
        needed, got = graph.events[event].num_triggers, graph.arrivals[event]
        kinds = by_type(facts, graph.triggering[event])
        by = f" ({listed(kinds)})" if kinds else ""
        who = f"{plural(got, 'task')} trigger{'s' * (got == 1)} it{by}"
        if any(graph.is_remote(group.trigger) for group in graph.triggering[event]):
            who = f"{plural(got, 'trigger')} arrive{'s' * (got == 1)} from the other ranks{by}"
        if event == graph.end:
            effect = "END never comes" if needed > got else "the next iteration starts too early"
        elif not graph.waiting[event]:
            effect = "no task waits for it"
        else:
            late = "never starts" if needed > got else "starts too early"
            early = "never start" if needed > got else "start too early"
            count = graph.tasks(graph.waiting[event])
            first = task_text(facts, graph.waiting[event][0])
            effect = (
                f"the {plural(count, 'task')} behind it {early} (first: {first})"
                if count != 1
                else f"the task behind it {late} ({first})"
            )
        also = f"; {plural(len(others), 'more event')} of the same operators alike"
        yield RULE.finding(
            facts.rank,
            f"event {event} waits for {plural(needed, 'trigger')} and {who}: {effect}"
            + (also if others else ""),
            facts.in_graph("all_events", event, "num_triggers"),
            hint=_mend(facts, event, needed, got),
            related=(
                *triggers_astray(facts, event),
                *(
                    facts.in_graph(
                        "all_tasks",
                        group.first,
                        "trigger_event",
                        note=f"{name} triggers it "
                        f"({plural(count, 'task')}{layer_text(facts, group)})",
                    )
                    for name, count, group in kinds[:3]
                ),
                *(
                    facts.in_graph("all_events", other, "num_triggers", note=f"event {other} too")
                    for other in others[:3]
                ),
            ),
            causes=[word for one in events for word in _causes(facts, one)],
            follows=_follows(facts, events),
        )


def _causes(facts: RankFacts, event: int) -> Iterator[str]:
    if facts.events.events[event].num_triggers > facts.events.arrivals[event]:
        yield silent(event)
    if event in facts.order.following.lost:
        yield lacking(event)


def _follows(facts: RankFacts, events: Sequence[int]) -> list[str]:
    """Say from what it follows that an event, or each of some alike, gets a wrong count."""
    graph, following = facts.events, facts.order.following
    if graph.events[events[0]].num_triggers > graph.arrivals[events[0]]:
        return [bad_id_of(lacking(events[0]))] if len(events) == 1 else []
    takers = [set(following.causes_of_surplus(event)) for event in events]
    return sorted(set.intersection(*takers))


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
    if 2 * sum(map(facts.times_of_event, odd)) >= sum(map(facts.times_of_event, sent)):
        return
    for event, to in odd.items():
        most, least = max(to.values()), min(to.values()) if len(to) == ranks - 1 else 0
        groups = [group for group in graph.triggering[event] if graph.is_remote(group.trigger)]
        busy = next(group for group in groups if to[gpu_of(group.trigger)] == most)
        yield RULE.finding(
            facts.rank,
            (
                f"event {event} is triggered {most} times on rank {gpu_of(busy.trigger)} and "
                f"{_times(least)} on another, where {len(sent) - len(odd)} of the events that "
                f"go to other ranks go to all of them alike (first: {task_text(facts, busy)})"
            ),
            facts.in_graph("all_tasks", busy.first, "trigger_event"),
            hint="send to every other rank; a rank that gets too few triggers hangs",
            severity=Severity.WARNING,
            related=(facts.in_graph("all_events", event, "num_triggers", note=f"event {event}"),),
        )


def _times(count: int) -> str:
    return ("never", "once")[count] if count < 2 else f"{count} times"
