"""Which bytes a tile covers, decided exactly: overlap, coverage, and what is left out.

A tile is an offset in bytes, dims and strides in elements, and an element size. As a set of
bits it is a *box*: a contiguous run, repeated at a few strides. The tiles of one tensor
nearly always share those strides, so an address can be written in digits: which row, which
column of the row, which bit. In digits a tile is a product of intervals, and the cut points
of all tiles on each axis divide the tensor into *cells*, of which every tile is a set.
Masks over cells then answer everything with ``&`` and ``|``; a min..max span never does,
for the spans of column tiles overlap where their bytes do not.

Sizes here are bits, so that 4-bit types are exact; what leaves this module is bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import SENTINEL

if TYPE_CHECKING:
    from mirage_gate.artifacts.graph import Tensor
    from mirage_gate.facts import RankFacts

DATA_TYPES = {
    920: ("float4", 4),
    925: ("int4", 4),
    926: ("uint4", 4),
    930: ("float8", 8),
    935: ("int8", 8),
    936: ("uint8", 8),
    940: ("float16", 16),
    941: ("bfloat16", 16),
    945: ("int16", 16),
    946: ("uint16", 16),
    950: ("float32", 32),
    955: ("int32", 32),
    956: ("uint32", 32),
    960: ("double", 64),
    965: ("int64", 64),
    966: ("uint64", 64),
}
"""Name and bits of one element, by ``data_type`` code.

999 (unknown) has no size, nor has a new code.
"""

BITS = {code: bits for code, (_, bits) in DATA_TYPES.items()}


def type_name(code: int) -> str:
    """Name a data type: ``bfloat16``, or ``data type 977`` where it has no name."""
    return DATA_TYPES[code][0] if code in DATA_TYPES else f"data type {code}"


MOST_BOXES = 1 << 16
MOST_CELLS = 1 << 17
MOST_BITS = 1 << 26
"""A tensor that needs more than this (boxes, cells, bits of all masks) is not decided.

Real ones need some hundred cells, and 512 rows by 128 columns are within reason.
"""


class UndecidedError(Exception):
    """The tiles of a tensor cannot be compared, or not within reason."""


class Shape(msgspec.Struct, frozen=True):
    """A tile without its offset: ``run`` bits, repeated ``count`` times at each stride.

    ``levels`` are (count, stride in bits), outermost first, each stride at least as long as
    all that it repeats. ``extent`` is one past the last bit. An empty tile has extent 0.
    """

    levels: tuple[tuple[int, int], ...]
    run: int
    extent: int


Box = tuple[tuple[int, int], ...]
"""An interval [low, high) for each axis, outermost first; the last axis counts bits."""


@lru_cache(maxsize=4096)
def shapes(dims: tuple[int, ...], strides: tuple[int, ...], bits: int) -> tuple[Shape, ...]:
    """Give the tile's bits as shapes, each with the offset (in its first level) folded in.

    One shape is enough unless strides interleave; then the outer one is written out, as
    several shapes whose ``levels`` start with ``(1, offset)``. Raises
    :class:`UndecidedError` if that takes too many.
    """
    if 0 in dims:
        return (Shape((), 0, 0),)
    pairs = sorted(
        ((n, stride * bits) for n, stride in zip(dims, strides, strict=True) if n > 1 and stride),
        key=lambda pair: pair[1],
    )
    return tuple(_nest(pairs, bits))


def _nest(pairs: Sequence[tuple[int, int]], run: int) -> Iterator[Shape]:
    """Fold (count, stride) pairs, ascending by stride, into shapes."""
    levels: list[tuple[int, int]] = []
    extent = run
    offsets = [0]
    for count, stride in pairs:
        if not levels and stride <= run:
            run += (count - 1) * stride  # contiguous, or overlapping itself
            extent = run
        elif levels and stride == levels[0][0] * levels[0][1]:
            levels[0] = (levels[0][0] * count, levels[0][1])
            extent += (count - 1) * stride
        elif stride >= extent:
            levels.insert(0, (count, stride))
            extent += (count - 1) * stride
        else:
            if len(offsets) * count > MOST_BOXES:
                raise UndecidedError(f"{count} interleaved repetitions")
            offsets = [base + i * stride for base in offsets for i in range(count)]
    for offset in offsets:
        lead = ((1, offset),) if offset else ()
        yield Shape((*lead, *levels), run, offset + extent)


def extent_bits(tensor: Tensor) -> int | None:
    """One past the last bit that a reference covers; None if its type has no size."""
    bits = BITS.get(tensor.data_type)
    if bits is None or len(tensor.dims) != len(tensor.strides):
        return None
    return tensor.offset * 8 + _reach(tensor.dims, tensor.strides) * bits


@lru_cache(maxsize=4096)
def _reach(dims: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """One past the last element, counted from the first; 0 for an empty tile."""
    if 0 in dims:
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(dims, strides, strict=True))


def steps(tensor: Tensor) -> tuple[int, ...]:
    """The strides along which a tile has more than one element; 0 for the others."""
    return _steps(tensor.dims, tensor.strides)


@lru_cache(maxsize=4096)
def _steps(dims: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(stride if dim > 1 else 0 for dim, stride in zip(dims, strides, strict=False))


def extent_of(tensor: Tensor) -> int | None:
    """One past the last byte that a reference covers; None if its type has no size."""
    bits = extent_bits(tensor)
    return None if bits is None else -(-bits // 8)


def size_of(tensor: Tensor) -> int:
    """How many bytes a tile has; 0 if its type has no size."""
    return -(-prod(tensor.dims) * BITS.get(tensor.data_type, 0) // 8)


class Grid:
    """Sets of tiles as masks over cells.

    ``tiles`` are (start in bits, shapes) pairs. ``masks[i]`` is the set of cells of tile i;
    two tiles share a byte exactly if their masks share a bit.
    """

    def __init__(self, tiles: Sequence[tuple[int, tuple[Shape, ...]]]) -> None:
        self.frame = _frame(shape for _, tile in tiles for shape in tile)
        boxes: list[list[Box]] = []
        total = 0
        for start, tile in tiles:
            boxes.append([box for shape in tile for box in self._boxes(start, shape)])
            total += len(boxes[-1])
            if total > MOST_BOXES and total > 8 * len(tiles):
                raise UndecidedError(f"more than {MOST_BOXES} runs")
        axes = len(self.frame) + 1
        cuts: list[set[int]] = [set() for _ in range(axes)]
        for tile_boxes in boxes:
            for box in tile_boxes:
                for axis, interval in enumerate(box):
                    cuts[axis].update(interval)
        self.cuts = [sorted(axis) for axis in cuts]
        self.widths = [max(len(axis) - 1, 1) for axis in self.cuts]
        self.cells = 1
        for width in self.widths:
            self.cells *= width
        if self.cells > MOST_CELLS or self.cells * len(tiles) > MOST_BITS:
            raise UndecidedError(f"{self.cells} cells")
        self._index = [{cut: i for i, cut in enumerate(axis)} for axis in self.cuts]
        self.masks = [self._mask(tile_boxes) for tile_boxes in boxes]

    def _boxes(self, start: int, shape: Shape) -> Iterator[Box]:
        """Write one shape at ``start`` as boxes in this grid's frame."""
        if not shape.run:
            return
        starts = [start]
        counts = dict.fromkeys(self.frame, 1)
        for count, stride in shape.levels:
            if count == 1:
                starts = [at + stride for at in starts]  # an offset, folded in
            elif stride in counts:
                counts[stride] = count
            else:
                if len(starts) * count > MOST_BOXES:
                    raise UndecidedError(f"{count} rows of a stride of its own")
                starts = [at + i * stride for at in starts for i in range(count)]
        for at in starts:
            yield from self._digits(at, at + shape.run, len(self.frame), counts)

    def _digits(self, low: int, high: int, axis: int, counts: dict[int, int]) -> Iterator[Box]:
        """Split [low, high), counted in units of ``axis``, at the multiples of its stride."""
        if not axis:
            yield ((low, high),)
            return
        stride = self.frame[axis - 1]
        unit = 1 if axis == len(self.frame) else self.frame[axis]
        radix = stride // unit
        repeats = counts[stride] - 1
        row, first = divmod(low, radix)
        last_row, last = divmod(high, radix)
        if row == last_row or (row + 1 == last_row and not last):
            pieces = [(row, row + 1, first, last or radix)]
        else:
            pieces = []
            if first:
                pieces.append((row, row + 1, first, radix))
                row += 1
            if row < last_row:
                pieces.append((row, last_row, 0, radix))
            if last:
                pieces.append((last_row, last_row + 1, 0, last))
        for row_low, row_high, digit_low, digit_high in pieces:
            for outer in self._digits(row_low, row_high + repeats, axis - 1, counts):
                yield (*outer, (digit_low, digit_high))

    def _mask(self, boxes: list[Box]) -> int:
        mask = 0
        for box in boxes:
            part, size = 1, 1
            for axis in range(len(box) - 1, -1, -1):
                index = self._index[axis]
                low, high = index[box[axis][0]], index[box[axis][1]]
                part = _repeat(part, size, high - low) << (low * size)
                size *= self.widths[axis]
            mask |= part
        return mask

    def ranges(self, mask: int, most: int = 4) -> list[tuple[int, int]]:
        """Give the first ``most`` ranges [low, high) of bits in ``mask``, ascending, merged."""
        merged: list[tuple[int, int]] = []
        for low, high in self._runs(mask, 0, 0):
            if merged and merged[-1][1] == low:
                merged[-1] = (merged[-1][0], high)
            elif len(merged) == most:
                break
            else:
                merged.append((low, high))
        return merged

    def _runs(self, mask: int, axis: int, base: int) -> Iterator[tuple[int, int]]:
        """Walk the runs of ``mask`` (over the cells from ``axis`` inwards), ascending."""
        size = 1
        for width in self.widths[axis + 1 :]:
            size *= width
        full = (1 << size) - 1
        unit = self.frame[axis] if axis < len(self.frame) else 1
        cuts = self.cuts[axis]
        inner = mask
        index = 0
        while inner:
            skip = ((inner & -inner).bit_length() - 1) // size
            index += skip
            inner >>= skip * size
            part = inner & full
            low, high = cuts[index], cuts[index + 1]
            if axis == len(self.frame):
                yield base + low, base + high
            elif part == full and self._spans(axis + 1):
                yield base + low * unit, base + high * unit
            else:
                for row in range(low, high):
                    yield from self._runs(part, axis + 1, base + row * unit)
            inner >>= size
            index += 1

    def _spans(self, axis: int) -> bool:
        """Whether all cells from ``axis`` inwards fill a whole row of the axis before it."""
        for inner in range(axis, len(self.cuts)):
            unit = 1 if inner == len(self.frame) else self.frame[inner]
            radix = self.frame[inner - 1] // unit
            if self.cuts[inner][0] != 0 or self.cuts[inner][-1] != radix:
                return False
        return True

    def size(self, mask: int) -> int:
        """Count the bits in ``mask``."""
        total = 0
        while mask:
            cell = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            volume = 1
            for axis in range(len(self.widths) - 1, -1, -1):
                cell, index = divmod(cell, self.widths[axis])
                volume *= self.cuts[axis][index + 1] - self.cuts[axis][index]
            total += volume
        return total


def _repeat(part: int, size: int, times: int) -> int:
    """Write ``part`` ``times`` times, ``size`` bits apart."""
    if size == 1 and part == 1:
        return (1 << times) - 1
    whole, done = 0, 0
    for bit in range(times.bit_length() - 1, -1, -1):
        whole |= whole << (done * size)
        done *= 2
        if times >> bit & 1:
            whole |= part << (done * size)
            done += 1
    return whole


def _frame(shapes: Iterable[Shape]) -> list[int]:
    """Choose the strides to write addresses in: each divides the one before it.

    The strides that most shapes use come first; a shape with another one is written out row
    by row.
    """
    uses: dict[int, int] = {}
    for shape in shapes:
        for count, stride in shape.levels:
            if count > 1:
                uses[stride] = uses.get(stride, 0) + count
    chosen: list[int] = []
    for stride in sorted(uses, key=lambda s: (-uses[s], -s)):
        if all(stride % other == 0 or other % stride == 0 for other in chosen):
            chosen.append(stride)
    return sorted(chosen, reverse=True)


def ranges_text(ranges: Sequence[tuple[int, int]], more: bool = False) -> str:
    """Write ranges of bytes as people read them: ``bytes 0..4095, 8192..12287``."""
    text = ", ".join(f"{low}..{high - 1}" for low, high in ranges)
    return f"bytes {text}{' and more' if more else ''}"


class TensorRegions:
    """The regions of one tensor: a mask for each of its references.

    ``data_types`` are those of its tiles, ``shapes`` their (data type, dims, :func:`steps`),
    and ``strided`` the steps of each dims among them. ``hull`` is the least and the largest
    bit that a tile covers, ``end`` one past the last byte at which any tile ends, an empty one
    too. ``undecided`` says why the tiles could not be compared; then every mask is 0.
    ``unsized`` is a data type among them that has no size.
    """

    def __init__(self, nbytes: int | None, references: dict[int, Tensor]) -> None:
        self.undecided = ""
        tensors = references.values()
        self.data_types = {tensor.data_type for tensor in tensors}
        self.shapes = frozenset([(t.data_type, t.dims, steps(t)) for t in tensors])
        self.unsized = min(self.data_types - BITS.keys(), default=None)
        self.strided: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for tensor in references.values():
            self.strided.setdefault(tensor.dims, set()).add(steps(tensor))
        self._masks: dict[int, int] = {}
        tiles: list[tuple[int, tuple[Shape, ...]]] = []
        sized: list[int] = []
        self.hull = _hull(references.values())
        self.end = max((extent_of(tensor) or 0 for tensor in references.values()), default=0)
        low, high = self.hull if nbytes is None else (0, nbytes * 8)
        try:
            if self.unsized is not None:
                raise UndecidedError(f"data type {self.unsized} has no known size")
            for number, tensor in references.items():
                bits = BITS[tensor.data_type]
                if len(tensor.dims) == len(tensor.strides):
                    sized.append(number)
                    tiles.append((tensor.offset * 8, shapes(tensor.dims, tensor.strides, bits)))
            tiles.append((low, (Shape((), high - low, high - low),)))
            self._grid = Grid(tiles)
            self._masks = dict(zip(sized, self._grid.masks, strict=False))
        except UndecidedError as error:
            self.undecided = str(error)
            self._grid = Grid([(0, (Shape((), 1, 1),))])

    def renumbered(self, numbers: dict[int, int]) -> TensorRegions:
        """Give the regions of another tensor with the same tiles; ``numbers`` are old to new."""
        twin = copy(self)
        twin._masks = {numbers[number]: mask for number, mask in self._masks.items()}
        return twin

    def mask(self, number: int) -> int:
        """Give the cells of a reference; 0 for one whose bytes are unknown."""
        return self._masks.get(number, 0)

    def union(self, numbers: Iterable[int]) -> int:
        """Give the cells of several references together."""
        mask, known = 0, self._masks.get
        for number in set(numbers):
            mask |= known(number, 0)
        return mask

    @property
    def whole(self) -> int:
        """The cells of the allocation, or of the hull of all tiles where its size is unknown."""
        return 0 if self.undecided else self._grid.masks[-1]

    def nbytes(self, mask: int) -> int:
        """Count the bytes in ``mask``, a part of a byte as one."""
        return -(-self._grid.size(mask) // 8)

    def ranges(self, mask: int, most: int = 4) -> list[tuple[int, int]]:
        """Give the first ranges [low, high) of bytes in ``mask``, ascending."""
        return [(low // 8, -(-high // 8)) for low, high in self._grid.ranges(mask, most)]

    def text(self, mask: int, most: int = 2) -> str:
        """Name the bytes of ``mask`` for a message: ``bytes 4096..8191``."""
        ranges = self.ranges(mask, most + 1)
        return ranges_text(ranges[:most], more=len(ranges) > most)


def _hull(tensors: Iterable[Tensor]) -> tuple[int, int]:
    """Give the least and the largest bit that some tiles cover; (0, 0) for none."""
    low: int | None = None
    high = 0
    for tensor in tensors:
        extent = extent_bits(tensor)
        if extent is not None and 0 not in tensor.dims:
            low = tensor.offset * 8 if low is None else min(low, tensor.offset * 8)
            high = max(high, extent)
    return (low or 0, high)


class Regions:
    """The regions of every tensor of a rank, each worked out when it is asked for."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._tensors: dict[str, TensorRegions] = {}
        self._twins: dict[object, tuple[list[int], TensorRegions]] = {}

    @cached_property
    def names(self) -> list[str]:
        """Every tensor that tasks reference, the sentinel aside."""
        return [name for name in self._facts.wiring.accesses if name != SENTINEL]

    @cached_property
    def _references(self) -> dict[str, list[int]]:
        references: dict[str, list[int]] = {}
        for number, tensor in enumerate(self._facts.graph.tensors):
            references.setdefault(tensor.base_ptr, []).append(number)
        return references

    def of(self, name: str) -> TensorRegions:
        """Give the regions of one tensor; :class:`KeyError` for one that no task references."""
        regions = self._tensors.get(name)
        if regions is None:
            regions = self._tensors[name] = self._new(name)
        return regions

    def _new(self, name: str) -> TensorRegions:
        """Work a tensor out, or copy one with the same tiles: layers are alike."""
        tensors = self._facts.graph.tensors
        numbers = self._references[name]
        declaration = self._facts.declared.get(name)
        nbytes = declaration.nbytes if declaration else None
        tiles = [tensors[number] for number in numbers]
        key = (nbytes, *[(t.offset, t.data_type, t.dims, t.strides) for t in tiles])
        if key in self._twins:
            others, regions = self._twins[key]
            return regions.renumbered(dict(zip(others, numbers, strict=True)))
        regions = TensorRegions(nbytes, dict(zip(numbers, tiles, strict=True)))
        self._twins[key] = numbers, regions
        return regions
