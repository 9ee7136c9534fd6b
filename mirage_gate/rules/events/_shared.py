"""How the rules on events speak of tasks, and how many findings they give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.events import position_of
from mirage_gate.findings import Finding

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

SHOWN = 5
"""Findings of one kind on one rank; the last of them says how many more there are."""


def task_text(facts: RankFacts, group: Group) -> str:
    """Name a group's first task and its type."""
    return f"task {group.first}, {facts.task_type(group.task_type).name}"


def layer_text(facts: RankFacts, group: Group) -> str:
    """Say which layer a group is in; nothing outside of the layers."""
    layer = facts.layers.of_group[group.number]
    return "" if layer is None else f", layer {layer}"


def by_type(facts: RankFacts, groups: Iterable[Group]) -> list[tuple[str, int, Group]]:
    """Give tasks by type: (name, how many, first group), the most numerous first."""
    count: Counter[int] = Counter()
    first: dict[int, Group] = {}
    for group in groups:
        count[group.task_type] += facts.events.weight[group.number]
        first.setdefault(group.task_type, group)
    return [(facts.task_type(code).name, n, first[code]) for code, n in count.most_common()]


def listed(kinds: list[tuple[str, int, Group]], most: int = 3) -> str:
    """Say how many tasks there are of each type."""
    text = ", ".join(f"{count:,} {name}" for name, count, _ in kinds[:most])
    return text + (f" and {len(kinds) - most} more types" if len(kinds) > most else "")


def capped(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass the first findings on; the last one says how many more like it were left out."""
    found = list(findings)
    left = len(found) - SHOWN
    if left <= 0:
        yield from found
        return
    yield from found[: SHOWN - 1]
    last = found[SHOWN - 1]
    yield msgspec.structs.replace(last, message=f"{last.message}; {left:,} more like it")


def event_text(event_id: int) -> str:
    """Say what an event id names."""
    return "no event" if event_id == NO_EVENT else f"event {position_of(event_id)}"
