"""Data types, devices and sizes, as torch has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mirage_gate.building.no_gpu.unknown import NotStoodIn


class dtype:  # noqa: N801 - torch's name
    """A data type: its size in bytes, and whether its numbers are floating."""

    def __init__(self, name: str, itemsize: int, rank: int) -> None:
        self.name, self.itemsize, self._rank = name, itemsize, rank
        self.is_floating_point = rank >= FLOATING
        self.is_signed = not name.startswith(("uint", "bool"))
        self.is_complex = False

    def __repr__(self) -> str:
        return f"torch.{self.name}"


FLOATING = 20
"""Ranks of types: the higher one is what two of them make together."""

TYPES = {
    name: dtype(name, size, rank)
    for name, size, rank in (
        ("bool", 1, 0),
        ("uint8", 1, 1),
        ("int8", 1, 2),
        ("uint16", 2, 3),
        ("int16", 2, 4),
        ("uint32", 4, 5),
        ("int32", 4, 6),
        ("uint64", 8, 7),
        ("int64", 8, 8),
        ("float8_e8m0fnu", 1, 20),
        ("float8_e5m2", 1, 21),
        ("float8_e5m2fnuz", 1, 22),
        ("float8_e4m3fn", 1, 23),
        ("float8_e4m3fnuz", 1, 24),
        ("bfloat16", 2, 30),
        ("float16", 2, 31),
        ("float32", 4, 40),
        ("float64", 8, 50),
    )
}
ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}
BOOL, INT64, FLOAT32 = TYPES["bool"], TYPES["int64"], TYPES["float32"]


class Default:
    """What torch keeps for all: the type and the device that a tensor gets if it is not told."""

    dtype = FLOAT32
    device = "cpu"
    index = 0


def promoted(left: dtype, right: dtype) -> dtype:
    """The type of what two tensors make together."""
    if {left.name, right.name} == {"bfloat16", "float16"}:
        return FLOAT32
    return max(left, right, key=lambda kind: kind._rank)


def with_number(kind: dtype, number: object) -> dtype:
    """The type of what a tensor and a Python number make together."""
    if isinstance(number, bool):
        return kind
    if isinstance(number, float):
        return kind if kind.is_floating_point else Default.dtype
    return INT64 if kind is BOOL else kind


class Size(tuple[int, ...]):
    """A shape."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements there are."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


class device:  # noqa: N801 - torch's name
    """A device; as a context it is the default inside."""

    def __init__(self, type: Any = "cuda", index: int | None = None) -> None:
        named = f"cuda:{type}" if isinstance(type, int) else str(type)
        name, _, number = named.partition(":")
        self.type = name
        self.index = int(number) if number else index

    def placed(self) -> device:
        """The device of a tensor: a GPU has a number."""
        if self.type != "cuda" or self.index is not None:
            return self
        return device("cuda", Default.index)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            other = device(other)
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        inside = f"type='{self.type}'" + (f", index={self.index}" if self.index is not None else "")
        return f"device({inside})"

    def __enter__(self) -> device:
        self._before = Default.device
        Default.device = str(self)
        return self

    def __exit__(self, *_error: object) -> None:
        Default.device = self._before


def integer(value: object, what: str) -> int:
    """A number of a shape, whatever it comes as; a tensor's has to be known."""
    index = getattr(value, "__index__", None)
    if index is None:
        raise NotStoodIn(what, f": {value!r} is no number")
    return int(index())


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that is laid out row by row."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that some shapes have together; raises as torch does."""
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for at in range(1, rank + 1):
        extents = {shape[-at] for shape in shapes if len(shape) >= at} - {1}
        if len(extents) > 1:
            raise RuntimeError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(extents.pop() if extents else 1)
    return tuple(reversed(result))


def kept(shape: tuple[int, ...], operands: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The strides of a result, dense, in the order in which its operands' dimensions lie.

    ``operands`` are strides, 0 where one is broadcast; the first that tells decides.
    """
    order = list(reversed(range(len(shape))))
    for at in range(1, len(order)):
        moved = at
        for below in reversed(range(at)):
            sign = _nearer(order[below], order[moved], shape, operands)
            if sign < 0:
                break
            if sign > 0:
                order[below], order[moved] = order[moved], order[below]
                moved = below
    strides = [1] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def _nearer(one: int, two: int, shape: tuple[int, ...], operands: Sequence[tuple[int, ...]]) -> int:
    """Whether a dimension lies nearer together than another: -1, or farther: 1."""
    for strides in operands:
        a, b = strides[one], strides[two]
        if not a or not b:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[one] > shape[two]:
            return 1
    return 0
