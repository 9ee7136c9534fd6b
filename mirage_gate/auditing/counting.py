"""Counting for a report: of every tensor, who reads and who writes it.

Of a rank's facts, or of the summary that is left of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.agreed.summary import Summary
from mirage_gate.facts import RankFacts
from mirage_gate.facts.wiring import tasks_in, types_of
from mirage_gate.report import Coverage, LayerUse, PlanBlock, PlanLine, RankReport

if TYPE_CHECKING:
    from mirage_gate.facts.coverage import Use


def of_facts(facts: RankFacts, failure: str, by_layer: bool) -> RankReport:
    """Give the rank as a report shows it; ``by_layer`` says of each tensor what each does."""
    return RankReport(
        rank=facts.rank,
        cuda_path=facts.cuda.path,
        graph_path=facts.graph_path,
        audited=not failure,
        failure=failure,
        tasks=len(facts.graph.tasks),
        events=len(facts.graph.events),
        tensors=len(facts.declared),
        coverage=tuple(_of_facts(facts, by_layer)),
        type_names={
            code: facts.task_type(code).name
            for code in sorted({group.task_type for group in facts.wiring.groups})
        },
        plan=tuple(_plan(facts)) if by_layer else (),
        unchecked=facts.signatures.constants.unchecked,
    )


def _plan(facts: RankFacts) -> Iterator[PlanBlock]:
    """Give the plan as a drawing shows it."""
    from mirage_gate.facts.plan.flow import sides_of
    from mirage_gate.facts.words import ADD, ALL_REDUCE

    plan = facts.plan
    sides = sides_of(plan)
    for block in plan.blocks:
        lines = []
        for statement in block.statements:
            values, weights = next(sides)
            lines.append(
                PlanLine(
                    text=str(statement),
                    operator=statement.operator,
                    results=statement.results,
                    values=values,
                    weights=weights,
                    adds=bool(statement.added) or statement.operator in (ADD, "embedding"),
                    passes=statement.operator == ALL_REDUCE,
                    first_tasks=statement.where,
                )
            )
        yield PlanBlock(block.title, block.layers, tuple(lines))


def of_summary(summary: Summary) -> RankReport:
    """Give a rank of which the summary is left as a report shows it."""
    return RankReport(
        rank=summary.rank,
        cuda_path=summary.cuda_path,
        graph_path=summary.graph_path,
        audited=summary.audited,
        failure=summary.failure,
        tasks=summary.tasks,
        events=summary.events,
        tensors=len(summary.tensors),
        coverage=tuple(_of_summary(summary)),
        type_names=summary.task_types,
    )


def _of_facts(facts: RankFacts, by_layer: bool) -> Iterator[Coverage]:
    wiring = facts.wiring
    for name, declaration in facts.declared.items():
        consumers, producers = wiring.consumers(name), wiring.producers(name)
        yield Coverage(
            tensor=name,
            kind=declaration.kind,
            nbytes=declaration.nbytes,
            location=declaration.location,
            critical=facts.is_critical(declaration),
            input_refs=wiring.input_refs(name),
            output_refs=wiring.output_refs(name),
            consumers=tasks_in(consumers),
            producers=tasks_in(producers),
            consumer_task_types=types_of(consumers),
            producer_task_types=types_of(producers),
            layers=tuple(_by_layer(facts, name)) if by_layer else (),
        )


def _by_layer(facts: RankFacts, name: str) -> Iterator[LayerUse]:
    from mirage_gate.facts.coverage import uses_by_layer

    return map(_layer_use, uses_by_layer(facts, name))


def _layer_use(use: Use) -> LayerUse:
    return LayerUse(
        layer=use.layer,
        consumers=tasks_in(use.readers),
        producers=tasks_in(use.writers),
        nbytes=use.nbytes,
        first_consumer=min((group.first for group in use.readers), default=-1),
        consumer_task_types=types_of(use.readers),
    )


def _of_summary(summary: Summary) -> Iterator[Coverage]:
    for wired in summary.tensors:
        yield Coverage(
            tensor=wired.name,
            kind=wired.kind,
            nbytes=wired.nbytes,
            location=summary.declared_at(wired),
            critical=wired.critical,
            input_refs=sum(wired.inputs.values()),
            output_refs=sum(wired.outputs.values()),
            consumers=sum(wired.readers.values()),
            producers=sum(wired.writers.values()),
            consumer_task_types=tuple(sorted(wired.readers)),
            producer_task_types=tuple(sorted(wired.writers)),
        )
