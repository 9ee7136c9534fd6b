"""Loading a ``task_graph_N.json``: decoded, or refused with a place for each reason."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import Any, TypeVar

import msgspec

from mirage_gate.artifacts.decode import KNOWN_FIELDS, decode, decode_pieces
from mirage_gate.artifacts.graph import ABSENT, METADATA_FIELDS, Graph, Refusal
from mirage_gate.artifacts.graph_text import GraphText, UncutError

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
def load(text: GraphText | bytes) -> Graph | Refusal:
    """Decode a graph, or say why not.

    Raises :class:`Malformed` for what is not JSON. What the schema accepts and the fast types
    do not (``1.0`` is an integer to JSON Schema) is decoded the slow way: the schema is
    the authority.
    """
    if isinstance(text, bytes):
        text = GraphText.of("", text)
    try:
        return decode_pieces(text)
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
    """Say which fields tasks lack: field to (first task, how many).

    Of ``fields``, and of the metadata those that only some tasks lack.
    """
    lacking: dict[str, tuple[int, int]] = {}
    for place, field in enumerate(METADATA_FIELDS):
        without = {n for n, values in enumerate(graph.metadata) if values[place] == ABSENT}
        if without and (field in fields or len(without) < len(graph.metadata)):
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

    decode_members = msgspec.json.Decoder(list[member]).decode
    try:
        return count(chain.from_iterable(text.tasks(decode_members)))
    except (UncutError, msgspec.DecodeError, RecursionError):  # as where it was loaded
        whole = msgspec.json.decode(text.whole(), type=dict[str, msgspec.Raw])
        return count(decode_members(whole["all_tasks"]))
