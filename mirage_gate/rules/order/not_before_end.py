"""MG304: a task does not lead to END: the next iteration may start before it has run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.events import NOTHING
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.order._sides import kind_of

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

RULE = Rule(
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
    repeats=True,
)


@RULE.checked_by
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
    who = f"task {first.first} ({kind_of(facts, first)})"
    if count > 1:
        who = f"{count:,} tasks (first: {who})"
    every = [*groups, *(group for _, own in others for group in own)]
    more = facts.events.tasks(every) - count
    also = f"; {plural(more, 'task')} at {plural(len(others), 'more event')} likewise"
    return RULE.finding(
        facts.rank,
        f"{who} trigger{'s' * (count == 1)} {where}: END does not wait for "
        f"{'it' if count == 1 else 'them'}, and the next iteration may overtake "
        f"{'it' if count == 1 else 'them'}" + (also if others else ""),
        facts.in_graph("all_tasks", first.first, "trigger_event"),
        hint="let a task that leads to END wait for them, or let them trigger END",
        related=tuple(
            facts.in_graph(
                "all_tasks", own[0].first, "trigger_event", note=f"event {event} likewise"
            )
            for event, own in others[:3]
        ),
        follows=facts.order.following.causes_of_lost(every),
    )
