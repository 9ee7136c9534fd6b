"""Correct pairs, and how their dataflow is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.emitter import Pair

Task = dict[str, Any]


def taking(pair: Pair, part: str, layer: int | None = None) -> Iterator[Task]:
    """The tasks that take a weight, of one layer or of all."""
    for task in pair.graph["all_tasks"]:
        for operand in task["inputs"] or ():
            name = operand["base_ptr"]
            if name.endswith(part) and layer in (None, _layer(name)):
                yield task
                break


def _layer(name: str) -> int | None:
    number = name.removeprefix("layer_").split("_")[0]
    return int(number) if number.isdecimal() else None


def of_type(pair: Pair, code: int, layer: int | None = None) -> list[Task]:
    """The tasks of a type, all of them or those between the first norms of two layers."""
    tasks = pair.graph["all_tasks"]
    if layer is None:
        return [task for task in tasks if task["task_type"] == code]
    at = [tasks.index(next(taking(pair, "input_layernorm", n))) for n in range(layer, layer + 1)]
    after = list(taking(pair, "input_layernorm", layer + 1))
    end = tasks.index(after[0]) if after else len(tasks)
    return [task for task in tasks[at[0] : end] if task["task_type"] == code]


def reads(task: Task, slot: int, tensor: str) -> None:
    """Let a slot carry another tensor of the same shape."""
    task["inputs"][slot] = {**task["inputs"][slot], "base_ptr": tensor}


def place(pair: Pair, task: Task) -> int:
    number: int = pair.graph["all_tasks"].index(task)
    return number
