"""A decoded ``task_graph_N.json``: events, and tasks of which each is two numbers.

A graph of 160,000 tasks holds three quarters of a million tensor references, most of them
many times over. What tasks have in common is kept once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, overload

import msgspec

if TYPE_CHECKING:
    from mirage_gate.findings import Location

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Word = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32 - 1)]
EventId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Extents = Annotated[tuple[Count, ...], msgspec.Meta(max_length=4)]

NO_EVENT = 0x7FFF_FFFF_FFFF_FFFE
"""The id that stands for "no event". Test for it before anything else."""


NVSHMEM_TAG = 0x1E00
"""The upper 16 bits of an id where ranks talk."""

ABSENT = 1 << 40
"""Stands for a metadata field that an older graph lacks: no such number can be in a graph."""


class Tensor(msgspec.Struct, frozen=True):
    """One reference to a tensor: the tile that a task's slot carries.

    ``offset`` in bytes from the allocation's start; ``dims`` of this tile and ``strides`` of
    the whole tensor, both in elements, outermost first.
    """

    base_ptr: str
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    data_type: Count
    dims: Extents
    strides: Extents


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. ``first_task_id`` to ``last_task_id`` (exclusive) wait for it."""

    event_type: Count
    num_triggers: Count
    first_task_id: Count
    last_task_id: Count


class Task(msgspec.Struct, frozen=True):
    """A task. ``inputs`` and ``outputs`` number distinct references in ``Graph.tensors``."""

    task_type: int
    variant_id: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    trigger_event: int
    dependent_event: int
    metadata: Metadata


Metadata = tuple[int, int, int, int, int]

METADATA_FIELDS = ("request_id", "expert_offset", "kv_idx", "merge_task_offset", "task_offset")
"""The five readings of a task's 8-byte metadata, in the order of ``Task.metadata``."""


class Alike(msgspec.Struct, frozen=True, gc=False):
    """What tasks that differ in metadata alone have in common. ``first`` is the lowest id."""

    task_type: int
    variant_id: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    trigger_event: int
    dependent_event: int
    first: int


class Tasks(Sequence[Task]):
    """The tasks of a graph, by id: each put together when it is looked at."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph.alike_of)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        graph = self._graph
        alike = graph.alike[graph.alike_of[index]]
        return Task(
            alike.task_type,
            alike.variant_id,
            alike.inputs,
            alike.outputs,
            alike.trigger_event,
            alike.dependent_event,
            graph.metadata[graph.metadata_of[index]],
        )


class Graph(msgspec.Struct, frozen=True):
    """A decoded graph.

    ``tensors`` are the distinct references, ``alike`` the distinct tasks but for metadata and
    ``metadata`` the distinct metadata, each in order of appearance. ``alike_of`` and
    ``metadata_of`` give each task's number in them. ``relative``: the gpus in its ids are
    counted from the graph's own rank.
    """

    events: list[Event]
    first_tasks: list[int]
    tensors: list[Tensor]
    alike: list[Alike]
    alike_of: array[int]
    metadata: list[Metadata]
    metadata_of: array[int]
    relative: bool = False

    def of_rank(self, rank: int, world_size: int) -> Graph:
        """Give the graph with the gpus in its ids counted from 0, if they are not."""
        if not self.relative:
            return self

        def absolute(event_id: int) -> int:
            if event_id == NO_EVENT:
                return event_id
            gpu = (event_id >> 32 & 0xFFFF) + rank
            return event_id & ~(0xFFFF << 32) | (gpu % max(1, world_size) & 0xFFFF) << 32

        alike = [
            msgspec.structs.replace(
                one,
                trigger_event=absolute(one.trigger_event),
                dependent_event=absolute(one.dependent_event),
            )
            for one in self.alike
        ]
        return msgspec.structs.replace(self, alike=alike, relative=False)

    @property
    def tasks(self) -> Tasks:
        """Every task, by id."""
        return Tasks(self)


class SchemaError(msgspec.Struct, frozen=True):
    """One thing the schema refuses. ``keyword`` is the schema's own, such as ``required``."""

    pointer: tuple[str | int, ...]
    keyword: str
    expected: str
    found: str


class Refusal(msgspec.Struct, frozen=True):
    """What the schema refuses in one graph.

    ``errors`` are in document order; ``more`` is the number of further tasks, events and
    first tasks that are refused as well and were not explained.
    """

    errors: list[SchemaError]
    more: int


class Malformed(Exception):
    """The text is not JSON. ``offset`` is the byte where that shows, ``location`` the place."""

    def __init__(self, message: str, offset: int, location: Location) -> None:
        super().__init__(message)
        self.offset = offset
        self.location = location
