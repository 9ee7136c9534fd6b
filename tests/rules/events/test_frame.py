"""MG406 frame."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emitter import Pair
from tests.emitter.graph import INVALID_EVENT
from tests.rules import Expect, fires, silent
from tests.rules.graphs import allgather, small


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("all_tasks", 0, "task_type"), 10, "takes it for TERMINATE"),
        (("all_tasks", 1, "task_type"), 101, "takes it for BEGIN"),
        (("all_tasks", 1, "trigger_event"), 2, "it must trigger event 1"),
        (("all_tasks", 1, "trigger_event"), INVALID_EVENT, "triggers no event"),
        (("all_tasks", 1, "dependent_event"), 2, "it must wait for nothing"),
        (("all_tasks", 0, "trigger_event"), 3, "it must trigger nothing"),
        (("all_tasks", 9, "task_type"), 0, "stops for good"),
        (("all_events", 0, "event_type"), 900, "it ends the kernel"),
        (("all_events", 1, "event_type"), 902, "it launches the tasks"),
        (("all_events", 1, "first_task_id"), 3, "the tasks to launch are 2.."),
        (("all_events", 1, "last_task_id"), 9, "the tasks to launch are 2.."),
        (("all_events", -1, "event_type"), 900, "it ends the iteration"),
        (("all_events", 5, "event_type"), 910, "the iteration ends there"),
        (("all_events", 5, "event_type"), 903, "launched twice"),
        (("first_tasks", 0), 1, "which the runtime starts itself"),
        (("first_tasks", 0), 2_000_000, "first_tasks names task 2000000"),
    ],
)
@fires("MG406", once=True)
def test_a_place_that_the_runtime_has_built_in(
    place: tuple[Any, ...], value: int, says: str
) -> Expect:
    pair = small()
    if place[:2] == ("all_events", -1):
        place = ("all_events", len(pair.graph["all_events"]) - 1, place[2])
    holder = pair.graph
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = value
    return Expect(pair, graph=place, says=(says,))


@pytest.mark.parametrize("key", ["all_tasks", "all_events"])
@fires("MG406")
def test_a_graph_with_nothing_in_it(key: str) -> Expect:
    pair = small()
    pair.graph[key] = []
    return Expect(pair, graph=(key,))


@fires("MG406", alone=("MG4",), beside=("MG405",))
def test_a_graph_of_event_0_alone_has_no_end_to_wait_for() -> Expect:
    pair = small()
    del pair.graph["all_events"][1:]
    del pair.graph["all_tasks"][2:]
    return Expect(pair, graph=("all_events",))


@silent("MG406")
def test_a_graph_whose_frame_is_where_the_runtime_takes_it_to_be() -> Pair:
    return small()


@silent("MG406")
def test_an_end_that_other_ranks_reach_too() -> Pair:
    return allgather(2)


@fires("MG406", once=True, says=("1,000 times",))
def test_a_first_task_that_is_named_again_and_again() -> Expect:
    pair = small()
    pair.graph["first_tasks"] *= 1000
    return Expect(pair, graph=("first_tasks", 1))
