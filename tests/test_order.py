"""The order of accesses against exhaustive oracles.

The first oracle runs small graphs in every interleaving: two tasks race if each can be seen to
have run before the other started. The second looks at all pairs of tasks of larger graphs, with
everything that excuses a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate.artifacts.cuda import Branch, Declaration
from mirage_gate.artifacts.graph import NO_EVENT, Task, Tensor
from mirage_gate.facts import RankFacts
from mirage_gate.facts.task_types import Slot, TaskType, slots
from mirage_gate.findings import Location
from tests.test_events import scratch, small_facts, task

READ, WRITE, BOTH, ADD, PICK_READ, PICK_WRITE = slots("r w rw w+ r@ w@")
BYTES = 6


def tile(offset: int, length: int, name: str = "x") -> Tensor:
    return Tensor(name, offset, 930, (length,), (1,))


def rows(offset: int, name: str = "x") -> Tensor:
    """Every other byte: three rows of one column."""
    return Tensor(name, offset, 930, (3, 1), (2, 1))


TILES = [tile(at, n) for at, n in ((0, 6), (0, 1), (0, 3), (2, 2), (3, 3), (5, 1))] + [
    rows(0),
    rows(1),
]


def bytes_of(tensor: Tensor) -> set[int]:
    found = {tensor.offset}
    for dim, stride in zip(tensor.dims, tensor.strides, strict=True):
        found = {byte + i * stride for byte in found for i in range(dim)}
    return found


# -- every interleaving ----------------------------------------------------------------------------


@st.composite
def small_graphs(draw: st.DrawFn) -> RankFacts:
    """Up to 8 tasks, each a type of its own, over events that only lead on.

    An event that nobody triggers needs no trigger: what waits for it is free from the start.
    """
    events = draw(st.integers(1, 4))
    end = events + 2
    tasks, kinds = [], []
    free = draw(st.booleans())
    triggered: set[int] = set()
    for number in range(draw(st.integers(2, 8))):
        known = range(2, end) if free else sorted(triggered - {end})
        waits = draw(st.sampled_from([NO_EVENT, *known]))
        fires = draw(st.integers(2 if waits == NO_EVENT else waits + 1, end))
        triggered.add(fires)
        operands = draw(st.lists(st.sampled_from(range(len(TILES))), min_size=1, max_size=2))
        several = draw(st.sampled_from(((READ, WRITE, BOTH), (READ, ADD))))
        access = draw(st.lists(st.sampled_from(several), min_size=2, max_size=2))
        if draw(st.integers(0, 4)) == 0:
            access = [draw(st.sampled_from((PICK_READ, PICK_WRITE)))] * 2
        kinds.append(TaskType(5000 + number, f"TASK_{number}", tuple(access)))
        tasks.append(task(waits, fires, 5000 + number, operands))
    return small_facts(tasks, events, tensors=TILES, kinds=kinds, declared=[scratch("x", BYTES)])


def states(facts: RankFacts) -> set[frozenset[int]]:
    """Every set of tasks that can be done while the others are not, by counting triggers."""
    tasks, events = facts.graph.tasks, facts.graph.events
    seen = {frozenset({1})}
    wave = list(seen)
    while wave:
        done = wave.pop()
        for number in set(range(2, len(tasks))) - done:
            waits = tasks[number].dependent_event
            got = sum(tasks[other].trigger_event == waits for other in done)
            if waits == NO_EVENT or got >= events[waits].num_triggers:
                after = done | {number}
                if after not in seen:
                    seen.add(after)
                    wave.append(after)
    return seen


def uses(facts: RankFacts, number: int) -> Iterator[tuple[Slot, set[int]]]:
    one = facts.graph.tasks[number]
    for slot, operand in enumerate(one.inputs):
        yield facts.task_type(one.task_type).input(slot), bytes_of(facts.graph.tensors[operand])


def meet(facts: RankFacts, one: int, other: int) -> bool:
    """Whether two tasks touch a common byte, one writing, not both adding."""
    return any(
        mine & theirs and (a.writes or b.writes) and not (a.accumulates and b.accumulates)
        for a, mine in uses(facts, one)
        for b, theirs in uses(facts, other)
    )


def is_certain(facts: RankFacts, reachable: set[frozenset[int]], one: int, other: int) -> bool:
    """Whether no rows are picked at run time, or nobody wrote any that the reader may pick."""
    if not indexed(facts, one) and not indexed(facts, other):
        return True
    for writer, reader in ((one, other), (other, one)):
        read = set().union(*(t for s, t in uses(facts, reader) if s.reads and not s.accumulates))
        if not any(slot.writes and read & touched for slot, touched in uses(facts, writer)):
            continue
        before = [
            number
            for number in range(2, len(facts.graph.tasks))
            if number != reader
            and any(slot.writes and read & touched for slot, touched in uses(facts, number))
            and all(number in state for state in reachable if reader in state)
        ]
        if not before:
            return True
    return False


def indexed(facts: RankFacts, number: int) -> bool:
    return any(slot.indexed for slot, _ in uses(facts, number))


@settings(max_examples=200, deadline=None)
@given(small_graphs())
def test_no_race_is_missed_and_none_is_invented(facts: RankFacts) -> None:
    reachable = states(facts)
    numbers = range(2, len(facts.graph.tasks))
    either_first = {
        (one, other)
        for one, other in combinations(numbers, 2)
        if any(one in s and other not in s for s in reachable)
        and any(other in s and one not in s for s in reachable)
    }
    races = facts.order.of("x").races
    possible = {p for p in either_first if meet(facts, *p)}
    certain = {p for p in possible if is_certain(facts, reachable, *p)}
    assert any(race.certain for race in races) == bool(certain)
    # Two that pick their rows and have partners may miss each other: that is not judged here.
    if any(not indexed(facts, one) or not indexed(facts, other) for one, other in possible):
        assert races
    if races:
        assert possible
    for race in races:
        pairs = {
            tuple(sorted((first.group.first, second.group.first)))
            for first in race.earlier.parts
            for second in race.later.parts
        }
        assert pairs & (certain if race.certain else possible)


@settings(max_examples=150, deadline=None)
@given(small_graphs())
def test_a_read_before_every_write_is_one(facts: RankFacts) -> None:
    order = facts.order.of("x")
    reachable = states(facts)
    numbers = range(2, len(facts.graph.tasks))
    early = set()
    for number in numbers:
        for slot, touched in uses(facts, number):
            if not slot.reads or slot.writes or slot.indexed:
                continue
            for byte in touched:
                writers = {
                    other
                    for other in numbers
                    if any(s.writes and byte in t for s, t in uses(facts, other))
                }
                if writers and not any(writers & s for s in reachable if number not in s):
                    early.add(number)
    reported = {part.group.first for found in order.early for part in found.reader.parts}
    assert reported <= early
    racing = {
        part.group.first
        for race in order.races
        for wave in (race.earlier, race.later)
        for part in wave.parts
    }
    assert early - racing <= reported | racing


def test_a_read_is_not_early_if_a_task_that_nothing_orders_may_write_first() -> None:
    """Event 3 needs no trigger and nobody triggers it: task 4 is free from the start."""
    reader, writer, free = task(fires=2, kind=5000, inputs=[1]), task(2, 4, 5001, [1]), [2]
    kinds = [TaskType(5000, "R", (READ,)), TaskType(5001, "W", (WRITE,))]
    tasks = [reader, writer, task(3, 4, 5001, free)]
    facts = small_facts(tasks, 2, tensors=TILES, kinds=kinds, declared=[scratch("x", BYTES)])
    order = facts.order.of("x")
    assert not order.early
    assert order.races
    without = small_facts(tasks[:2], 2, tensors=TILES, kinds=kinds, declared=[scratch("x", BYTES)])
    (early,) = without.order.of("x").early
    assert early.reader.parts[0].group.first == 2


def test_a_read_of_a_free_task_is_early_if_all_writers_wait_for_it() -> None:
    tasks = [task(2, 3, 5000, [1]), task(3, 4, 5001, [1])]
    kinds = [TaskType(5000, "R", (READ,)), TaskType(5001, "W", (WRITE,))]
    facts = small_facts(tasks, 2, tensors=TILES, kinds=kinds, declared=[scratch("x", BYTES)])
    (early,) = facts.order.of("x").early
    assert early.reader.parts[0].group.first == 2
    assert not facts.order.of("x").races


# -- every pair, with every excuse -----------------------------------------------------------------


_GRID = [
    Tensor(name, at, 930, (n,), (1,))
    for name in ("x", "y")
    for at, n in ((0, 4), (0, 2), (2, 2), (1, 2))
]
_OPERATORS = {
    6000: ("r", "w"),
    6001: ("r", "w@"),
    6002: ("r", "w+"),
    6003: ("r@", "w"),
    6004: ("rw", "w"),
}


@st.composite
def layered(draw: st.DrawFn) -> RankFacts:
    """Operators of several tasks each, one after another, some edges missing."""
    events = draw(st.integers(2, 6))
    tasks: list[Task] = []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(sorted(_OPERATORS)))
        waits = draw(st.one_of(st.just(NO_EVENT), st.integers(2, events + 1)))
        low = 2 if waits == NO_EVENT else waits + 1
        operand = st.sampled_from(range(len(_GRID)))
        same = (draw(operand), draw(operand))
        for number in range(draw(st.integers(1, 4))):
            takes, gives = same if draw(st.booleans()) else (draw(operand), draw(operand))
            fires = draw(st.integers(low, events + 2))
            metadata = (draw(st.sampled_from((0, number))), 0, 0, 0, 0)
            tasks.append(task(waits, fires, kind, [takes], [gives], metadata))
    kinds = [
        TaskType(code, f"TASK_{code}", slots(takes), slots(gives))
        for code, (takes, gives) in _OPERATORS.items()
    ]
    facts = small_facts(
        tasks, events, tensors=_GRID, kinds=kinds, declared=[scratch("x", 4), scratch("y", 4)]
    )
    if draw(st.booleans()):
        for each in kinds:
            branch = Branch(
                each.name,
                0,
                Location("k.cu", 1),
                frozenset({0}),
                frozenset({0}),
                metadata=frozenset({"request_id"}),
            )
            facts.cuda.dispatch[each.name, 0] = branch
    return facts


def test_a_read_that_nobody_provides_is_not_covered_by_picked_rows() -> None:
    """What the second picker of rows may meet says nothing of what the first one has read."""
    tasks = [
        *[task(4, 5, 6000, [0], [1]) for _ in range(3)],
        task(2, 3, 6001, [1], [1]),
        task(NO_EVENT, 2, 6001, [1], [1]),
    ]
    whole = [Tensor(name, 0, 930, (4,), (1,)) for name in ("y", "x")]
    kinds = [
        TaskType(code, f"TASK_{code}", slots(takes), slots(gives))
        for code, (takes, gives) in _OPERATORS.items()
    ]
    facts = small_facts(
        tasks, 4, tensors=whole, kinds=kinds, declared=[scratch("x", 4), scratch("y", 4)]
    )
    assert any(race.certain for race in facts.order.of("x").races)


@settings(max_examples=200, deadline=None)
@given(layered())
def test_every_pair_of_tasks_is_ordered_excused_or_reported(facts: RankFacts) -> None:
    for name in ("x", "y"):
        certain = any(race.certain for race in facts.order.of(name).races)
        expected = any(_certain_pairs(facts, name))
        assert certain == expected, name


def _certain_pairs(facts: RankFacts, name: str) -> Iterator[tuple[int, int]]:
    graph, operator = facts.graph, facts.order.grid
    tasks = list(graph.tasks)
    for one, other in combinations(range(2, len(tasks)), 2):
        if _happens_before(facts, one, other) or _happens_before(facts, other, one):
            continue
        mine, theirs = _touched(facts, one, name), _touched(facts, other, name)
        same = operator[graph.alike_of[one]] == operator[graph.alike_of[other]]
        if any(slot.indexed for slot, _ in mine + theirs):
            if not same and any(_unprovided(facts, name, one, other)):
                yield one, other
            continue
        if any(
            _collide(a, b) and not (same and _excused(facts, name, graph.alike_of[one]))
            for a in mine
            for b in theirs
        ) and not _twin_before(facts, name, one, other):
            yield one, other


def _unprovided(facts: RankFacts, name: str, one: int, other: int) -> Iterator[bool]:
    """Of two that meet, whether nobody has written anything of what the one that reads may read."""
    for writer, reader in ((one, other), (other, one)):
        read = _union(own for slot, own in _touched(facts, reader, name) if slot.reads)
        if not any(s.writes and read & own for s, own in _touched(facts, writer, name)):
            continue
        yield not any(
            slot.writes and read & own
            for number in range(2, len(facts.graph.tasks))
            if _happens_before(facts, number, reader)
            for slot, own in _touched(facts, number, name)
        )


def _touched(facts: RankFacts, number: int, name: str) -> list[tuple[Slot, set[int]]]:
    one = facts.graph.tasks[number]
    kind = facts.task_type(one.task_type)
    pairs = [(kind.input(0), one.inputs[0]), (kind.output(0), one.outputs[0])]
    found = [(slot, facts.graph.tensors[operand]) for slot, operand in pairs]
    return [(slot, bytes_of(tensor)) for slot, tensor in found if tensor.base_ptr == name]


def _collide(a: tuple[Slot, set[int]], b: tuple[Slot, set[int]]) -> bool:
    (one, mine), (other, theirs) = a, b
    if not mine & theirs:
        return False
    if one.accumulates and other.accumulates:
        return False
    return one.writes or other.writes


def _happens_before(facts: RankFacts, one: int, other: int) -> bool:
    tasks = facts.graph.tasks
    waits = tasks[other].dependent_event
    return waits != NO_EVENT and bool(facts.events.path(tasks[one].trigger_event, waits))


def _members(facts: RankFacts, group: int) -> list[int]:
    operator = facts.order.grid
    own = operator[group]
    return [
        number
        for number in range(2, len(facts.graph.tasks))
        if operator[facts.graph.alike_of[number]] == own
    ]


def _excused(facts: RankFacts, name: str, group: int) -> str:
    """What excuses the tasks of one operator among themselves on a tensor; nothing is empty."""
    members = _members(facts, group)
    touched = {number: _touched(facts, number, name) for number in members}
    if any(slot.indexed for own in touched.values() for slot, _ in own):
        return "indexed"
    if any(slot.accumulates for own in touched.values() for slot, _ in own):
        return ""
    writes = {n: _union(own for slot, own in touched[n] if slot.writes) for n in members}
    reads = {n: _union(own for slot, own in touched[n] if slot.reads) for n in members}
    tiles = {number: _written(facts, number, name) for number in members}
    for one, other in combinations(members, 2):
        if tiles[one] != tiles[other] and writes[one] & writes[other]:
            return ""
    union = _union(writes.values())
    if any(reads[number] & union - writes[number] for number in members):
        return ""
    picks = [(tiles[number], _pick(facts, number)) for number in members if writes[number]]
    if len(set(picks)) == len(picks):
        return "picked"
    if any(reads[n] & writes[n] for n in members) or not _alike(facts, members, tiles):
        return ""
    return "picked" if facts.cuda.dispatch else "repeated"


def _union(sets: Iterable[set[int]]) -> set[int]:
    return set().union(*sets)


def _written(facts: RankFacts, number: int, name: str) -> tuple[int, ...]:
    one = facts.graph.tasks[number]
    kind = facts.task_type(one.task_type)
    pairs = [(kind.input(0), one.inputs[0]), (kind.output(0), one.outputs[0])]
    return tuple(
        operand
        for slot, operand in pairs
        if slot.writes and facts.graph.tensors[operand].base_ptr == name
    )


def _pick(facts: RankFacts, number: int) -> object:
    return facts.graph.tasks[number].metadata[0] if facts.cuda.dispatch else None


def _alike(facts: RankFacts, members: list[int], tiles: dict[int, tuple[int, ...]]) -> bool:
    """Whether all that write one tile have the same operands and wait for the same event."""
    seen: dict[tuple[int, ...], object] = {}
    for number in members:
        one = facts.graph.tasks[number]
        own = (one.inputs, one.outputs, one.dependent_event)
        if seen.setdefault(tiles[number], own) != own:
            return False
    return True


def _twin_before(facts: RankFacts, name: str, one: int, other: int) -> bool:
    """Whether the write that a read is not ordered after is repeated by one that it is."""
    for writer, reader in ((one, other), (other, one)):
        tile_of = _written(facts, writer, name)
        group = facts.graph.alike_of[writer]
        if _written(facts, reader, name) or _excused(facts, name, group) != "repeated":
            continue
        for twin in _members(facts, group):
            if _written(facts, twin, name) == tile_of and _happens_before(facts, twin, reader):
                return True
    return False


# -- single cases ----------------------------------------------------------------------------------


def test_a_task_does_not_conflict_with_itself() -> None:
    kind = TaskType(5000, "TASK_IN_PLACE", slots("r r"), slots("w"))
    tasks = [task(fires=2, kind=5000, inputs=[0, 1], outputs=[0])]
    assert not small_facts(tasks, 0, tensors=TILES, kinds=[kind]).order.tensors


def test_tasks_of_one_wave_that_write_one_tile_conflict() -> None:
    kind = TaskType(5000, "TASK_TWICE", slots("rw"), slots("w"))
    tasks = [task(fires=2, kind=5000, inputs=[0], outputs=[0])] * 2
    (race,) = small_facts(tasks, 0, tensors=TILES, kinds=[kind]).order.of("x").races
    assert race.earlier is race.later
    assert race.certain


def test_work_done_twice_is_no_conflict_and_one_of_the_two_is_enough_for_a_reader() -> None:
    tensors = [tile(0, 6), tile(0, 6, "y")]
    tasks = [
        task(fires=2, inputs=[1], outputs=[0]),
        task(fires=3, inputs=[1], outputs=[0]),
        task(2, 4, 5001, inputs=[0]),
    ]
    facts = small_facts(tasks, 2, tensors=tensors)
    assert not facts.order.tensors
    overwritten = [*tasks, task(2, 4, 5002, outputs=[0])]
    races = small_facts(overwritten, 2, tensors=tensors).order.of("x").races
    assert {(race.earlier.first.first, race.later.first.first) for race in races} == {
        (3, 5),
        (4, 5),
    }


def test_an_irregular_type_is_compared_by_reference() -> None:
    unknown = [msgspec.structs.replace(one, data_type=999) for one in TILES]
    tasks = [
        task(fires=2, kind=5000, outputs=[0]),
        task(fires=2, kind=5001, inputs=[0]),
        task(fires=2, kind=5002, inputs=[1]),
    ]
    (race,) = small_facts(tasks, 0, tensors=unknown).order.of("x").races
    assert (race.earlier.first.first, race.later.first.first) == (2, 3)


def test_what_a_cycle_holds_up_has_no_order_to_break() -> None:
    tasks = [
        task(3, 2, 5000, outputs=[0]),
        task(2, 3, 5001, inputs=[0]),
        task(fires=4, kind=5002, inputs=[0]),
    ]
    assert not small_facts(tasks, 2, tensors=TILES).order.tensors


def test_the_sentinel_is_no_tensor() -> None:
    tensors = [Tensor("nullptr", 0, 999, (), ())]
    tasks = [task(fires=2, kind=5000, outputs=[0]), task(fires=2, kind=5001, outputs=[0])]
    assert not small_facts(tasks, 0, tensors=tensors).order.tensors


def test_a_host_tensor_is_a_tensor_too() -> None:
    cache = Declaration("x", "host", Location("k.cu", 1))
    tasks = [task(fires=2, kind=5000, outputs=[0]), task(fires=2, kind=5001, inputs=[0])]
    facts = small_facts(tasks, 0, tensors=TILES, declared=[cache])
    (race,) = facts.order.of("x").races
    assert race.earlier_writes
    late = [task(fires=2, kind=5001, inputs=[0]), task(2, 3, 5000, outputs=[0])]
    assert not small_facts(late, 1, tensors=TILES, declared=[cache]).order.tensors
    assert small_facts(late, 1, tensors=TILES, declared=[scratch("x", 6)]).order.of("x").early
