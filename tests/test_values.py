"""Values: what is claimed of a small graph holds in every run of it; what real ones look like."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from mirage_gate.artifacts.graph import NO_EVENT, Tensor
from mirage_gate.facts import RankFacts
from mirage_gate.facts.task_types import TaskType, slots
from mirage_gate.facts.values import Value
from tests.emitter import Model, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.test_events import scratch, small_facts, task
from tests.test_layers import facts_of
from tests.test_order import BYTES, bytes_of, small_graphs, tile

Read = tuple[int, int]
"""A byte, and the task whose write of it is read."""

MOST_RUNS = 60


def runs(facts: RankFacts) -> Iterator[list[int]]:
    """Orders in which the tasks can run, by counting triggers; the first few hundred."""
    tasks, events = facts.graph.tasks, facts.graph.events
    given_out = 0

    def after(done: list[int]) -> Iterator[list[int]]:
        nonlocal given_out
        ready = [
            number
            for number in range(2, len(tasks))
            if number not in done
            and (
                tasks[number].dependent_event == NO_EVENT
                or sum(tasks[d].trigger_event == tasks[number].dependent_event for d in done)
                >= events[tasks[number].dependent_event].num_triggers
            )
        ]
        if not ready and given_out < MOST_RUNS:
            given_out += 1
            yield done
        for number in ready:
            if given_out < MOST_RUNS:
                yield from after([*done, number])

    yield from after([1])


def read_in(facts: RankFacts, order: list[int]) -> set[Read]:
    """What two iterations of one run read: whatever a byte may hold when it is read."""
    held: dict[int, set[int]] = {byte: set() for byte in range(BYTES)}
    found: set[Read] = set()
    for number in order * 2:
        one = facts.graph.tasks[number]
        kind = facts.task_type(one.task_type)
        writes: list[tuple[set[int], bool]] = []
        for slot, operand in enumerate(one.inputs):
            access = kind.input(slot)
            covered = bytes_of(facts.graph.tensors[operand])
            if access.reads or access.accumulates:
                found |= {(byte, writer) for byte in covered for writer in held[byte]}
            if access.writes:
                writes.append((covered, access.indexed))
        for covered, _ in [w for w in writes if not w[1]]:
            for byte in covered:
                held[byte] = set()
        for covered, _ in writes:
            for byte in covered:
                held[byte] = held[byte] | {number}
    return found


def unread(facts: RankFacts, value: Value) -> set[int]:
    mask = facts.values.unread(value)
    ranges = facts.regions.of(value.tensor).ranges(mask, most=BYTES)
    return {byte for low, high in ranges for byte in range(low, high)}


@given(small_graphs())
@settings(max_examples=100, deadline=None)
def test_what_nobody_reads_is_read_in_no_run(facts: RankFacts) -> None:
    claimed = {
        (byte, value.operator.first)
        for values in facts.values.written.values()
        for value in values
        for byte in unread(facts, value)
    }
    for order in runs(facts):
        assert not claimed & read_in(facts, order)


@given(small_graphs())
@settings(max_examples=100, deadline=None)
def test_where_all_is_ordered_and_exact_every_unread_byte_is_found(facts: RankFacts) -> None:
    one = next(runs(facts))
    exact = not any(
        facts.task_type(t.task_type).input(slot).indexed
        for t in facts.graph.tasks
        for slot in range(len(t.inputs))
    )
    if "x" not in facts.wiring.accesses or not exact or facts.values.unordered("x"):
        return
    if len(one) < len(facts.graph.tasks) - 1:
        return  # it stalls
    read = read_in(facts, one)
    for value in facts.values.of("x").values:
        number = value.operator.first
        written = {
            byte
            for slot, operand in enumerate(facts.graph.tasks[number].inputs)
            if (value.place == (True, slot))
            for byte in bytes_of(facts.graph.tensors[operand])
        }
        assert unread(facts, value) == {b for b in written if (b, number) not in read}


def test_many_values_are_found_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that 150 operators fill, in two rounds, each round read by halves."""
    known = kinds("w", "w", "r")
    parts = [tile(at, 1) for at in range(150)]
    whole = [tile(0, 75), tile(75, 75), tile(3, 140)]
    tasks, event = [], 2
    for turn in range(2):
        for at in range(150 - turn):
            waits = NO_EVENT if event == 2 else event - 1
            tasks.append(task(waits, event, known[at % 2].code, [at]))
            event += 1
        for reader in range(150, 153 - turn):
            tasks.append(task(event - 1, event, known[2].code, [reader]))
            event += 1

    def found(few: int) -> list[tuple[int, int, int, list[int]]]:
        monkeypatch.setattr("mirage_gate.facts.values.living.FEW", few)
        facts = small_facts(
            tasks, event - 3, tensors=parts + whole, kinds=known, declared=[scratch("x", 150)]
        )
        values = facts.values.of("x").values
        return [
            (v.cells, v.read, v.left, [other.number for other, _ in v.overwritten]) for v in values
        ]

    assert found(0) == found(10_000)


def chain(*types: TaskType, tiles: tuple[Tensor, ...] = (tile(0, 6),)) -> RankFacts:
    """One task of each type, one after the other, each carrying all the tiles."""
    tasks = [
        task(NO_EVENT if not at else at + 1, at + 2, kind.code, range(len(tiles)))
        for at, kind in enumerate(types)
    ]
    return small_facts(
        tasks, len(types) - 1, tensors=tiles, kinds=types, declared=[scratch("x", BYTES)]
    )


def kinds(*access: str) -> tuple[TaskType, ...]:
    return tuple(TaskType(5000 + at, f"TASK_{at}", slots(text)) for at, text in enumerate(access))


@pytest.mark.parametrize(
    ("access", "dead"),
    [
        (("w", "w", "r"), [True, False]),
        (("w", "r", "w", "r"), [False, False]),
        (("w", "rw", "r"), [False, False]),
        (("w", "w+", "r"), [False, False]),  # zeros, and what is added to them
        (("r", "w"), [False]),  # read in the next iteration
        (("w", "w@", "r"), [False, False]),  # some rows may be left
        (("w", "r", "w"), [False, True]),
        (("w", "w!", "r"), [False, False]),
    ],
)
def test_a_value_is_unread_if_it_is_overwritten_or_left(
    access: tuple[str, ...], dead: list[bool]
) -> None:
    facts = chain(*kinds(*access))
    values = facts.values.of("x").values
    assert [bool(facts.values.unread(value)) for value in values] == dead


def test_a_read_sees_the_last_write() -> None:
    facts = chain(*kinds("w", "r", "w", "r"))
    values, uses = facts.values.of("x").values, facts.values.of("x").uses
    assert [use.seen[0][0] for use in uses] == values
    assert [value.overwritten[0][0].number for value in values[:1]] == [values[1].operator.number]


def test_an_unknown_type_may_read_what_it_carries() -> None:
    known = kinds("w", "w", "r")
    facts = chain(*known)
    del facts.options.task_types[known[1].code]
    assert not facts.values.unread(facts.values.of("x").values[0])
    assert facts.values.of("x").murky


def test_without_order_nothing_is_claimed() -> None:
    one, two, three = kinds("w", "w", "r")
    tasks = [
        task(NO_EVENT, 2, one.code, [0]),
        task(NO_EVENT, 2, two.code, [0]),
        task(2, 3, three.code, [0]),
    ]
    facts = small_facts(
        tasks, 1, tensors=[tile(0, 6)], kinds=[one, two, three], declared=[scratch("x", BYTES)]
    )
    assert facts.values.unordered("x")
    assert not any(facts.values.unread(value) for value in facts.values.of("x").values)


@pytest.mark.parametrize(
    "model",
    [qwen3(4), qwen3(3, ranks=2), qwen3_ampere(3), qwen3_moe(3), deepseek_v3(5)],
    ids=["dense", "ranks", "fused", "mixture", "deepseek"],
)
def test_in_a_correct_graph_every_value_is_read(model: Model) -> None:
    facts = facts_of(model.emit())
    final = {"argmax_out"}
    zeros = {v.tensor for v in _values(facts) if "TENSOR_INIT" in _type(facts, v)}
    left = {value.tensor for value in _values(facts) if facts.values.unread(value)}
    assert left - zeros <= final


@pytest.mark.parametrize("name", ["rmsnorm_out", "attn_in", "mlp_mid"])
@pytest.mark.parametrize("layer", [0, 2])
def test_a_buffer_that_every_layer_uses_holds_a_value_for_each(name: str, layer: int) -> None:
    facts = facts_of(qwen3(3).emit())
    values = [v for v in facts.values.of(name).values if v.operator.place == layer]
    assert len(values) == (2 if name == "rmsnorm_out" else 1)
    for value in values:
        readers = [
            use.operator
            for use in facts.values.of(name).uses
            for seen, _ in use.seen
            if seen is value
        ]
        assert {reader.place for reader in readers} == {layer}


def _values(facts: RankFacts) -> list[Value]:
    return [value for values in facts.values.written.values() for value in values]


def _type(facts: RankFacts, value: Value) -> str:
    return facts.task_type(value.operator.task_type).name
