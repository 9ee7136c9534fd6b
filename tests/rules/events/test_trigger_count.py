"""MG401 trigger-count."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import Pair, qwen3
from tests.rules import Expect, fires, silent
from tests.rules.graphs import SOUND, allgather, join, position, small


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("name", SOUND)
@fires("MG401", once=True, alone=("MG3", "MG4"))
def test_a_count_one_off(name: str, by: int) -> Expect:
    pair = SOUND[name]()
    event = join(pair)
    pair.graph["all_events"][event]["num_triggers"] += by
    needed = pair.graph["all_events"][event]["num_triggers"]
    return Expect(
        pair,
        graph=("all_events", event, "num_triggers"),
        says=(f"event {event} waits for {needed} triggers",),
        beside=("MG403",) if by > 0 else (),
    )


@fires("MG401", once=True, says=("END never comes",))
def test_the_end_counts_too() -> Expect:
    pair = small()
    end = len(pair.graph["all_events"]) - 1
    pair.graph["all_events"][end]["num_triggers"] += 1
    return Expect(pair, graph=("all_events", end, "num_triggers"))


@pytest.mark.parametrize("other", [0, 1])
@fires("MG401")
def test_a_task_that_triggers_another_event_puts_both_counts_wrong(other: int) -> Expect:
    pair = small()
    event = join(pair)
    tasks = pair.graph["all_tasks"]
    moved = next(i for i, t in enumerate(tasks) if t["trigger_event"] == event)
    tasks[moved]["trigger_event"] = event + 1
    return Expect(
        pair,
        graph=("all_events", event + other, "num_triggers"),
        related=[("all_tasks", moved, "trigger_event")] if other else [],
    )


@fires("MG401", once=True, alone=("MG4",), beside=("MG403",))
def test_the_same_mistake_in_every_layer_is_one_finding() -> Expect:
    pair = qwen3(6).emit()
    waits = {t["dependent_event"] for t in pair.tasks(153)}
    for event in waits:
        pair.graph["all_events"][event]["num_triggers"] *= 2
    return Expect(
        pair,
        graph=("all_events", min(waits), "num_triggers"),
        says=(f"{len(waits) - 1} more events of the same operators alike",),
    )


@pytest.mark.parametrize("rank", range(4))
@fires("MG401", once=True)
def test_a_wrong_count_is_proven_on_one_rank_where_the_triggers_are_remote(rank: int) -> Expect:
    pair = allgather(rank)
    event = pair.tasks(301)[0]["trigger_event"] & 0xFFFF_FFFF
    pair.graph["all_events"][event]["num_triggers"] += 1
    return Expect(
        pair,
        graph=("all_events", event, "num_triggers"),
        says=(f"event {event} waits for 4 triggers and 3 triggers arrive from the other",),
    )


@fires("MG401", Severity.WARNING, once=True)
def test_a_rank_that_is_left_out() -> Expect:
    pair = allgather(0)
    first = pair.tasks(301)[0]
    first["trigger_event"] += 1 << 32
    return Expect(pair, graph=("all_tasks", position(pair, first), "trigger_event"))


@silent("MG401")
def test_a_task_that_triggers_another_event_with_both_counts_made_right() -> Pair:
    pair = small()
    event = join(pair)
    next(t for t in pair.graph["all_tasks"] if t["trigger_event"] == event)["trigger_event"] += 1
    pair.graph["all_events"][event]["num_triggers"] -= 1
    pair.graph["all_events"][event + 1]["num_triggers"] += 1
    return pair


@silent("MG401")
def test_triggers_that_only_other_ranks_send() -> Pair:
    return allgather(3)
