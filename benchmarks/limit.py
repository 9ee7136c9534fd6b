"""The limit to compare with: read the bytes, and decode them once into typed objects.

    python benchmarks/limit.py FOLDER

No audit can know a graph for less, if it is to know that each field has the type it must have.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import msgspec


class Tensor(msgspec.Struct):
    base_ptr: str
    offset: int
    data_type: int
    dims: list[int]
    strides: list[int]


class Event(msgspec.Struct):
    event_type: int
    num_triggers: int
    first_task_id: int
    last_task_id: int


class Task(msgspec.Struct):
    task_type: int
    variant_id: int
    inputs: list[Tensor] | None
    outputs: list[Tensor] | None
    trigger_event: int
    dependent_event: int
    request_id: int = 0
    expert_offset: int = 0
    kv_idx: int = 0
    merge_task_offset: int = 0
    task_offset: int = 0


class Graph(msgspec.Struct):
    all_events: list[Event]
    all_tasks: list[Task]
    first_tasks: list[int]


def main(arguments: list[str]) -> int:
    """Decode every graph in a folder."""
    gc.disable()
    for path in sorted(Path(arguments[0]).glob("task_graph_*.json")):
        graph = msgspec.json.decode(path.read_bytes(), type=Graph)
        print(f"{path.name}: {len(graph.all_tasks)} tasks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
