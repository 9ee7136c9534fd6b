"""What moves between ranks: which bytes of whose buffer an operator fills, or reads.

A put copies its input tile to the address of its output, in another rank's memory. The output
is described as the whole buffer, one slice for each rank, from the sender's slice on: so what is
really filled has the input's dims and the buffer's strides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.events import gpu_of, tag_of
from mirage_gate.facts.regions import BITS

if TYPE_CHECKING:
    from mirage_gate.artifacts.graph import Tensor
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

Ranges = tuple[tuple[int, int], ...]
"""Ranges of bytes [low, high), ascending, none touching the next."""

_MOST_ROWS = 1 << 16


class Transfers:
    """The puts and the remote reads of a rank's operators."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._known: dict[object, Ranges] = {}

    def puts(self, operator: Operator) -> Iterator[tuple[int, str, Ranges, int]]:
        """Give (rank, its buffer, ranges of bytes, tasks) for all that an operator sends."""
        wiring, tensors = self._facts.wiring, self._facts.graph.tensors
        tiles: dict[tuple[int, str], set[tuple[int, int]]] = {}
        tasks: dict[tuple[int, str], int] = {}
        for group in operator.groups:
            if group.trigger == NO_EVENT or not tag_of(group.trigger) or not group.inputs:
                continue
            for index, number in enumerate(group.outputs):
                slot, _, writes = wiring.use(group, False, index)
                if writes and slot.remote:
                    to = gpu_of(group.trigger), tensors[number].base_ptr
                    tiles.setdefault(to, set()).add((group.inputs[0], number))
                    tasks[to] = tasks.get(to, 0) + group.count
        for (gpu, name), pairs in sorted(tiles.items()):
            yield gpu, name, self._filled(frozenset(pairs)), tasks[gpu, name]

    def reads(self, operator: Operator) -> dict[str, Ranges]:
        """Give the ranges of bytes that an operator reads where other ranks have put them."""
        wiring, tensors = self._facts.wiring, self._facts.graph.tensors
        tiles: dict[str, set[int]] = {}
        for group in operator.groups:
            for index, number in enumerate(group.inputs):
                slot, reads, _ = wiring.use(group, True, index)
                if reads and slot.remote:
                    tiles.setdefault(tensors[number].base_ptr, set()).add(number)
        return {name: self._covered(frozenset(numbers)) for name, numbers in tiles.items()}

    def _filled(self, pairs: frozenset[tuple[int, int]]) -> Ranges:
        if pairs not in self._known:
            tensors = self._facts.graph.tensors
            self._known[pairs] = merged(
                row
                for source, target in pairs
                for row in rows(
                    tensors[target],
                    tensors[source].dims,
                    tensors[target].strides[-len(tensors[source].dims) :],
                )
            )
        return self._known[pairs]

    def _covered(self, numbers: frozenset[int]) -> Ranges:
        if numbers not in self._known:
            tensors = [self._facts.graph.tensors[number] for number in numbers]
            self._known[numbers] = merged(
                row for tensor in tensors for row in rows(tensor, tensor.dims, tensor.strides)
            )
        return self._known[numbers]


def rows(tensor: Tensor, dims: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Give the bytes of a tile as rows; none where its type has no size or it has too many."""
    bits = BITS.get(tensor.data_type, 0)
    if not bits or len(dims) != len(strides) or 0 in dims:
        return []
    run = 1
    outer = sorted(zip(strides, dims, strict=True))
    while outer and (outer[0][1] == 1 or outer[0][0] == run):
        run *= outer.pop(0)[1]
    count = 1
    for _, n in outer:
        count *= n
    if count > _MOST_ROWS:
        return []
    size = -(-run * bits // 8)
    starts = product(*(range(0, stride * n, stride) if stride else (0,) for stride, n in outer))
    return [(low, low + size) for low in (tensor.offset + sum(at) * bits // 8 for at in starts)]


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort ranges and join those that touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def common(one: Ranges, other: Ranges) -> Ranges:
    """Give the bytes that are in both."""
    both = []
    for low, high in one:
        both += [
            (max(low, first), min(high, last))
            for first, last in other
            if first < high and low < last
        ]
    return tuple(both)


def without(one: Ranges, other: Ranges) -> Ranges:
    """Give the bytes that are in the first and not in the other."""
    left = []
    for low, high in one:
        for first, last in other:
            if last <= low or high <= first:
                continue
            if low < first:
                left.append((low, first))
            low = max(low, last)
        if low < high:
            left.append((low, high))
    return tuple(left)
