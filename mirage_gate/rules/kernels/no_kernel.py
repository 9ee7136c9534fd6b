"""MG501: a task's (type, variant) has no dispatch branch: it silently does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.wiring import tasks_in
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._claims import without_kernel
from mirage_gate.rules._words import plural, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._shared import dispatched_kernels

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG501",
    "no-kernel",
    Severity.ERROR,
    "A task's (type, variant) has no dispatch branch: it silently does nothing.",
    why="""
        `_execute_task` is one chain of if and else-if without a final else. A task that no
        branch matches does nothing, still triggers its event, and nobody notices: what it
        should have written stays as it was. A `.cu` without any `_execute_task` says nothing
        of kernels; that is a warning, for then nothing about them was checked. So is a branch that
        is missing where another condition could not be understood; where none could, the file was
        not read, and that is an error.
    """,
    example="Tasks of type 156 and variant 2 exist, and the chain ends at variant 1.",
    fix="Emit kernel and graph again, together; register the task type's generator.",
    repeats=True,
)


@RULE.checked_by
def no_kernel(facts: RankFacts) -> Iterator[Finding]:
    unread = facts.cuda.unread
    if not facts.cuda.dispatch and not facts.cuda.unreachable:
        what = "the CUDA file has no dispatch table"
        if unread:
            what = f"{plural(len(unread), 'condition')} of the dispatch could not be understood"
        yield RULE.finding(
            facts.rank,
            f"{what}: kernels and slots were not checked",
            *unread[:1] or (facts.cuda.dispatch_location or Location(facts.cuda.path, 1, 1, 1, 1),),
            hint="audit the whole file as MPK emitted it",
            severity=Severity.ERROR if unread else Severity.WARNING,
        )
        return
    unmatched = _unmatched(facts)
    kernels = dispatched_kernels(facts)
    unknown = sorted({task_type for task_type, _ in kernels if not facts.knows(task_type)})
    if len(unknown) > len(unmatched) > 0:
        yield _too_few_kernels(facts, unknown, unmatched)
    for (task_type, variant), groups in sorted(kernels.items()):
        if facts.wiring.branch(task_type, variant):
            continue
        if task_type in unknown and any((n, variant) in facts.cuda.dispatch for n in unmatched):
            continue  # one of them may be its kernel
        kind = facts.task_type(task_type).name
        variants = sorted(v for name, v in facts.cuda.dispatch if name == kind)
        has = f"it has variants {', '.join(map(str, variants[:8]))}" if variants else "it has none"
        at = facts.cuda.dispatch_location
        never = facts.cuda.unreachable.get((kind, variant))
        if never:
            has = "the one in the text never runs"
        if unread and not never:
            has += f"; or line {unread[0].line} has it, which could not be understood"
        first = min(group.first for group in groups)
        yield RULE.finding(
            facts.rank,
            (
                f"{tasks(facts, groups)} of variant {variant} have no dispatch branch and do "
                f"nothing ({has})"
            ),
            facts.in_graph("all_tasks", first, "variant_id"),
            hint="emit kernel and graph again, together",
            severity=Severity.WARNING if unread and not never else Severity.ERROR,
            related=(
                *((never.saying("a branch that never runs"),) if never else ()),
                *((at.saying("the dispatch table"),) if at else ()),
            ),
            causes=[without_kernel(task_type, variant)],
        )


def _unmatched(facts: RankFacts) -> list[str]:
    """List the type names in the dispatch table that have no known code."""
    known = {kind.name for kind in facts.task_types.values()}
    return sorted({name for name, _ in facts.cuda.dispatch if name not in known})


def _too_few_kernels(facts: RankFacts, unknown: list[int], unmatched: list[str]) -> Finding:
    """Fewer branches whose type is unknown than unknown types: some type has none."""
    groups = [group for group in facts.wiring.groups if group.task_type in unknown]
    first = min(group.first for group in groups)
    at = facts.cuda.dispatch_location
    return RULE.finding(
        facts.rank,
        (
            f"{len(unknown)} unknown task types ({', '.join(map(str, unknown[:6]))}) have "
            f"{plural(tasks_in(groups), 'task')}, and the dispatch table has only "
            f"{plural(len(unmatched), 'type')} that could be theirs "
            f"({', '.join(unmatched[:6])}): the tasks of at least one do nothing"
        ),
        facts.in_graph("all_tasks", first, "task_type"),
        hint="name the types with --runtime-header, or emit kernel and graph again, together",
        related=(at.saying("the dispatch table"),) if at else (),
    )
