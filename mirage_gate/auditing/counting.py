"""Counting for a report: of every tensor, who reads and who writes it.

Of a rank's facts, or of the summary that is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.agreed.summary import Summary
from mirage_gate.facts import RankFacts
from mirage_gate.facts.wiring import tasks_in, types_of
from mirage_gate.report import Coverage, LayerUse, PlanBlock, PlanLine, RankReport

if TYPE_CHECKING:
    from mirage_gate.facts.coverage import Use
    from mirage_gate.facts.shortened import Shortened
    from mirage_gate.facts.wiring import Access


def of_facts(facts: RankFacts, failure: str, by_layer: bool) -> RankReport:
    """Give the rank as a report shows it; ``by_layer`` says of each tensor what each does."""
    short = facts.shortened
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
            for code in sorted({alike.task_type for alike in facts.graph.alike})
        },
        plan=tuple(_plan(facts)) if by_layer else (),
        unchecked=(short.facts if short else facts).signatures.constants.unchecked,
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
    count = _by_likeness(facts.shortened) if facts.shortened and not by_layer else None
    for name, declaration in facts.declared.items():
        used = count(name) if count else _used(facts.wiring.of(name))
        yield Coverage(
            tensor=name,
            kind=declaration.kind,
            nbytes=declaration.nbytes,
            location=declaration.location,
            critical=facts.is_critical(declaration),
            input_refs=used.input_refs,
            output_refs=used.output_refs,
            consumers=sum(used.read.values()),
            producers=sum(used.written.values()),
            consumer_task_types=tuple(sorted(used.read)),
            producer_task_types=tuple(sorted(used.written)),
            layers=tuple(_by_layer(facts, name)) if by_layer else (),
        )


class _Used(msgspec.Struct, frozen=True):
    """How many entries carry a tensor, and how many tasks of each type read and write it."""

    input_refs: int
    output_refs: int
    read: dict[int, int]
    written: dict[int, int]


def _by_likeness(short: Shortened) -> Callable[[str], _Used]:
    """Count in the short graph, each layer as often as the whole has it."""
    wiring = short.facts.wiring
    known: dict[str, _Used] = {}

    def count(name: str) -> _Used:
        like = short.like(name)
        used = known.get(like)
        if used is None:
            used = known[like] = _used(wiring.of(like), short.times(name))
        return used

    return count


def _used(accesses: Iterable[Access], times: Sequence[int] | None = None) -> _Used:
    refs = {True: 0, False: 0}
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    reading: set[int] = set()
    writing: set[int] = set()
    for access in accesses:
        group = access.group
        count = group.count * times[group.number] if times else group.count
        refs[access.is_input] += count
        # A task that carries a tensor twice is one that reads it.
        if access.reads and group.number not in reading:
            reading.add(group.number)
            read[group.task_type] = read.get(group.task_type, 0) + count
        if access.writes and group.number not in writing:
            writing.add(group.number)
            written[group.task_type] = written.get(group.task_type, 0) + count
    return _Used(refs[True], refs[False], read, written)


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
