"""The event graph: ids, reachability, cycles, the run by counting. Small graphs, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate.artifacts.cuda import CudaSource, Declaration
from mirage_gate.artifacts.graph import (
    METADATA_FIELDS,
    NO_EVENT,
    NVSHMEM_TAG,
    Event,
    Graph,
    Task,
    Tensor,
)
from mirage_gate.artifacts.loader import load
from mirage_gate.facts import Options, RankFacts
from mirage_gate.facts.events import INVALID, NOTHING, Before, EventGraph
from mirage_gate.facts.task_types import TaskType, built_in
from mirage_gate.findings import Location

METADATA = (0, 0, 0, 0, 0)


def task(
    waits: int = NO_EVENT,
    fires: int = NO_EVENT,
    kind: int = 5000,
    inputs: Sequence[int] = (),
    outputs: Sequence[int] = (),
    metadata: tuple[int, int, int, int, int] = METADATA,
) -> Task:
    return Task(kind, 0, tuple(inputs), tuple(outputs), fires, waits, metadata)


def decoded(
    events: Sequence[Event],
    tasks: Sequence[Task],
    first: Sequence[int] = (),
    tensors: Sequence[Tensor] = (),
) -> Graph:
    """The graph, by way of its text. Tasks name their operands by number in `tensors`."""
    operands = [msgspec.to_builtins(tensor) for tensor in tensors]
    text = {
        "all_events": [msgspec.to_builtins(event) for event in events],
        "all_tasks": [
            {
                "task_type": one.task_type,
                "variant_id": one.variant_id,
                "inputs": [operands[i] for i in one.inputs] or None,
                "outputs": [operands[i] for i in one.outputs] or None,
                "trigger_event": one.trigger_event,
                "dependent_event": one.dependent_event,
                **dict(zip(METADATA_FIELDS, one.metadata, strict=True)),
            }
            for one in tasks
        ],
        "first_tasks": list(first),
    }
    graph = load(json.dumps(text, indent=2, sort_keys=True).encode())
    assert isinstance(graph, Graph)
    return graph


def small_facts(
    tasks: Sequence[Task],
    events: int,
    *,
    counts: dict[int, int] | None = None,
    tensors: Sequence[Tensor] = (),
    kinds: Sequence[TaskType] = (),
    declared: Sequence[Declaration] = (),
    world_size: int | None = None,
) -> RankFacts:
    """Facts of a graph with the usual frame: `tasks` from 2 on, `events` from 2 on, then END.

    Every event counts what triggers it, unless `counts` says otherwise.
    """
    all_tasks = [task(kind=0), task(fires=1, kind=10), *tasks]
    arrivals = dict.fromkeys(range(events + 3), 0)
    for one in all_tasks:
        if one.trigger_event != NO_EVENT:
            position = one.trigger_event & 0xFFFF_FFFF
            arrivals[position] = arrivals.get(position, 0) + 1
    arrivals.update(counts or {})
    all_events = [
        Event(911, 1, 0, 0),
        Event(903, arrivals[1], 2, len(all_tasks)),
        *(Event(900, arrivals[i], 0, 0) for i in range(2, events + 2)),
        Event(910, arrivals[events + 2], 0, 0),
    ]
    first = [i for i, one in enumerate(all_tasks) if i > 1 and one.dependent_event == NO_EVENT]
    graph = decoded(all_events, all_tasks, first, tensors)
    cuda = CudaSource("k.cu", tuple(declared), {}, {}, world_size=world_size)
    plain = {one.task_type: TaskType(one.task_type, f"TASK_{one.task_type}") for one in tasks}
    types = {**plain, **built_in(), **{kind.code: kind for kind in kinds}}
    return RankFacts(0, cuda, graph, "g.json", Options(task_types=types))


def scratch(name: str, nbytes: int = 64) -> Declaration:
    return Declaration(name, "scratch", Location("k.cu", 1), nbytes)


def graph_of(tasks: Sequence[Task], events: int, **options: dict[int, int]) -> EventGraph:
    return small_facts(tasks, events, **options).events  # type: ignore[arg-type]


# -- ids -------------------------------------------------------------------------------------------


def test_the_invalid_id_is_no_event_although_it_looks_remote() -> None:
    graph = graph_of([task(fires=2), task(waits=2, fires=3)], 1)
    assert graph.waits == [NOTHING, NOTHING, 1, 2]
    assert graph.fires == [NOTHING, 1, 2, 3]
    assert not graph.is_remote(NO_EVENT)


def test_ids_of_other_ranks_are_read_by_their_position() -> None:
    rank = 3 << 32
    graph = graph_of([task(fires=rank | 2), task(waits=rank | 2, fires=rank | 3)], 1)
    assert graph.fires[2:] == [2, 3]
    assert graph.gpu == 3


def test_an_id_past_the_end_makes_no_edge() -> None:
    graph = graph_of([task(fires=900), task(waits=0xFFFF_FFFF, fires=3)], 1)
    assert graph.fires[2] == INVALID
    assert graph.waits[3] == INVALID
    assert graph.edges[1] == {}


def test_a_remote_trigger_counts_as_if_it_landed_here() -> None:
    remote = NVSHMEM_TAG << 48 | 1 << 32 | 2
    graph = graph_of([task(fires=remote), task(waits=2, fires=3)], 1)
    assert graph.arrivals == [0, 1, 1, 1]
    assert graph.stall is None
    assert graph.to_end == [False, True, True, True]


# -- reachability ----------------------------------------------------------------------------------


@st.composite
def dags(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 40))
    near = st.integers(1, draw(st.sampled_from((1, 3, 40))))
    return [
        sorted({max(0, place - draw(near)) for _ in range(draw(st.integers(0, 3)))})
        if place
        else []
        for place in range(size)
    ]


@given(dags())
def test_before_is_reachability(sources: list[list[int]]) -> None:
    before = Before(sources)
    ancestors: list[set[int]] = []
    for place, places in enumerate(sources):
        ancestors.append({place}.union(*(ancestors[source] for source in places)))
    everything = (1 << len(sources)) - 1
    for second, known in enumerate(ancestors):
        assert {first for first in range(len(sources)) if before.holds(first, second)} == known
        others = before.missing(everything, second)
        assert others == everything & ~sum(1 << place for place in known)
        for first in range(len(sources)):
            common = known & ancestors[first]
            assert before.last_common(first, second) == max(common, default=-1)


def test_the_bits_stay_few_where_layers_follow_each_other() -> None:
    # Ten thousand layers, each a fork into eight events and a join of all of them.
    sources: list[list[int]] = [[]]
    for _ in range(10_000):
        fork = len(sources) - 1
        sources += [[fork]] * 8
        sources.append(list(range(fork + 1, fork + 9)))
    before = Before(sources)
    assert max(bits.bit_length() for bits in before.bits) < 20
    assert before.holds(1, 90_000)
    assert not before.holds(89_993, 89_992)


# -- cycles ----------------------------------------------------------------------------------------


@st.composite
def tangles(draw: st.DrawFn) -> tuple[int, list[Task]]:
    count = draw(st.integers(1, 6))
    event = st.integers(1, count + 2)
    waits = st.one_of(st.just(NO_EVENT), event)
    return count, [task(draw(waits), draw(event)) for _ in range(draw(st.integers(1, 9)))]


@given(tangles())
def test_every_cycle_is_one_and_every_stuck_event_is_behind_one(
    tangle: tuple[int, list[Task]],
) -> None:
    count, tasks = tangle
    graph = graph_of(tasks, count)
    reach = [set(targets) for targets in graph.edges]
    for _ in range(graph.count):
        for targets in reach:
            targets.update(*(reach[target] for target in list(targets)))
    circular = {event for event in range(graph.count) if event in reach[event]}
    behind = {event for start in circular for event in reach[start]}
    assert set(graph.stuck) == behind | circular
    assert sorted(graph.order + graph.stuck) == list(range(graph.count))
    for cycle in graph.cycles:
        for event, target in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert target in graph.edges[event]
        assert cycle[0] <= cycle[-1]
    knots = {frozenset(e for e in circular if e in reach[s] and s in reach[e]) for s in circular}
    assert len(graph.cycles) == len(knots)
    assert {knot for knot in knots if any(set(c) <= knot for c in graph.cycles)} == knots
    for place, event in enumerate(graph.order):
        assert all(graph.index[t] > place or graph.index[t] < 0 for t in graph.edges[event])


def test_a_long_cycle_is_no_danger_to_the_stack() -> None:
    length = 20_000
    tasks = [task(2 + i, 2 + (i + 1) % length) for i in range(length)]
    graph = graph_of(tasks, length)
    assert [len(cycle) for cycle in graph.cycles] == [length]
    assert graph.cycles[0][0] == 2


# -- the run by counting ---------------------------------------------------------------------------


@given(tangles(), st.dictionaries(st.integers(1, 8), st.integers(0, 5), max_size=3))
def test_the_run_is_that_of_single_tasks(
    tangle: tuple[int, list[Task]], counts: dict[int, int]
) -> None:
    count, tasks = tangle
    facts = small_facts(tasks, count, counts=counts)
    events, all_tasks = facts.graph.events, facts.graph.tasks
    arrived = [0] * len(events)
    launched, ran, moved = False, {1}, True
    arrived[1] += 1
    while moved:
        moved = False
        launched = launched or arrived[1] >= events[1].num_triggers
        for number, one in enumerate(all_tasks):
            if number < 2 or number in ran or not launched:
                continue
            waits = 1 if one.dependent_event == NO_EVENT else one.dependent_event
            if arrived[waits] >= events[waits].num_triggers:
                ran.add(number)
                arrived[one.trigger_event] += 1
                moved = True
    run = facts.events.run
    assert run.idle_tasks == len(all_tasks) - 1 - len(ran)
    if facts.events.stall is None:
        assert not run.idle
        assert arrived[-1] >= events[-1].num_triggers


def test_the_first_event_to_blame_and_the_way_to_the_end() -> None:
    tasks = [task(fires=2), task(2, 3), task(2, 3), task(3, 4), task(4, 5)]
    stall = graph_of(tasks, 3, counts={3: 4}).stall
    assert stall is not None
    assert (stall.idle_tasks, stall.event, stall.chain) == (2, 3, (3, 4, 5))


def test_an_end_that_never_comes_is_a_stall_of_no_task() -> None:
    stall = graph_of([task(fires=2), task(2, 3)], 1, counts={3: 2}).stall
    assert stall is not None
    assert (stall.idle_tasks, stall.event, stall.chain) == (0, 3, (3,))


def test_a_cycle_is_to_blame_where_counts_are_right() -> None:
    stall = graph_of([task(fires=2), task(2, 3), task(4, 3), task(3, 4), task(4, 5)], 3).stall
    assert stall is not None
    assert (stall.idle_tasks, stall.event) == (3, 3)


def test_who_waits_for_an_event_that_is_not_there_is_to_blame_himself() -> None:
    stall = graph_of([task(fires=2), task(900, 3)], 1).stall
    assert stall is not None
    assert stall.event is None or stall.event == 3


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_graph_without_its_frame_has_facts_all_the_same(events: int) -> None:
    graph = decoded([Event(900, 7, 5, 2)] * events, [task(1, 1)] * 2, [9])
    facts = RankFacts(0, CudaSource("k.cu", (), {}, {}), graph, "g.json", Options())
    assert len(facts.events.order) + len(facts.events.stuck) == events
    assert facts.events.run.idle_tasks <= 2
    assert facts.events.stall is None or events
    assert facts.order.tensors == {}


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=8), st.integers(0, 4))
def test_no_id_is_too_wild(ids: list[int], events: int) -> None:
    tasks = [task(one, other) for one, other in pairwise(ids)]
    graph = decoded([Event(900, 2**31 - 1, 2**31 - 1, 0)] * events, tasks, [2**31 - 1])
    facts = RankFacts(0, CudaSource("k.cu", (), {}, {}), graph, "g.json", Options())
    assert facts.events.run is not None
    assert facts.events.before is not None
    assert sum(facts.events.arrivals) <= len(tasks)
