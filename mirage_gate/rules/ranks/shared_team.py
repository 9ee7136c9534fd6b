"""MG611: two collectives may run at once on one team of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import METADATA_FIELDS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.wiring import Group

RULE = Rule(
    "MG611",
    "shared-team",
    Severity.ERROR,
    "Two collectives may run at once on one team of ranks.",
    why="""
        A tile's all-reduce meets the other ranks on a team of its own, `nvshmem_teams` at the
        task's `task_offset`. Two tasks of one team that run at once meet each other's: a rank
        adds a tile of the one to a tile of the other, or both wait for ever.
    """,
    example="The all-reduces behind attention and the MLP wait for the same event.",
    fix="Let the second operator wait for the first, or give it teams of its own.",
    limits="Tasks of one operator are MG512's. Only kernels that read `task_offset` have teams.",
    repeats=True,
)

_Task = tuple[int, "Group", "Operator"]


@RULE.checked_by
def shared_team(facts: RankFacts) -> Iterator[Finding]:
    teams: dict[int, list[_Task]] = {}
    for operator in facts.layers.operators:
        if facts.task_type(operator.task_type).collective:
            for team, task in _tasks(facts, operator):
                teams.setdefault(team, []).append(task)
    found: dict[tuple[int, int], list[tuple[int, _Task, _Task]]] = {}
    for team, tasks in teams.items():
        for one, other in pairwise(sorted(tasks, key=lambda task: task[0])):
            if one[2] is not other[2] and not _ordered(facts, one[1], other[1]):
                key = one[2].number, other[2].number
                found.setdefault(key, []).append((team, one, other))
    for pairs in found.values():
        team, one, other = pairs[0]
        yield RULE.finding(
            facts.rank,
            (
                f"tasks {one[0]} and {other[0]} may run at once on team {team} of nvshmem_teams "
                f"({plural(len(pairs), 'team')} of these two operators)"
            ),
            facts.in_graph("all_tasks", other[0], "dependent_event"),
            hint="let the second operator wait for the first",
            related=(
                facts.in_graph("all_tasks", one[0], "trigger_event", note="what the first signals"),
            ),
        )


def _tasks(facts: RankFacts, operator: Operator) -> Iterator[tuple[int, _Task]]:
    for group in operator.groups:
        branch = facts.wiring.branch(group.task_type, group.variant)
        if branch is None or not {"nvshmem_teams"} <= branch.runtime:
            continue
        read = [field for field in METADATA_FIELDS if field in branch.metadata]
        if "task_offset" not in read:
            continue
        place = read.index("task_offset")
        values = facts.wiring.metadata_in(group, branch)
        for task, metadata in zip(facts.wiring.members(group), values, strict=True):
            yield metadata[place], (task, group, operator)


def _ordered(facts: RankFacts, one: Group, other: Group) -> bool:
    """Whether one of two tasks surely ends before the other begins, or it is not known."""
    events = facts.events
    index = events.index

    def before(first: Group, second: Group) -> bool:
        fires, waits = events.fires[first.number], events.waits[second.number]
        if fires < 0 or index[fires] < 0:
            return True  # what it signals is elsewhere
        return waits >= 0 and (index[waits] < 0 or events.before.holds(index[fires], index[waits]))

    return before(one, other) or before(other, one)
