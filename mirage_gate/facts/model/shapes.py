"""The shapes of what the host loads, from the tiles that tasks read of it.

A tile has the strides of the whole tensor, so all extents but the first follow from them; the
first is how far the tiles reach. Of a tensor that is filled by copies, each source's size is that
of its copies.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import BITS

if TYPE_CHECKING:
    from mirage_gate.artifacts.graph import Tensor
    from mirage_gate.facts import RankFacts

Shape = tuple[int, ...]


class Shapes:
    """The shape of each tensor, in elements; None where its tiles have no one answer."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def _tiles(self) -> dict[str, list[Tensor]]:
        tiles: dict[str, list[Tensor]] = {}
        read = {
            number
            for group in self._facts.wiring.groups
            for number in (*group.inputs, *group.outputs)
        }
        for number in sorted(read):
            tensor = self._facts.graph.tensors[number]
            tiles.setdefault(tensor.base_ptr, []).append(tensor)
        return tiles

    def tiles(self, name: str) -> list[Tensor]:
        """The distinct tiles of a tensor that tasks carry."""
        return self._tiles.get(name, [])

    def element(self, name: str) -> int:
        """Bytes of an element, 0 where tiles have several sizes or none."""
        sizes = {BITS.get(tile.data_type, 0) // 8 for tile in self.tiles(name)}
        return sizes.pop() if len(sizes) == 1 else 0

    def of(self, name: str) -> Shape | None:
        """The shape of a tensor, its longest stride first."""
        tiles = [tile for tile in self.tiles(name) if tile.dims and 0 not in tile.dims]
        size = self.element(name)
        if not tiles or not size:
            return None
        strides = tiles[0].strides
        if any(t.strides != strides or len(t.dims) != len(strides) for t in tiles):
            return None
        order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
        steps = [strides[axis] for axis in order]
        if min(steps) < 1 or any(outer % inner for outer, inner in pairwise(steps)):
            return None
        shape = [0] * len(steps)
        for tile in tiles:
            at, rest = divmod(tile.offset, size)
            if rest:
                return None
            for place, (axis, step) in enumerate(zip(order, steps, strict=True)):
                index, at = divmod(at, step)
                shape[place] = max(shape[place], index + tile.dims[axis])
        for place in range(1, len(shape)):
            whole = steps[place - 1] // steps[place]
            if shape[place] > whole:
                return None
            shape[place] = whole
        return tuple(shape)

    def copied(self, name: str) -> dict[str, int]:
        """How many elements each source gives to a tensor that is filled by copies."""
        size = self.element(name)
        counts: dict[str, int] = {}
        declaration = self._facts.declared.get(name)
        for copy in declaration.copies if declaration and size else ():
            counts[copy.source] = counts.get(copy.source, 0) + copy.width * copy.height // size
        return counts
