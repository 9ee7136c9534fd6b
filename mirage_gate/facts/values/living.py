"""The values that live in a tensor, to be found by their cells.

Nearly always a few, and then looked at one by one. Where hundreds of operators fill parts of
their own, those that meet a write are found by ranges of cells, so that the work is what
is met, not what lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage_gate.facts.values import Value

FEW = 32
_RANGES = 512


class Living:
    """Values and the cells they live in, in the order in which they were written."""

    def __init__(self, cells: int) -> None:
        """``cells`` is how many the tensor has."""
        self._items: dict[int, tuple[Value, int]] = {}
        self._count = 0
        self._span = max(64, -(-cells // _RANGES))
        self._ranges: dict[int, set[int]] = {}
        self._many = False

    def meeting(self, cells: int) -> list[tuple[int, Value, int]]:
        """Give (key, value, the cells it lives in) of all that live in some of the cells."""
        items = self._items
        if len(items) <= FEW or cells.bit_count() > len(items):
            return [(key, *item) for key, item in items.items() if item[1] & cells]
        if not self._many:
            self._many = True
            for key, (_, lives) in items.items():
                self._enter(key, lives)
        keys = {key for at in self._touched(cells) for key in self._ranges.get(at, ())}
        found = ((key, *items[key]) for key in sorted(keys))
        return [item for item in found if item[2] & cells]

    def add(self, value: Value, cells: int) -> None:
        """Let a value live in cells that nothing else lives in."""
        key = self._count
        self._count += 1
        self._items[key] = (value, cells)
        if self._many:
            self._enter(key, cells)

    def take(self, key: int, cells: int) -> None:
        """Let a value live no longer in some of its cells."""
        value, lives = self._items[key]
        if rest := lives & ~cells:
            self._items[key] = (value, rest)
        else:
            del self._items[key]
        if self._many:
            for at in self._touched(lives):
                if not rest or not rest >> at * self._span & (1 << self._span) - 1:
                    self._ranges[at].discard(key)

    def __iter__(self) -> Iterator[tuple[Value, int]]:
        return iter(self._items.values())

    def _enter(self, key: int, cells: int) -> None:
        for at in self._touched(cells):
            self._ranges.setdefault(at, set()).add(key)

    def _touched(self, cells: int) -> Iterator[int]:
        """The ranges that hold some of the cells."""
        at = 0
        while cells:
            skipped = ((cells & -cells).bit_length() - 1) // self._span
            at += skipped
            cells >>= skipped * self._span
            yield at
            cells >>= self._span
            at += 1
