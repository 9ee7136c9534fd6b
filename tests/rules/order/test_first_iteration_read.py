"""MG305 first-iteration-read."""

from __future__ import annotations

import copy

from mirage_gate import Severity
from tests.emitter import Pair
from tests.rules import Expect, fires, silent
from tests.rules.graphs import position, recount, small


def _first_norm_reads(tensor: str) -> tuple[Pair, int]:
    pair = small()
    first = pair.tasks(154)[0]
    first["inputs"][0] = dict(first["inputs"][0], base_ptr=tensor)
    return pair, position(pair, first)


@fires("MG305", Severity.WARNING, tensor="mlp_out", once=True)
def test_a_buffer_read_before_anything_writes_it() -> Expect:
    pair, task = _first_norm_reads("mlp_out")
    return Expect(
        pair,
        graph=("all_tasks", task, "inputs", 0, "base_ptr"),
        says=("before any task writes them",),
    )


@silent("MG305")
def test_a_cache_that_the_host_filled_is_read_before_a_task_writes_it() -> Pair:
    pair, _ = _first_norm_reads("layer_1_k_cache")
    return pair


@silent("MG305")
def test_a_buffer_that_the_embedding_has_written() -> Pair:
    pair, _ = _first_norm_reads("embed_out")
    return pair


@silent("MG305")
def test_a_buffer_that_tasks_fill_which_wait_for_nothing() -> Pair:
    """They wait for an event that needs no trigger, and nobody triggers: the read is a race."""
    pair, _ = _first_norm_reads("mlp_out")
    events, tasks = pair.graph["all_events"], pair.graph["all_tasks"]
    end = len(events) - 1
    for task in tasks[1:]:
        task["trigger_event"] += task["trigger_event"] == end
    fillers = [task for task in tasks if (task["outputs"] or [{}])[0].get("base_ptr") == "mlp_out"]
    more = copy.deepcopy(fillers[: len(fillers) // 2])
    for task in more:
        task["dependent_event"], task["trigger_event"] = end, end + 1
    first, last = len(tasks), len(tasks) + len(more)
    events.insert(end, {**events[end - 1], "first_task_id": first, "last_task_id": last})
    events[1]["last_task_id"] = last
    tasks += more
    recount(pair)
    return pair
