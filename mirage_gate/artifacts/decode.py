"""Decoding a ``task_graph_N.json`` whose every field the schema accepts.

``schemas/task_graph.schema.json`` is the contract and jsonschema its authority
(:mod:`mirage_gate.artifacts.schema`). A clean graph never meets jsonschema: msgspec decodes
it into types that accept what the schema accepts. Each task's operands are raw bytes first,
and only bytes not seen before are decoded.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from mirage_gate.artifacts.graph import (
    ABSENT,
    METADATA_FIELDS,
    NO_EVENT,
    NVSHMEM_TAG,
    Alike,
    Count,
    Event,
    EventId,
    Graph,
    Metadata,
    Tensor,
    Word,
)
from mirage_gate.artifacts.graph_text import GraphText

MOST_INPUTS = 28
MOST_OUTPUTS = 13
"""What the roomiest fork's task descriptor holds; upstream's is MG504's to judge."""

_RUN = 256
"""Tasks taken in at a time: enough for the cost of a run, few enough for the cache."""

_Inputs = TypeVar("_Inputs")
_Outputs = TypeVar("_Outputs")


class TaskText(msgspec.Struct, Generic[_Inputs, _Outputs], kw_only=True, gc=False):
    """A task as it stands in the file, its members in MPK's order."""

    dependent_event: EventId
    expert_offset: Word = ABSENT
    inputs: _Inputs
    kv_idx: Word = ABSENT
    merge_task_offset: Word = ABSENT
    outputs: _Outputs
    request_id: Word = ABSENT
    task_offset: Word = ABSENT
    task_type: Count
    trigger_event: EventId
    variant_id: Count


class EventObject(msgspec.Struct):
    """An event id as MPK wrote it until July 2025, its gpu counted from the file's own."""

    gpu_offset: Count
    event_pos: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
    is_nvshmem: bool | Count

    def number(self) -> int:
        """Give the id as a number, the gpu's bits those of ``gpu_offset``."""
        if self.event_pos == NO_EVENT & 0xFFFF_FFFF:
            return NO_EVENT
        tag = NVSHMEM_TAG if self.is_nvshmem else 0
        return tag << 48 | (self.gpu_offset & 0xFFFF) << 32 | self.event_pos


class TaskOfOld(TaskText[_Inputs, _Outputs], Generic[_Inputs, _Outputs], kw_only=True, gc=False):
    """A task whose event ids may be objects."""

    dependent_event: EventId | EventObject  # type: ignore[assignment]
    trigger_event: EventId | EventObject  # type: ignore[assignment]


_Raw = TaskText[msgspec.Raw, msgspec.Raw]


class _Whole(msgspec.Struct):
    """The file's top level."""

    all_events: list[Event]
    all_tasks: list[_Raw]
    first_tasks: list[Count]


KNOWN_FIELDS = frozenset(TaskText.__struct_fields__)

_Key = tuple[int, int, int, int, int, int]
_decode_whole = msgspec.json.Decoder(_Whole).decode
_decode_tasks = msgspec.json.Decoder(list[_Raw]).decode
_decode_operands = msgspec.json.Decoder(list[list[Tensor] | None]).decode
_metadata: Callable[[_Raw], Metadata] = attrgetter(*METADATA_FIELDS)


class _Collector:
    """Takes tasks in, and keeps once what they have in common."""

    def __init__(self) -> None:
        self.alike: list[Alike] = []
        self.alike_of = array("I")
        self.metadata_of = array("I")
        self._tensors: dict[Tensor, int] = {}
        self._metadata: dict[Metadata, int] = {}
        self._number: dict[bytes, int] = {}
        self._operands: list[tuple[int, ...]] = []
        self._alike: dict[tuple[Any, ...], int] = {}

    def add(self, tasks: Sequence[_Raw]) -> None:
        """Take in some tasks in a row; raises what msgspec raises."""
        new: list[bytes] = []
        keys: list[_Key] = []
        known = self._number.get
        for task in tasks:
            text = bytes(task.inputs)
            inputs = known(text)
            if inputs is None:
                inputs = self._number[text] = len(self._number)
                new.append(text)
            text = bytes(task.outputs)
            outputs = known(text)
            if outputs is None:
                outputs = self._number[text] = len(self._number)
                new.append(text)
            keys.append(
                (
                    task.task_type,
                    task.variant_id,
                    inputs,
                    outputs,
                    task.trigger_event,
                    task.dependent_event,
                )
            )
        if new:
            self._decode(new)
        known_alike, add_alike = self._alike.get, self.alike_of.append
        for key in keys:
            number = known_alike(key)
            if number is None:
                number = self._alike[key] = self._number_of(key)
            add_alike(number)
        known_metadata, number_of = self._metadata.setdefault, self._metadata.__len__
        self.metadata_of.extend([known_metadata(m, number_of()) for m in map(_metadata, tasks)])

    def _decode(self, texts: list[bytes]) -> None:
        number = self._tensors.setdefault
        for tensors in _decode_operands(b"[%b]" % b",".join(texts)):
            row = [number(tensor, len(self._tensors)) for tensor in tensors or ()]
            self._operands.append(tuple(row))

    def _number_of(self, key: _Key) -> int:
        """Number what a task shares. Operands written in two ways are the same ones."""
        task_type, variant, input_text, output_text, trigger, dependent = key
        inputs, outputs = self._operands[input_text], self._operands[output_text]
        if len(inputs) > MOST_INPUTS or len(outputs) > MOST_OUTPUTS:
            raise msgspec.ValidationError("too many operands")
        whole = (task_type, variant, inputs, outputs, trigger, dependent)
        number = self._alike.setdefault(whole, len(self.alike))
        if number == len(self.alike):
            self.alike.append(Alike(*whole, len(self.alike_of)))
        return number

    def graph(self, rest: _Whole) -> Graph:
        """Give the graph of all tasks taken in; ``rest`` is the file without them."""
        return Graph(
            rest.all_events,
            rest.first_tasks,
            list(self._tensors),
            self.alike,
            self.alike_of,
            list(self._metadata),
            self.metadata_of,
        )


def decode(data: bytes) -> Graph:
    """Decode a graph's text, whatever its layout.

    Raises ``msgspec.ValidationError`` where the schema's types refuse, and
    ``msgspec.DecodeError`` where the text is no JSON; which field, and on which line, is
    for :mod:`mirage_gate.artifacts.schema` to say.
    """
    whole = _decode_whole(data)
    collector = _Collector()
    for first in range(0, len(whole.all_tasks), _RUN):
        collector.add(whole.all_tasks[first : first + _RUN])
    return collector.graph(whole)


def decode_pieces(text: GraphText) -> Graph:
    """Decode a graph in MPK's layout, a piece at a time; raises :class:`UncutError` as well."""
    collector = _Collector()
    for tasks in text.tasks(_decode_tasks):
        collector.add(tasks)
    return collector.graph(_decode_whole(text.rest))
