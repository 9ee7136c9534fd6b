"""MG804: the model computes something else than the plan that it is held to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.plan import Step
    from mirage_gate.facts.plan.comparing import Planned

RULE = Rule(
    "MG804",
    "plan-differs",
    Severity.ERROR,
    "The model computes something else than the plan that it is held to.",
    why="""
        A plan is the model as a program: which operator takes what, whatever the batch, the
        tiles, the ranks and the GPU. What is the same mistake in every layer, such as cosine
        and sine exchanged, has no sibling to tell it by. The plan that was agreed does.
    """,
    example="""
        The plan has `a = attention(…, cos, sin)`, and the graph `a = attention(…, sin, cos)`.
    """,
    fix="""
        If the change is meant, write the plan again (`mirage-gate plan PATH > FILE`, or the
        lock) and commit it with the change. `mirage-gate plan FILE PATH` prints all that
        differs.
    """,
    limits="""
        Names of values and buffers do not matter, nor the order of statements that do not take
        one another's results. Ranks above 0 may leave out what is added to a sum over ranks.
        Said once for a rank, of the first operator that differs.
    """,
)


@RULE.checked_by
def plan_differs(facts: RankFacts) -> Iterator[Finding]:
    planned = facts.options.plan
    if planned is None:
        return
    from mirage_gate.facts.plan.comparing import difference
    from mirage_gate.facts.plan.folding import line_of

    program = facts.program
    found = difference(planned.program, program, partial=facts.rank > 0)
    if found is None:
        return
    wanted = "no such operator" if found.meant is None else planned.line_of(found.meant)
    if found.found is None:
        there = "nothing of the kind"
        step = _near(program.steps, found.meant or 0)
    else:
        there = line_of(program, found.found)
        step = program.steps[found.found]
    place = facts.in_graph("all_tasks", step.first, "task_type") if step else facts.in_graph()
    yield RULE.finding(
        facts.rank,
        f"{PurePath(planned.path).name} has `{wanted}`, the graph has `{there}`",
        place,
        hint=f"`mirage-gate plan {planned.path} PATH` prints all that differs; if it is meant, "
        "write the plan, or the lock that holds it, again",
        related=(_in_plan(planned, found.meant),),
    )


def _near(steps: tuple[Step, ...], number: int) -> Step | None:
    """Give what stands where a statement is missing."""
    return steps[min(number, len(steps) - 1)] if steps else None


def _in_plan(planned: Planned, number: int | None) -> Location:
    line = 1
    if number is not None:
        line = planned.program.steps[number].first + planned.before
    return Location(planned.path, line, 1, line, 1, note="the plan says it here")
