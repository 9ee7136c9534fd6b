"""Which tasks of a graph an operator became.

MPK puts operators into an order of its own where they do not depend on each other, so the order
in which they were registered does not tell. Their operands do: the tasks that carry exactly
these are its own, or one of several operators that differ in nothing, whose tasks stand in the
order of their registration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

_FRAMEWORK = 2
"""Tasks that every graph begins with: TERMINATE and BEGIN."""

Operands = tuple[str | None, ...]
Place = tuple[int, int]
"""The first task and how many there are; (-1, 0) where that is not known."""

UNKNOWN: Place = (-1, 0)


class Sized(msgspec.Struct, frozen=True):
    """An operator: its operands, and how many tasks its grid makes; 0 where that is unknown."""

    tensors: Operands
    tasks: int


class _Slot(msgspec.Struct, gc=False):
    base_ptr: str


class _Task(msgspec.Struct, gc=False):
    inputs: list[_Slot] | None = None
    outputs: list[_Slot] | None = None


class _Graph(msgspec.Struct, gc=False):
    all_tasks: list[_Task]


def placed(
    operators: Sequence[Sized], graph: bytes, parts: Mapping[str, str] | None = None
) -> list[Place]:
    """Give each operator's place. ``parts`` maps a fused tensor's parts to its name."""
    try:
        tasks = msgspec.json.decode(graph, type=_Graph).all_tasks
    except msgspec.MsgspecError:
        return [UNKNOWN] * len(operators)
    parts = parts or {}
    carried: dict[Operands, list[list[int]]] = defaultdict(list)  # runs: first, behind the last
    before: list[str] | None = None
    run: list[int] = []
    for number in range(_FRAMEWORK, len(tasks)):
        task = tasks[number]
        names = [slot.base_ptr for slot in task.inputs] if task.inputs else []
        if task.outputs:
            names += [slot.base_ptr for slot in task.outputs]
        if names == before:  # most tasks carry what the one before them does
            run[1] += 1
            continue
        before = names
        run = [number, number + 1]
        operands = tuple(None if name == "nullptr" else parts.get(name, name) for name in names)
        runs = carried[operands]
        if runs and runs[-1][1] == number:  # other parts of the same fused tensor
            run = runs[-1]
            run[1] += 1
        else:
            runs.append(run)
    return _dealt(operators, carried)


def _dealt(operators: Sequence[Sized], carried: Mapping[Operands, list[list[int]]]) -> list[Place]:
    """Deal the runs of tasks to the operators with these operands, in order."""
    places = [UNKNOWN] * len(operators)
    alike: dict[Operands, list[int]] = defaultdict(list)
    for number, operator in enumerate(operators):
        # MPK writes a name's dots as underscores.
        names = tuple(name and name.replace(".", "_") for name in operator.tensors)
        alike[names if names in carried else operator.tensors].append(number)
    for operands, numbers in alike.items():
        runs = carried.get(operands, [])
        wanted = sum(operators[number].tasks for number in numbers)
        if wanted != sum(end - start for start, end in runs):
            continue
        left = [(start, end) for start, end in runs]
        for number in numbers:
            count = operators[number].tasks
            if not left or not count or left[0][0] + count > left[0][1]:
                break  # in pieces, or of unknown size: say nothing of it and of those behind it
            start, end = left.pop(0)
            places[number] = (start, count)
            if start + count < end:
                left.insert(0, (start + count, end))
    return places
