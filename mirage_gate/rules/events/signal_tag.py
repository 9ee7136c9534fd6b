"""MG409: a task waits for signals from other ranks as if for its own tasks, or the other way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.events import gpu_of, position_of, tag_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.events._ids import bad_trigger
from mirage_gate.rules.events._shared import task_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

RULE = Rule(
    "MG409",
    "signal-tag",
    Severity.ERROR,
    "A task waits for signals from other ranks as if for its own tasks, or the other way round.",
    why="""
        The NVSHMEM tag in a `dependent_event` picks the runtime's way of waiting: with it a
        worker waits for signals that other ranks put into its memory, without it for a counter
        of its own. A task that waits the wrong way reads before the data is there, or hangs.
    """,
    example="""
        The other ranks signal event 25 when their slices have arrived, and the reduction's
        `dependent_event` is 25 without the tag.
    """,
    fix="Set the tag (`0x1e00 << 48`) where the event is triggered by puts, and only there.",
    limits="""
        Ranks are taken to be alike: what this rank triggers on the others, they trigger here.
        Loaders of September 2025 and before knew no tag on what a task waits for.
    """,
    repeats=True,
)


@RULE.checked_by
def signal_tag(facts: RankFacts) -> Iterator[Finding]:
    events = facts.events
    fields = facts.cuda.loader_fields
    tagged = any(g.dependent != NO_EVENT and tag_of(g.dependent) for g in facts.wiring.groups)
    if not tagged and fields and "expert_offset" not in fields:
        return
    signalled = {
        position_of(group.trigger)
        for group in facts.wiring.groups
        if events.is_remote(group.trigger)
        or (group.trigger != NO_EVENT and gpu_of(group.trigger) != events.gpu)
    }
    wrong: dict[bool, list[Group]] = {}
    for group in facts.wiring.groups:
        event = group.dependent
        if event == NO_EVENT or position_of(event) >= events.count:
            continue  # the second is MG405's
        if bool(tag_of(event)) != (position_of(event) in signalled):
            wrong.setdefault(bool(tag_of(event)), []).append(group)
    for has_tag, groups in wrong.items():
        first = groups[0]
        event = position_of(first.dependent)
        count = events.tasks(groups)
        more = f"; so do {plural(count - 1, 'more task')}" if count > 1 else ""
        if has_tag:
            what = "as for other ranks' signals (NVSHMEM tag), and no other rank triggers it"
        else:
            what = "as for its own rank's tasks (no NVSHMEM tag), and other ranks' puts trigger it"
        yield RULE.finding(
            facts.rank,
            f"{task_text(facts, first)} waits for event {event} {what}{more}",
            facts.in_graph("all_tasks", first.first, "dependent_event"),
            hint=f"{'drop' if has_tag else 'set'} the tag 0x1e00 in the upper 16 bits of the id",
            related=tuple(
                facts.in_graph("all_tasks", g.first, "trigger_event", note="it triggers the event")
                for g in events.triggering[event][:1]
            ),
            follows=() if has_tag else _follows(facts, groups),
        )


def _follows(facts: RankFacts, groups: list[Group]) -> list[str]:
    """Say which wrong ids of triggers make it seem that other ranks send what is waited for."""
    events = facts.events
    sent = [
        bad_trigger(facts, group.trigger, group.task_type)
        for event in {position_of(group.dependent) for group in groups}
        for group in events.triggering[event]
        if events.is_remote(group.trigger) or gpu_of(group.trigger) != events.gpu
    ]
    return [f"trigger_event {sent[0]}"] if sent and all(sent) and len(set(sent)) == 1 else []
