"""Regions against a brute-force set of bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate.artifacts.graph import Tensor
from mirage_gate.facts.regions import BITS, TensorRegions, extent_of

TYPES = (930, 941, 950, 965, 925)


def brute(tensor: Tensor) -> set[int]:
    """Every bit that a tile covers, element by element."""
    bits = BITS[tensor.data_type]
    starts = [tensor.offset * 8]
    for n, stride in zip(tensor.dims, tensor.strides, strict=True):
        starts = [start + i * stride * bits for start in starts for i in range(n)]
    return {start + bit for start in starts for bit in range(bits)}


def tile(offset: int, dims: tuple[int, ...], strides: tuple[int, ...], code: int = 930) -> Tensor:
    return Tensor("x", offset, code, dims, strides)


@st.composite
def tiles(draw: st.DrawFn) -> Tensor:
    rank = draw(st.integers(0, 4))
    dims = tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))
    strides = tuple(draw(st.lists(st.integers(0, 12), min_size=rank, max_size=rank)))
    return tile(draw(st.integers(0, 24)), dims, strides, draw(st.sampled_from(TYPES)))


@st.composite
def matrix_tiles(draw: st.DrawFn) -> Tensor:
    """Tiles of one row-major matrix of 6 rows, 12 columns: rows, columns, blocks, views."""
    row, column = draw(st.integers(0, 5)), draw(st.integers(0, 11))
    dims = (draw(st.integers(1, 6 - row)), draw(st.integers(1, 12 - column)))
    view = draw(st.sampled_from(["matrix", "transposed", "flat", "thirds"]))
    if view == "transposed":
        return tile(row * 12 + column, dims[::-1], (1, 12))
    if view == "flat":
        return tile(row * 12 + column, (dims[0] * dims[1],), (1,))
    if view == "thirds":
        return tile(row * 12, (dims[0], 3, draw(st.integers(1, 4))), (12, 4, 1))
    return tile(row * 12 + column, dims, (12, 1))


def check(references: list[Tensor], nbytes: int | None) -> None:
    regions = TensorRegions(nbytes, dict(enumerate(references)))
    assert not regions.undecided
    sets = [brute(tensor) for tensor in references]
    for i, one in enumerate(sets):
        mask = regions.mask(i)
        assert bool(mask) == bool(one)
        assert regions.nbytes(mask) == -(-len(one) // 8)
        assert extent_of(references[i]) == (
            -(-(max(one) + 1) // 8) if one else references[i].offset
        )
        for j, other in enumerate(sets):
            assert bool(mask & regions.mask(j)) == bool(one & other)
            assert (mask & ~regions.mask(j) == 0) == (one <= other)
    union = set().union(*sets)
    mask = regions.union(range(len(sets)))
    whole = (
        set(range(nbytes * 8))
        if nbytes is not None
        else set(range(min(union, default=0), max(union, default=-1) + 1))
    )
    left = regions.whole & ~mask
    assert regions.nbytes(left) == -(-len(whole - union) // 8)
    ranges = regions._grid.ranges(left, most=10_000)
    assert {bit for low, high in ranges for bit in range(low, high)} == whole - union
    assert ranges == sorted(ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


@settings(max_examples=400, deadline=None)
@given(st.lists(tiles(), min_size=1, max_size=4), st.none() | st.integers(1, 80))
def test_any_tiles_agree_with_brute_force(references: list[Tensor], nbytes: int | None) -> None:
    check(references, nbytes)


@settings(max_examples=400, deadline=None)
@given(st.lists(matrix_tiles(), min_size=1, max_size=6), st.none() | st.just(72))
def test_tiles_of_a_matrix_agree_with_brute_force(
    references: list[Tensor], nbytes: int | None
) -> None:
    check(references, nbytes)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (tile(0, (8, 4), (16, 1)), tile(4, (8, 4), (16, 1)), False),
        (tile(0, (8, 4), (16, 1)), tile(3, (8, 4), (16, 1)), True),
        (tile(0, (8, 4), (16, 1)), tile(16, (2, 16), (16, 1)), True),
        (tile(0, (4, 8), (1, 16)), tile(4, (4, 8), (1, 16)), False),
        (tile(0, (5, 1), (0, 1)), tile(0, (1,), (1,)), True),
        (tile(0, (2, 3, 4), (64, 16, 1)), tile(8, (2, 3, 4), (64, 16, 1)), False),
        (tile(0, (0, 3), (3, 1)), tile(0, (9,), (1,)), False),
    ],
)
def test_overlap(one: Tensor, other: Tensor, overlap: bool) -> None:
    regions = TensorRegions(None, {0: one, 1: other})
    assert bool(regions.mask(0) & regions.mask(1)) is overlap


def test_a_hostile_tile_is_undecided_and_not_a_hang() -> None:
    huge = tile(0, (2**31 - 1, 2**31 - 1), (3, 5))
    regions = TensorRegions(None, {0: huge, 1: tile(1, (2**30, 2), (7, 2**30))})
    assert regions.undecided
    assert regions.mask(0) == 0


def test_many_tiles_of_a_big_tensor_stay_few_cells() -> None:
    columns = {i: tile(i * 2400, (8, 1200), (153600, 1), 941) for i in range(128)}
    regions = TensorRegions(8 * 153600 * 2, columns)
    assert regions.union(columns) == regions.whole
    assert regions.whole.bit_count() == 128
