"""Reading a ``task_graph_N.json``: decoded, checked against the schema, and interned.

``schemas/task_graph.schema.json`` is the contract and jsonschema its authority
(:mod:`mirage_gate.artifacts.schema`). A clean graph never meets jsonschema: msgspec decodes
it into the types below, which accept what the schema accepts. A graph of 160,000 tasks
holds three quarters of a million tensor references but only some ten thousand different
ones, so each reference is kept as raw bytes first, and only distinct bytes are decoded.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from typing import Annotated, Any, TypeVar

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Word = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32 - 1)]
EventId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Extents = Annotated[tuple[Count, ...], msgspec.Meta(max_length=4)]

NO_EVENT = 0x7FFF_FFFF_FFFF_FFFE
"""The id that stands for "no event". Test for it before anything else."""


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


class RawTask(msgspec.Struct):
    """A task as it stands in the file, its tensors not decoded yet."""

    task_type: Count
    variant_id: Count
    inputs: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=7)] | None
    outputs: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=3)] | None
    trigger_event: EventId
    dependent_event: EventId
    request_id: Word = ABSENT
    expert_offset: Word = ABSENT
    kv_idx: Word = ABSENT
    merge_task_offset: Word = ABSENT
    task_offset: Word = ABSENT


class RawGraph(msgspec.Struct):
    """The file's top level."""

    all_events: list[Event]
    all_tasks: list[RawTask]
    first_tasks: list[Count]


class Task(msgspec.Struct, frozen=True):
    """A task. ``inputs`` and ``outputs`` number distinct references in ``Graph.tensors``."""

    task_type: int
    variant_id: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    trigger_event: int
    dependent_event: int
    metadata: tuple[int, int, int, int, int]


KNOWN_FIELDS = frozenset(RawTask.__struct_fields__)

METADATA_FIELDS = ("request_id", "expert_offset", "kv_idx", "merge_task_offset", "task_offset")
"""The five readings of a task's 8-byte metadata, in the order of ``Task.metadata``."""


class Graph(msgspec.Struct, frozen=True):
    """A decoded graph. ``tensors`` are the distinct references, in order of appearance."""

    events: list[Event]
    tasks: list[Task]
    first_tasks: list[int]
    tensors: list[Tensor]

    @property
    def lacks_metadata(self) -> bool:
        """Whether some task lacks a metadata field, as in older graphs."""
        return any(ABSENT in task.metadata for task in self.tasks)


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
    """The text is not JSON. ``offset`` is the byte where that shows."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


_decode_graph = msgspec.json.Decoder(RawGraph).decode
_decode_tensor = msgspec.json.Decoder(Tensor).decode
_T = TypeVar("_T")


def without_collector(function: Callable[..., _T]) -> Callable[..., _T]:
    """Run a function with the cyclic garbage collector off.

    Decoding makes a million objects and not one cycle; the collector would walk them all
    again and again, for half of the time.
    """

    def run(*args: Any, **kwargs: Any) -> _T:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if enabled:
                gc.enable()

    return run


@without_collector
def decode(data: bytes) -> Graph:
    """Decode a graph's text.

    Raises ``msgspec.ValidationError`` where the schema's types refuse, and
    ``msgspec.DecodeError`` where the text is no JSON; which field, and on which line, is
    for :mod:`mirage_gate.artifacts.schema` to say.
    """
    raw = _decode_graph(data)
    known: dict[bytes, int] = {}
    tensors: list[Tensor] = []
    numbers: dict[Tensor, int] = {}

    def intern(text: bytes) -> int:
        tensor = _decode_tensor(text)
        number = numbers.get(tensor)
        if number is None:
            number = numbers[tensor] = len(tensors)
            tensors.append(tensor)
        known[text] = number
        return number

    def numbered(references: list[msgspec.Raw] | None) -> tuple[int, ...]:
        if not references:
            return ()
        found = []
        for reference in references:
            text = bytes(reference)
            number = known.get(text)
            found.append(intern(text) if number is None else number)
        return tuple(found)

    tasks = [
        Task(
            task.task_type,
            task.variant_id,
            numbered(task.inputs),
            numbered(task.outputs),
            task.trigger_event,
            task.dependent_event,
            (
                task.request_id,
                task.expert_offset,
                task.kv_idx,
                task.merge_task_offset,
                task.task_offset,
            ),
        )
        for task in raw.all_tasks
    ]
    return Graph(raw.all_events, tasks, raw.first_tasks, tensors)


def absent(data: bytes, fields: Collection[str]) -> dict[str, tuple[int, int]]:
    """Say which of ``fields`` tasks of a well-formed graph lack: field to (first task, count)."""
    numbered = dict(enumerate(fields))
    probe = msgspec.defstruct(
        "Probe",
        [(f"f{i}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for i in numbered],
        rename={f"f{i}": field for i, field in numbered.items()},
    )
    graph = msgspec.defstruct("Tasks", [("all_tasks", list[probe])])  # type: ignore[valid-type]
    lacking: dict[str, tuple[int, int]] = {}
    for number, task in enumerate(msgspec.json.decode(data, type=graph).all_tasks):  # type: ignore[attr-defined]
        for i, field in numbered.items():
            if getattr(task, f"f{i}") is msgspec.UNSET:
                first, count = lacking.get(field, (number, 0))
                lacking[field] = (first, count + 1)
    return lacking


def load(data: bytes) -> Graph | Refusal:
    """Decode a graph, or say why not.

    Raises :class:`Malformed` for what is not JSON. What the schema accepts and the fast types
    do not (``1.0`` is an integer to JSON Schema) is decoded the slow way: the schema is
    the authority.
    """
    try:
        if not data.isascii():
            data.decode("utf-8")
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        from mirage_gate.artifacts import schema

        return schema.explain_or_convert(data, error)
