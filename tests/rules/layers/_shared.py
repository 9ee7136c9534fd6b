"""What cases of several rules of layers build on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.emitter import Pair, shared
from tests.emitter.graph import Program, Tensor
from tests.rules import Path


def carrying(pair: Pair, tensor: str) -> list[dict[str, Any]]:
    return pair.tasks(tensor=tensor)


def first_slot(pair: Pair, tensor: str, index: int) -> Path:
    """The path of a slot of the first task that carries a tensor in any slot."""
    task = pair.graph["all_tasks"].index(carrying(pair, tensor)[0])
    return ("all_tasks", task, "inputs", index, "base_ptr")


def exchanged(pair: Pair, one: str, other: str) -> Pair:
    swap = {one: other, other: one}
    for task in pair.graph["all_tasks"]:
        for tensor in [*(task["inputs"] or []), *(task["outputs"] or [])]:
            tensor["base_ptr"] = swap.get(tensor["base_ptr"], tensor["base_ptr"])
    return pair


def with_copies_exchanged(pair: Pair, one: tuple[str, int], other: tuple[str, int]) -> Pair:
    """Two copies into shuffled tensors take each other's source."""
    sources = {(name, at): pair.declaration(name).copies[at].name for name, at in (one, other)}
    for (name, at), source in ((one, sources[other]), (other, sources[one])):
        copies = pair.declaration(name).copies
        copies[at] = replace(copies[at], name=source)
    return pair


def aside(p: Program, layer: int, stream: Tensor) -> None:
    """A copy of the stream, for a draft model."""
    kept = p.scratch(f"kept_{layer}", *stream.shape)
    p.run("IDENTITY", (stream.shape[0],), [stream.cut(x=0)], [kept.cut(x=0)])


def add_of_the_first(p: Program, layer: int, stream: Tensor) -> None:
    """Value residual: the first layer keeps a copy, the others add it."""
    kept = shared(p, "kept", *stream.shape)
    rows, whole = (stream.shape[0],), stream.cut(x=0)
    if layer:
        p.run("ELEMENTWISE_ADD_SM100", rows, [whole, kept.cut(x=0)], [whole])
    else:
        p.run("IDENTITY", rows, [whole], [kept.cut(x=0)])
