"""Reading a ``task_graph_N.json``: decoded, checked against the schema, and interned.

``schemas/task_graph.schema.json`` is the contract and jsonschema its authority
(:mod:`mirage_gate.artifacts.schema`). A clean graph never meets jsonschema: msgspec decodes
it into the types below, which accept what the schema accepts. A graph of 160,000 tasks
holds three quarters of a million tensor references, most of them many times over. So each
task's operands are raw bytes first, and only bytes not seen before are decoded; what tasks
have in common is kept once, and a task is two numbers.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, overload

import msgspec

from mirage_gate.artifacts.graph_text import GraphText, UncutError

if TYPE_CHECKING:
    from mirage_gate.findings import Location

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


class RawTask(msgspec.Struct, gc=False):
    """A task as it stands in the file, its tensors not decoded yet."""

    task_type: Count
    variant_id: Count
    inputs: msgspec.Raw
    outputs: msgspec.Raw
    trigger_event: EventId
    dependent_event: EventId
    request_id: Word = ABSENT
    expert_offset: Word = ABSENT
    kv_idx: Word = ABSENT
    merge_task_offset: Word = ABSENT
    task_offset: Word = ABSENT


INPUTS = msgspec.Meta(max_length=7)
OUTPUTS = msgspec.Meta(max_length=3)


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
    metadata: Metadata


Metadata = tuple[int, int, int, int, int]

KNOWN_FIELDS = frozenset(RawTask.__struct_fields__)

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
    ``metadata_of`` give each task's number in them.
    """

    events: list[Event]
    first_tasks: list[int]
    tensors: list[Tensor]
    alike: list[Alike]
    alike_of: array[int]
    metadata: list[Metadata]
    metadata_of: array[int]

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


_decode_graph = msgspec.json.Decoder(RawGraph).decode
_decode_tensor = msgspec.json.Decoder(Tensor).decode
_decode_inputs = msgspec.json.Decoder(Annotated[list[msgspec.Raw], INPUTS] | None).decode
_decode_outputs = msgspec.json.Decoder(Annotated[list[msgspec.Raw], OUTPUTS] | None).decode
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


class _Collector:
    """Takes tasks in, and keeps once what they have in common."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.alike: list[Alike] = []
        self.alike_of = array("I")
        self.metadata: dict[Metadata, int] = {}
        self.metadata_of = array("I")
        self._number: dict[bytes | Tensor, int] = {}
        self._inputs: dict[bytes, tuple[int, ...]] = {}
        self._outputs: dict[bytes, tuple[int, ...]] = {}
        self._alike: dict[tuple[Any, ...], int] = {}

    def add(self, tasks: Iterable[RawTask]) -> None:
        known_inputs, known_outputs = self._inputs.get, self._outputs.get
        known_alike, known_metadata = self._alike.get, self.metadata.setdefault
        add_alike, add_metadata = self.alike_of.append, self.metadata_of.append
        for task in tasks:
            text = bytes(task.inputs)
            inputs = known_inputs(text)
            if inputs is None:
                inputs = self._inputs[text] = self._numbered(_decode_inputs(text))
            text = bytes(task.outputs)
            outputs = known_outputs(text)
            if outputs is None:
                outputs = self._outputs[text] = self._numbered(_decode_outputs(text))
            key = (
                task.task_type,
                task.variant_id,
                inputs,
                outputs,
                task.trigger_event,
                task.dependent_event,
            )
            number = known_alike(key)
            if number is None:
                number = self._alike[key] = len(self.alike)
                self.alike.append(Alike(*key, len(self.alike_of)))
            add_alike(number)
            metadata = (
                task.request_id,
                task.expert_offset,
                task.kv_idx,
                task.merge_task_offset,
                task.task_offset,
            )
            add_metadata(known_metadata(metadata, len(self.metadata)))

    def _numbered(self, references: list[msgspec.Raw] | None) -> tuple[int, ...]:
        numbers = []
        for reference in references or ():
            text = bytes(reference)
            number = self._number.get(text)
            if number is None:
                # Written in two ways it is one reference.
                tensor = _decode_tensor(text)
                number = self._number.setdefault(tensor, len(self.tensors))
                if number == len(self.tensors):
                    self.tensors.append(tensor)
                self._number[text] = number
            numbers.append(number)
        return tuple(numbers)

    def graph(self, rest: RawGraph) -> Graph:
        return Graph(
            rest.all_events,
            rest.first_tasks,
            self.tensors,
            self.alike,
            self.alike_of,
            list(self.metadata),
            self.metadata_of,
        )


def decode(data: bytes) -> Graph:
    """Decode a graph's text, whatever its layout.

    Raises ``msgspec.ValidationError`` where the schema's types refuse, and
    ``msgspec.DecodeError`` where the text is no JSON; which field, and on which line, is
    for :mod:`mirage_gate.artifacts.schema` to say.
    """
    raw = _decode_graph(data)
    collector = _Collector()
    collector.add(raw.all_tasks)
    return collector.graph(raw)


def _decode_pieces(text: GraphText) -> Graph:
    collector = _Collector()
    for tasks in text.tasks(RawTask):
        collector.add(tasks)
    return collector.graph(_decode_graph(text.rest))


@without_collector
def load(text: GraphText | bytes) -> Graph | Refusal:
    """Decode a graph, or say why not.

    Raises :class:`Malformed` for what is not JSON. What the schema accepts and the fast types
    do not (``1.0`` is an integer to JSON Schema) is decoded the slow way: the schema is
    the authority.
    """
    if isinstance(text, bytes):
        text = GraphText.of("", text)
    try:
        return _decode_pieces(text)
    except (UncutError, msgspec.DecodeError, RecursionError):
        data = text.whole()
    try:
        if not data.isascii():
            data.decode("utf-8")
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        from mirage_gate.artifacts import schema

        return schema.explain_or_convert(text.path, data, error)


def absent(graph: Graph, text: GraphText, fields: Collection[str]) -> dict[str, tuple[int, int]]:
    """Say which of ``fields`` tasks lack: field to (first task, how many)."""
    lacking: dict[str, tuple[int, int]] = {}
    for place, field in enumerate(METADATA_FIELDS):
        without = {n for n, values in enumerate(graph.metadata) if values[place] == ABSENT}
        if field in fields and without:
            tasks = [task for task, number in enumerate(graph.metadata_of) if number in without]
            lacking[field] = (tasks[0], len(tasks))
    unknown = [field for field in fields if field not in KNOWN_FIELDS]
    return lacking | (_lacking(text, unknown) if unknown else {})


def _lacking(text: GraphText, fields: list[str]) -> dict[str, tuple[int, int]]:
    """Read all tasks again for fields that no version of MPK known here has."""
    member = dict[str, msgspec.Raw]

    def count(tasks: Iterable[dict[str, msgspec.Raw]]) -> dict[str, tuple[int, int]]:
        lacking: dict[str, tuple[int, int]] = {}
        for number, task in enumerate(tasks):
            for field in fields:
                if field not in task:
                    first, so_far = lacking.get(field, (number, 0))
                    lacking[field] = (first, so_far + 1)
        return lacking

    try:
        return count(chain.from_iterable(text.tasks(member)))
    except UncutError:
        whole = msgspec.json.decode(text.whole(), type=dict[str, msgspec.Raw])
        return count(msgspec.json.decode(whole["all_tasks"], type=list[member]))
