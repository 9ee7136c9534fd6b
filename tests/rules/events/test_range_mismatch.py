"""MG404 range-mismatch."""

from __future__ import annotations

import pytest

from mirage_gate import Selection
from tests.emitter import Pair, qwen3
from tests.rules import Expect, fires, report_of, silent
from tests.rules.graphs import SOUND, join, shift, small


@pytest.mark.parametrize("by", [-2, -1, 1, 2])
@pytest.mark.parametrize("name", SOUND)
@fires("MG404", once=True)
def test_a_task_that_waits_for_another_event_than_its_range_says(name: str, by: int) -> Expect:
    pair = SOUND[name]()
    event = join(pair)
    task = pair.graph["all_events"][event]["first_task_id"]
    pair.graph["all_tasks"][task]["dependent_event"] += by
    return Expect(
        pair,
        graph=("all_tasks", task, "dependent_event"),
        says=(f"waits for event {event + by} and is in the range of event {event}",),
    )


def _moved() -> tuple[Pair, int, int]:
    """A range that is one task too far: it leaves one out and takes one of the next."""
    pair = small()
    event = join(pair)
    one = pair.graph["all_events"][event]
    low, high = one["first_task_id"], one["last_task_id"]
    one["first_task_id"], one["last_task_id"] = low + 1, high + 1
    return pair, event, low


@fires("MG404", alone=("MG4",))
def test_a_range_that_moved_leaves_one_task_out() -> Expect:
    pair, _, low = _moved()
    return Expect(pair, graph=("all_tasks", low, "dependent_event"))


@fires("MG404", alone=("MG4",))
def test_a_range_that_moved_takes_a_task_of_the_next() -> Expect:
    pair, event, _ = _moved()
    return Expect(pair, graph=("all_events", event + 1, "first_task_id"))


@fires("MG404")
def test_a_range_past_the_last_task() -> Expect:
    pair = small()
    count = len(pair.graph["all_tasks"])
    pair.graph["all_events"][2]["last_task_id"] = count + 7
    return Expect(
        pair,
        graph=("all_events", 2, "last_task_id"),
        says=(f"and there are {count:,} tasks",),
    )


@fires("MG404", graph=("all_events", 3, "first_task_id"), says=("ends before it starts",))
def test_a_range_that_ends_before_it_starts() -> Pair:
    pair = small()
    event = pair.graph["all_events"][3]
    event["first_task_id"] = event["last_task_id"] + 1
    return pair


@fires(
    "MG404",
    graph=("all_tasks", 2, "dependent_event"),
    says=("is one of first_tasks and waits for event 3",),
    once=True,
)
def test_a_first_task_that_waits() -> Pair:
    pair = small()
    pair.graph["all_tasks"][2]["dependent_event"] = 3
    return pair


@fires(
    "MG404",
    graph=("all_events", 2, "first_task_id"),
    says=("task 2 is one of first_tasks and is in the range",),
    once=True,
)
def test_a_first_task_in_a_range() -> Pair:
    pair = small()
    pair.graph["all_events"][2]["first_task_id"] = 2
    return pair


@fires(
    "MG404",
    graph=("all_tasks", 2, "dependent_event"),
    says=("task 2 (TASK_EMBEDDING) waits for no event",),
    once=True,
)
def test_a_task_that_waits_for_nothing_and_is_no_first_task() -> Pair:
    pair = small()
    pair.graph["first_tasks"] = []
    return pair


def _every_range_moved() -> Pair:
    pair = qwen3(6).emit()
    for event in pair.graph["all_events"][2:-1]:
        event["first_task_id"] += 1
    return pair


@fires("MG404", graph=("all_tasks", 3, "dependent_event"))
def test_every_range_moved() -> Pair:
    return _every_range_moved()


def test_many_mismatches_are_few_findings() -> None:
    found = [f for f in report_of(_every_range_moved()).findings if f.rule.startswith("MG4")]
    assert 0 < len(found) <= 15
    assert any(finding.message.endswith(" more like it") for finding in found)


@silent("MG404")
def test_a_boundary_that_moved_with_the_tasks_event() -> Pair:
    pair = small()
    shift(pair, join(pair))
    return pair


def test_ranges_over_one_another_accuse_each_task_once() -> None:
    """Every event's range is all tasks: what waits for another is looked at in one of them."""
    pair = qwen3(2).emit()
    events, tasks = pair.graph["all_events"], len(pair.graph["all_tasks"])
    for event in events[2:-1]:
        event["first_task_id"], event["last_task_id"] = 2, tasks
    found = report_of(pair, selection=Selection(select=("MG404",))).findings
    assert any("in the ranges of two events" in one.message for one in found)
    assert sum(" waits for event " in one.message for one in found) == 1
