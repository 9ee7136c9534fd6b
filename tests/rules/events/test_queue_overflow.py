"""MG407 queue-overflow."""

from __future__ import annotations

import pytest

from mirage_gate import Options
from tests.emitter import Pair
from tests.rules import Expect, fires, silent
from tests.rules.graphs import small


def _tasks_at_once() -> Pair:
    """One task more at once than a worker's queue holds."""
    pair = small()
    tasks = pair.graph["all_tasks"]
    tasks += [tasks[2]] * (8193 - (len(tasks) - 2))
    return pair


@fires(
    "MG407",
    graph=("all_events", 1, "last_task_id"),
    says=("8,193 tasks are launched at once, 8,193 for each of 1 workers",),
    options=Options(workers=1),
    once=True,
)
def test_one_task_more_than_the_only_workers_queue_holds() -> Pair:
    return _tasks_at_once()


@pytest.mark.parametrize("options", [Options(workers=2), Options()], ids=["two", "unknown"])
@silent("MG407")
def test_a_queue_for_each_half_of_them(options: Options) -> Expect:
    return Expect(_tasks_at_once(), options=options)
