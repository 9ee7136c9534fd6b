"""What cases of several rules of bytes build on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.emitter import Pair
from tests.rules import Path


def tiles_of(pair: Pair, task_type: int, side: str, slot: int, tensor: str) -> list[Any]:
    """The tensors that the tasks of a type carry in one slot, those named ``tensor``."""
    return [
        task[side][slot]
        for task in pair.tasks(task_type)
        if len(task[side] or []) > slot and task[side][slot]["base_ptr"] == tensor
    ]


def first_slot(
    task_type: int, side: str, slot: int, tensor: str, field: str, last: bool = False
) -> Callable[[Pair], Path]:
    """Where a field of the first (or last) such slot stands."""

    def path(pair: Pair) -> Path:
        tasks = [
            i
            for i, task in enumerate(pair.graph["all_tasks"])
            if task["task_type"] == task_type
            and len(task[side] or []) > slot
            and task[side][slot]["base_ptr"] == tensor
        ]
        return ("all_tasks", tasks[-1 if last else 0], side, slot, field)

    return path


def of_a_new_type(pair: Pair) -> Pair:
    """Every bfloat16 has a code that the gate does not know."""
    for task in pair.graph["all_tasks"]:
        for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ())):
            if tensor["data_type"] == 941:
                tensor["data_type"] = 942
    return pair
