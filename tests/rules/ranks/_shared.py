"""What cases of several rules of ranks build on."""

from __future__ import annotations

import copy

from tests.emitter import Pair, qwen3

TP4 = qwen3(2, ranks=4, collective="allgather")
TP2 = qwen3(3, ranks=2)


def starts_of(pair: Pair, task_type: int) -> list[int]:
    """The first tasks of the operators of a type."""
    tasks = pair.graph["all_tasks"]
    return [
        i
        for i, task in enumerate(tasks)
        if task["task_type"] == task_type != tasks[i - 1]["task_type"]
    ]


def without_collective(pair: Pair, task_type: int, nth: int) -> Pair:
    """The tasks of the nth collective operator become copies of those behind it."""
    tasks = pair.graph["all_tasks"]
    at = starts_of(pair, task_type)[nth]
    end = next(i for i in range(at, len(tasks)) if tasks[i]["task_type"] != task_type)
    for i in range(at, end):
        keep = {key: tasks[i][key] for key in ("trigger_event", "dependent_event")}
        tasks[i] = {**copy.deepcopy(tasks[end]), **keep}
    return pair
