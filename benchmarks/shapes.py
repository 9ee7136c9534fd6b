"""Graphs of the shapes that are worst for an audit, of any size.

Models do not look like this. Somebody's next builder may, and nothing is to take an hour.
Each is a pair of texts: ``SHAPES[name](n)`` gives the ``.cu`` and the graph as plain dicts.

    python benchmarks/shapes.py chains 5000 /tmp/chains
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NO_EVENT = 0x7FFF_FFFF_FFFF_FFFE
COLUMN = 64
"""Elements of one tile: 128 bytes of bfloat16."""
BFLOAT16 = 941

Tile = tuple[str, int, int]
"""A tensor's name, and the first and the number of its elements."""


@dataclass
class Shape:
    """A graph, built task by task; what tasks wait for is made of whole events."""

    tensors: dict[str, int] = field(default_factory=dict)
    tasks: list[tuple[str, int, list[Tile], list[Tile], int, int]] = field(default_factory=list)
    events: int = 2

    def event(self) -> int:
        """A new event."""
        self.events += 1
        return self.events - 1

    def task(
        self,
        reads: list[Tile],
        writes: list[Tile],
        waits: int,
        fires: int,
        kind: str = "TASK_IDENTITY",
        variant: int = 0,
    ) -> None:
        """A task; ``waits`` 0 is one that waits for nothing."""
        for name, first, count in (*reads, *writes):
            self.tensors[name] = max(self.tensors.get(name, 0), first + count)
        self.tasks.append((kind, variant, reads, writes, waits, fires))

    def texts(self) -> tuple[str, dict[str, Any]]:
        """The pair: the ``.cu``, and the graph."""
        end = self.events
        tasks = sorted(self.tasks, key=lambda task: task[4])  # a range of each event's own
        arrivals = [0] * (end + 1)
        ranges: dict[int, tuple[int, int]] = {}
        rows = [_task(0, 0, [], [], NO_EVENT, NO_EVENT), _task(10, 0, [], [], NO_EVENT, 1)]
        arrivals[1] = 1
        for kind, variant, reads, writes, waits, fires in tasks:
            fires = fires or end
            arrivals[fires] += 1
            if waits:
                first, _ = ranges.get(waits, (len(rows), 0))
                ranges[waits] = (first, len(rows) + 1)
            inputs, outputs = [_tensor(tile) for tile in reads], [_tensor(tile) for tile in writes]
            rows.append(_task(KINDS[kind], variant, inputs, outputs, waits or NO_EVENT, fires))
        events = [_event(911, 1, 0, 0), _event(903, 1, 2, len(rows))]
        events += [_event(900, arrivals[e], *ranges.get(e, (0, 0))) for e in range(2, end)]
        events.append(_event(910, arrivals[end], 0, 0))
        first_tasks = [2 + i for i, task in enumerate(tasks) if not task[4]]
        graph = {"all_events": events, "all_tasks": rows, "first_tasks": first_tasks}
        return self._cuda(), graph

    def _cuda(self) -> str:
        lines = ["void _init_persistent_kernel() {", "  assert(num_gpus = 1);"]
        written = {name for task in self.tasks for name, _, _ in task[3]}
        for name, size in self.tensors.items():
            if name in written:
                lines += [f"  void *{name};", f"  cudaMalloc(&{name}, {2 * size});"]
            else:
                source = f'model_tensors.at("{name}")'
                lines.append(f"  char *{name} = static_cast<char*>({source});")
            lines.append(f'  all_tensors["{name}"] = {name};')
        lines += ['  all_tensors["nullptr"] = nullptr;', "}"]
        lines.append("__device__ void _execute_task(TaskDesc const* task_desc) {")
        word = "if"
        slots = {(task[0], task[1]): (len(task[2]), len(task[3])) for task in self.tasks}
        for (kind, variant), (inputs, outputs) in slots.items():
            condition = f"task_desc->task_type == {kind} && task_desc->variant_id == {variant}"
            lines.append(f"  {word} ({condition}) {{")
            lines += [f"      task_desc->input_ptrs[{i}]," for i in range(inputs)]
            lines += [f"      task_desc->output_ptrs[{i}]," for i in range(outputs)]
            lines.append("  }")
            word = "else if"
        lines.append("}")
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """Write the pair of rank 0."""
        cuda, graph = self.texts()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel_0.cu").write_text(cuda, encoding="ascii")
        text = json.dumps(graph, indent=2, sort_keys=True)
        (folder / "task_graph_0.json").write_text(text, encoding="ascii")


KINDS = {"TASK_IDENTITY": 121, "TASK_ARGMAX": 109, "TASK_RMS_NORM_LINEAR": 102}
"""Types that say nothing of how their slots belong together."""


def _tensor(tile: Tile) -> dict[str, Any]:
    name, first, count = tile
    return {
        "base_ptr": name,
        "offset": 2 * first,
        "data_type": BFLOAT16,
        "dims": [1, count],
        "strides": [count, 1],
    }


def _task(
    code: int,
    variant: int,
    inputs: list[dict[str, Any]],
    outputs: list[dict[str, Any]],
    waits: int,
    fires: int,
) -> dict[str, Any]:
    return {
        "task_type": code,
        "variant_id": variant,
        "inputs": inputs or None,
        "outputs": outputs or None,
        "trigger_event": fires,
        "dependent_event": waits,
        "request_id": 0,
        "expert_offset": 0,
        "kv_idx": 0,
        "merge_task_offset": 0,
        "task_offset": 0,
    }


def _event(kind: int, triggers: int, first: int, last: int) -> dict[str, int]:
    return {
        "event_type": kind,
        "num_triggers": triggers,
        "first_task_id": first,
        "last_task_id": last,
    }


def _tile(name: str, i: int) -> Tile:
    return name, i * COLUMN, COLUMN


def variants(n: int) -> Shape:
    """One operator of n tiles, each by a variant of its own; one task reads them all."""
    shape = Shape()
    ready = shape.event()
    for i in range(n):
        shape.task([("x", 0, COLUMN), _tile("w", i)], [_tile("h", i)], 0, ready, variant=i)
    shape.task([("h", 0, n * COLUMN)], [("y", 0, n * COLUMN)], ready, 0, "TASK_ARGMAX")
    return shape


def chains(n: int) -> Shape:
    """N tiles, each through two operators with an event of its own in between."""
    shape = Shape()
    joined = shape.event()
    for i in range(n):
        event = shape.event()
        shape.task([("x", 0, COLUMN), _tile("w", i)], [_tile("h", i)], 0, event)
        shape.task([_tile("h", i)], [_tile("y", i)], event, joined, "TASK_ARGMAX")
    shape.task(
        [("y", 0, n * COLUMN), ("g", 0, COLUMN)],
        [("z", 0, n * COLUMN)],
        joined,
        0,
        "TASK_RMS_NORM_LINEAR",
    )
    return shape


def reading_all(n: int) -> Shape:
    """The same chains, where the second half of each reads what all of them wrote: races."""
    shape = Shape()
    joined = shape.event()
    for i in range(n):
        event = shape.event()
        shape.task([("x", 0, COLUMN), _tile("w", i)], [_tile("h", i)], 0, event)
        shape.task([("h", 0, n * COLUMN)], [_tile("y", i)], event, joined, "TASK_ARGMAX")
    shape.task(
        [("y", 0, n * COLUMN), ("g", 0, COLUMN)],
        [("z", 0, n * COLUMN)],
        joined,
        0,
        "TASK_RMS_NORM_LINEAR",
    )
    return shape


def operators(n: int) -> Shape:
    """N operators one after another, each filling the first i tiles of one buffer, then read."""
    shape = Shape()
    last = 0
    for i in range(n):
        between, after = shape.event(), shape.event()
        own = f"o{i}"
        shape.task(
            [("x", 0, COLUMN)], [("h", 0, (i + 1) * COLUMN), (own, 0, COLUMN)], last, between
        )
        shape.task([("h", 0, (i + 1) * COLUMN)], [_tile("y", i)], between, after, "TASK_ARGMAX")
        last = after
    shape.task(
        [("y", 0, n * COLUMN), ("g", 0, COLUMN)],
        [("z", 0, n * COLUMN)],
        last,
        0,
        "TASK_RMS_NORM_LINEAR",
    )
    return shape


def overlapping(n: int) -> Shape:
    """One operator of n tiles, each of which overlaps the next."""
    shape = Shape()
    ready = shape.event()
    for i in range(n):
        tile = ("h", i * COLUMN, 2 * COLUMN)
        shape.task([("x", 0, COLUMN), _tile("w", i)], [tile], 0, ready)
    shape.task([("h", 0, (n + 1) * COLUMN)], [("y", 0, (n + 1) * COLUMN)], ready, 0, "TASK_ARGMAX")
    return shape


def circle(n: int) -> Shape:
    """A circle of n events."""
    shape = Shape()
    events = [shape.event() for _ in range(n)]
    for i, event in enumerate(events):
        shape.task([_tile("h", i)], [_tile("h", (i + 1) % n)], event, events[(i + 1) % n])
    return shape


SHAPES: dict[str, Callable[[int], Shape]] = {
    "variants": variants,
    "chains": chains,
    "reading-all": reading_all,
    "operators": operators,
    "overlapping": overlapping,
    "circle": circle,
}


def main(arguments: list[str]) -> int:
    """Write one shape, or list them."""
    if len(arguments) == 3:
        SHAPES[arguments[0]](int(arguments[1])).write(Path(arguments[2]))
        return 0
    for name, make in SHAPES.items():
        print(f"{name:<18}{make.__doc__}")
    return 0 if not arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
