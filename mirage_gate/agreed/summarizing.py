"""Summing up a rank: its facts, as :class:`~mirage_gate.agreed.summary.Summary` keeps them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mirage_gate.agreed.summary import (
    Awaited,
    Collective,
    LayerShape,
    Put,
    Residual,
    Sent,
    Summary,
    Tasks,
    Wired,
)
from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.artifacts.names import spans
from mirage_gate.artifacts.pairs import match
from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

_T = TypeVar("_T")


def outline(facts: RankFacts) -> Summary:
    """Say who the rank is, and no more: enough where there is nothing to compare it with."""
    found = match(PurePath(facts.graph_path).name)
    named = found is None or "{}" in found[0].graph
    gpu = facts.events.gpu
    other = named and gpu != facts.rank
    return Summary(
        rank=facts.rank,
        cuda_path=facts.cuda.path,
        graph_path=facts.graph_path,
        audited=True,
        world_size=facts.cuda.world_size,
        gpu=gpu,
        gpu_at=facts.in_graph("all_tasks", 1, "trigger_event") if other else None,
        named=named,
        tasks=len(facts.graph.tasks),
        events=len(facts.graph.events),
    )


def _tuple(items: Iterable[_T]) -> tuple[_T, ...]:
    """Make a tuple that, if it is empty, msgspec knows for the default and leaves out.

    It goes by identity, and Python 3.10 makes a new empty tuple of an empty iterator.
    """
    return tuple(items) or ()


def summarize(facts: RankFacts) -> Summary:
    """Sum up a rank. Its places in the graph are pointers still."""
    types = sorted({group.task_type for group in facts.wiring.groups})
    return msgspec.structs.replace(
        outline(facts),
        task_types={code: facts.task_type(code).name for code in types},
        tensors=_tuple(_tensors(facts)),
        layers=_tuple(_layers(facts)),
        events_at=facts.in_graph("all_events"),
        collectives=_tuple(_collectives(facts)),
        residuals=_tuple(_residuals(facts)),
        sent=_tuple(_sent(facts)),
        awaited=_tuple(_awaited(facts)),
        plan=str(facts.plan),
    )


def places(summary: Summary) -> Iterator[Location]:
    """Give every place it points at."""
    for place in (summary.gpu_at, summary.events_at):
        if place is not None:
            yield place
    yield from (collective.at for collective in summary.collectives)
    yield from (residual.at for residual in summary.residuals)
    yield from (awaited.at for awaited in summary.awaited)


def placed(summary: Summary, place: Callable[[Location], Location]) -> Summary:
    """Give the summary with every place turned into a line."""
    return msgspec.structs.replace(
        summary,
        gpu_at=summary.gpu_at and place(summary.gpu_at),
        events_at=summary.events_at and place(summary.events_at),
        collectives=_tuple(
            msgspec.structs.replace(one, at=place(one.at)) for one in summary.collectives
        ),
        residuals=_tuple(
            msgspec.structs.replace(one, at=place(one.at)) for one in summary.residuals
        ),
        awaited=_tuple(msgspec.structs.replace(one, at=place(one.at)) for one in summary.awaited),
    )


def _tensors(facts: RankFacts) -> Iterator[Wired]:
    of_group = facts.layers.of_group
    for name, declaration in facts.declared.items():
        inputs: Tasks = {}
        outputs: Tasks = {}
        read: Tasks = {}
        written: Tasks = {}
        reading: set[int] = set()
        writing: set[int] = set()
        for access in facts.wiring.of(name):
            group = access.group
            task_type, count, number = group.task_type, group.count, group.number
            side = inputs if access.is_input else outputs
            side[task_type] = side.get(task_type, 0) + count
            if access.reads and number not in reading:
                reading.add(number)
                read[task_type] = read.get(task_type, 0) + count
            if access.writes and number not in writing:
                writing.add(number)
                written[task_type] = written.get(task_type, 0) + count
        at = declaration.location
        critical = facts.is_critical(declaration)
        layers = {of_group[number] for number in reading} - {None} if critical else set()
        yield Wired(
            name=name,
            kind=declaration.kind,
            at=(at.line, at.column, at.end_line, at.end_column),
            nbytes=declaration.nbytes,
            critical=critical,
            inputs=dict(sorted(inputs.items())),
            outputs=dict(sorted(outputs.items())),
            read=None if read == inputs else dict(sorted(read.items())),
            written=None if written == outputs else dict(sorted(written.items())),
            layers=spans(sorted(layer for layer in layers if layer is not None)),
        )


def _layers(facts: RankFacts) -> Iterator[LayerShape]:
    outside = [o for o in facts.layers.operators if o.place is None]
    yield _shape(facts, None, "", outside)
    for siblings in facts.stacks:
        of = f" of {siblings.name}" if siblings.name else ""
        for layer, operators in siblings.layers.items():
            yield _shape(facts, layer, f"{siblings.kind_of(layer)}{of}", operators)


def _shape(facts: RankFacts, layer: int | None, kind: str, operators: list[Operator]) -> LayerShape:
    return LayerShape(
        layer=layer,
        kind=kind,
        operators=len(operators),
        tasks=sum(operator.tasks for operator in operators),
        events=_event_hash(facts, operators),
    )


def _event_hash(facts: RankFacts, operators: list[Operator]) -> str:
    """Hash who waits for which event and triggers which, as seen from the layer's first event.

    The rank in an id, and how many events came before the layer, do not count.
    """
    events, count = facts.events, len(facts.graph.events)
    numbers = array("q")
    groups = [group for operator in operators for group in operator.groups]
    known = [p for g in groups for p in (events.waits[g.number], events.fires[g.number]) if p >= 0]
    base = min(known, default=0)
    for group in groups:
        waits, fires = events.waits[group.number], events.fires[group.number]
        needs = facts.graph.events[waits].num_triggers if 0 <= waits < count else -1
        numbers.extend((group.task_type, group.count, waits - base, fires - base, needs))
    from hashlib import blake2b  # slow to load, and only a summary needs it

    return blake2b(numbers.tobytes(), digest_size=8).hexdigest()


def _collectives(facts: RankFacts) -> Iterator[Collective]:
    from mirage_gate.facts.transfers import Transfers

    tensors = facts.graph.tensors
    transfers = Transfers(facts)
    for operator in facts.layers.operators:
        if not facts.task_type(operator.task_type).collective:
            continue
        first = operator.groups[0]
        tiles = [tensors[number] for number in (*first.inputs, *first.outputs)]
        yield Collective(
            task_type=operator.task_type,
            layer=operator.place,
            tasks=operator.tasks,
            inputs=tuple(dict.fromkeys(name.name for name in operator.names(True))),
            outputs=tuple(dict.fromkeys(name.name for name in operator.names(False))),
            tiles=tuple((tile.data_type, tile.dims) for tile in tiles),
            at=facts.in_graph("all_tasks", operator.first, "task_type"),
            puts=_tuple(Put(*put) for put in transfers.puts(operator)),
            reads=transfers.reads(operator),
        )


def _residuals(facts: RankFacts) -> Iterator[Residual]:
    for one in facts.partials.linears.values():
        group = one.operator.groups[0]
        branch = facts.wiring.branch(group.task_type, group.variant)
        if one.residual is None or branch is None or not one.weight:
            continue
        named = branch.body.naming(one.residual) if branch.body is not None else None
        yield Residual(
            weight=one.weight,
            tensor=facts.graph.tensors[group.inputs[one.residual]].base_ptr,
            task_type=group.task_type,
            layer=one.operator.place,
            at=facts.in_graph("all_tasks", group.first, "inputs", one.residual, "base_ptr"),
            body=named or branch.location,
            reads=one.reads,
            guarded=one.guarded,
            whole=one.reads and facts.partials.whole(one),
            summed=one.summed,
        )


def _sent(facts: RankFacts) -> Iterator[Sent]:
    from mirage_gate.facts.events import gpu_of, position_of, tag_of

    counts: Counter[tuple[int, int]] = Counter()
    for group in facts.wiring.groups:
        if group.trigger != NO_EVENT and tag_of(group.trigger):
            signals = facts.events.signals[group.number]
            counts[gpu_of(group.trigger), position_of(group.trigger)] += signals
    run: Sent | None = None
    for (gpu, position), count in sorted(counts.items()):
        if run and (run.gpu, run.last + 1, run.count) == (gpu, position, count):
            run = Sent(gpu, run.first, position, count)
            continue
        if run:
            yield run
        run = Sent(gpu, position, position, count)
    if run:
        yield run


def _awaited(facts: RankFacts) -> Iterator[Awaited]:
    """Give the events that other ranks trigger: those that this rank triggers on them, too."""
    from mirage_gate.facts.events import position_of, tag_of

    events = facts.graph.events
    remote: set[int] = set()
    waiting: dict[int, Operator] = {}
    local: Counter[int] = Counter()
    for operator in facts.layers.operators:
        for group in operator.groups:
            if group.dependent != NO_EVENT:
                waiting.setdefault(position_of(group.dependent), operator)
                if tag_of(group.dependent):
                    remote.add(position_of(group.dependent))
            if group.trigger != NO_EVENT:
                if tag_of(group.trigger):
                    remote.add(position_of(group.trigger))
                else:
                    local[position_of(group.trigger)] += group.count
    run: Awaited | None = None
    owner: Operator | None = None
    for position in sorted(remote):
        if position >= len(events):
            break
        here = (events[position].num_triggers, local[position])
        waits = waiting.get(position)
        goes_on = run and owner is waits and run.last + 1 == position
        if run and goes_on and (run.triggers, run.local) == here:
            run = msgspec.structs.replace(run, last=position)
            continue
        if run:
            yield run
        owner = waits
        at = (
            facts.in_graph("all_tasks", waits.first, "dependent_event")
            if waits
            else facts.in_graph("all_events", position, "num_triggers")
        )
        run = Awaited(position, position, *here, at)
    if run:
        yield run
