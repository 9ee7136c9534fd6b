"""MG505: tasks alike in everything their body reads: the same work is done several times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.wiring import tasks_in
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import repeated
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._shared import selected_branches

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

RULE = Rule(
    "MG505",
    "repeated-work",
    Severity.WARNING,
    "Tasks alike in everything their body reads: the same work is done several times.",
    why="""
        Each task runs one kernel over one set of operands. Tasks with the same kernel, the
        same operands and the same metadata do the same thing again: at best wasted time, at
        worst a tile that somebody else was to compute.
    """,
    example="Eight QUANTIZE_FP8 tasks each quantise the whole tensor and read no metadata.",
    fix="Give the operator a grid whose tasks differ, or a grid of one.",
    repeats=True,
)


@RULE.checked_by
def repeated_work(facts: RankFacts) -> Iterator[Finding]:
    work: dict[tuple[object, ...], list[Group]] = defaultdict(list)
    for branch, groups in selected_branches(facts):
        for group in groups:
            reads, writes = facts.wiring.work_of(group)
            if group.count > 1 and branch.metadata and _rows_differ(facts, group, branch):
                continue
            destination = group.trigger >> 32  # a remote write goes where its event lives
            work[group.dependent, destination, reads, writes].append(group)
    repeated: dict[int, list[list[Group]]] = defaultdict(list)
    for groups in work.values():
        if sum(group.count for group in groups) > 1:
            repeated[groups[0].task_type].append(groups)
    for task_type, sets in sorted(repeated.items()):
        every = [group for groups in sets for group in groups]
        sizes = sorted({sum(group.count for group in groups) for groups in sets})
        times = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        first = min(every, key=lambda group: group.first)
        kind = facts.task_type(task_type).name
        # How many they are depends on how many layers have them: that is no part of the mistake.
        extent = plural(tasks_in(every), "task")
        extent += f" in {len(sets):,} sets" if len(sets) > 1 else ""
        yield RULE.finding(
            facts.rank,
            (
                f"tasks of {kind} (first: task {first.first}) do the same work {times} times: they "
                "read and write the same tiles, and no metadata that their kernel reads tells "
                "them apart"
            ),
            facts.in_graph("all_tasks", first.first, "task_type"),
            hint=(
                f"in the builder, give {kind} a grid that cuts its tiles apart, or a grid of one "
                "block"
            ),
            causes=_too_many(facts, sets),
            related=(
                facts.in_graph(
                    "all_tasks", first.first, "inputs", note=f"the first of {extent} that do so"
                ),
            ),
        )


def _too_many(facts: RankFacts, sets: list[list[Group]]) -> list[str]:
    """Say of each operator how many of its tasks do what others of it do."""
    numbers = facts.layers.operator_numbers
    count: Counter[int] = Counter()
    for groups in sets:
        inside = {numbers[group.number] for group in groups}
        if len(inside) == 1:
            count[inside.pop()] += tasks_in(groups) - 1
    return [repeated(operator, times) for operator, times in count.items()]


def _rows_differ(facts: RankFacts, group: Group, branch: Branch) -> bool:
    """Whether the metadata that the body reads tells the tasks of a group apart."""
    values = facts.wiring.metadata_in(group, branch)
    return len(set(values)) == len(values)
