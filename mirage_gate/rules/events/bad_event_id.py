"""MG405: a task carries an event id that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.events import position_of
from mirage_gate.facts.order.following import astray, bad_id_of, lacking
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._ids import bad_dependent, bad_trigger
from mirage_gate.rules.events._shared import capped, layer_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

RULE = Rule(
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
    repeats=True,
)


@RULE.checked_by
def bad_event_id(facts: RankFacts) -> Iterator[Finding]:
    graph = facts.events
    groups = [group for group in facts.wiring.groups if graph.weight[group.number]]
    dependents = {group.dependent for group in groups}
    bad_dependents = {
        event_id: bad for event_id in dependents if (bad := bad_dependent(facts, event_id))
    }
    triggers = {(group.trigger, group.task_type) for group in groups}
    bad_triggers = {pair: bad for pair in triggers if (bad := bad_trigger(facts, *pair))}
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups if bad_dependents or bad_triggers else ():
        problems = (
            ("dependent_event", bad_dependents.get(group.dependent)),
            ("trigger_event", bad_triggers.get((group.trigger, group.task_type))),
        )
        for field, problem in problems:
            if problem:
                found.setdefault((field, problem), []).append(group)
    yield from capped(
        _bad_id(facts, field, problem, groups) for (field, problem), groups in found.items()
    )


def _bad_id(facts: RankFacts, field: str, problem: str, groups: list[Group]) -> Finding:
    count = facts.events.tasks(groups)
    first = groups[0]
    task = first.first or 1
    event_id = _id_of(first, field)
    more = f" ({plural(count - 1, 'more task')} like it)" if count > 1 else ""
    return RULE.finding(
        facts.rank,
        (
            f"{field} {event_id} of task {task} "
            f"({facts.task_type(first.task_type).name}{layer_text(facts, first)}) {problem}{more}"
        ),
        facts.in_graph("all_tasks", task, field),
        hint="emit the graph again",
        causes=[
            f"{field} {problem}",
            *{f"{field} {_id_of(group, field)}" for group in groups},
            *(bad_id_of(text) for text in _lost(facts, field, groups)),
        ],
    )


def _id_of(group: Group, field: str) -> int:
    return group.dependent if field == "dependent_event" else group.trigger


def _lost(facts: RankFacts, field: str, groups: list[Group]) -> Iterator[str]:
    """Say what else is wrong because some tasks carry ids of no event, and nothing but that."""
    following = facts.order.following
    if any(position_of(_id_of(group, field)) < facts.events.count for group in groups):
        return
    numbers = {group.number for group in groups}
    if field == "dependent_event":
        meant = {astray(event): waits for event, waits in following.waits.items()}
    else:
        meant = {lacking(event): lost.fires for event, lost in following.lost.items()}
    yield from (text for text, some in meant.items() if some.keys() <= numbers)
