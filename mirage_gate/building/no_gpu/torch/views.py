"""Views: the same bytes, seen otherwise. Shapes, strides and addresses as torch gives them."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mirage_gate.building.no_gpu.torch import types
from mirage_gate.building.no_gpu.torch.types import (
    BOOL,
    Size,
    broadcast,
    contiguous,
    integer,
)
from mirage_gate.building.no_gpu.unknown import NotStoodIn


def flat(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Take ``f(1, 2)`` and ``f((1, 2))`` for the same."""
    if len(args) == 1 and isinstance(args[0], tuple | list):
        return tuple(args[0])
    return args


def _resolved(old: tuple[int, ...], wanted: Sequence[Any]) -> tuple[int, ...]:
    """The shape that is meant, where one extent may be left to be worked out."""
    count = math.prod(old)
    shape = [integer(extent, "the shape of a view") for extent in wanted]
    if -1 in shape:
        rest = math.prod(extent for extent in shape if extent != -1)
        if not rest or count % rest:
            raise RuntimeError(f"{old} is no view as {tuple(shape)}")
        shape[shape.index(-1)] = count // rest
    if math.prod(shape) != count:
        raise RuntimeError(f"{old} has not as many elements as {tuple(shape)}")
    return tuple(shape)


class Views(ABC):
    """What a tensor can be seen as without a copy."""

    shape: Size
    dtype: types.dtype
    known: Any
    _strides: tuple[int, ...]
    _address: int

    @abstractmethod
    def _laid(
        self, shape: Iterable[int], dtype: types.dtype, strides: Iterable[int], address: int
    ) -> Any:
        """Give the same bytes, laid out otherwise."""

    @abstractmethod
    def like(self, shape: Iterable[int] | None = None) -> Any:
        """A new tensor on the same device."""

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return self.shape.numel()

    def is_contiguous(self, **_options: Any) -> bool:
        ours = [(n, s) for n, s in zip(self.shape, self._strides, strict=True) if n != 1]
        shape = tuple(n for n, _ in ours)
        return not self.numel() or tuple(s for _, s in ours) == contiguous(shape)

    def _view(self, shape: Iterable[int], strides: Iterable[int], offset: int = 0) -> Any:
        address = self._address + offset * self.dtype.itemsize
        return self._laid(shape, self.dtype, strides, address)

    def view(self, *shape: Any) -> Any:
        if len(shape) == 1 and isinstance(shape[0], types.dtype):
            return self._as_type(shape[0])
        wanted = _resolved(self.shape, flat(shape))
        strides = self._strides_as(wanted)
        if strides is None:
            raise RuntimeError(f"{self.shape} with strides {self._strides} is no view as {wanted}")
        return self._view(wanted, strides)

    def _as_type(self, kind: types.dtype) -> Any:
        """The same bytes as another type: the last extent grows or shrinks."""
        before, after = self.dtype.itemsize, kind.itemsize
        shape, strides = list(self.shape), list(self._strides)
        if before != after:
            if not shape or strides[-1] != 1 or shape[-1] * before % after:
                raise RuntimeError(f"{self} is no view as {kind}")
            shape[-1] = shape[-1] * before // after
            strides = [*(stride * before // after for stride in strides[:-1]), 1]
        return self._laid(shape, kind, strides, self._address)

    def _strides_as(self, wanted: tuple[int, ...]) -> tuple[int, ...] | None:
        """The strides of a view of another shape, or None where only a copy can have it."""
        if self.is_contiguous():
            return contiguous(wanted)
        # Runs of dimensions that lie in one piece are cut anew, each for itself.
        strides: list[int] = []
        left = [*reversed(wanted)]
        old = [(n, s) for n, s in zip(self.shape, self._strides, strict=True) if n != 1]
        while old:
            extent, base = old.pop()
            while old and old[-1][1] == base * extent:
                extent *= old.pop()[0]
            taken = 1
            while left and taken < extent:
                taken *= left[0]
                strides.append(base)
                base *= left.pop(0)
            if taken != extent:
                return None
        strides += [1] * len(left)
        return tuple(reversed(strides))

    def view_as(self, other: Any) -> Any:
        return self.view(*other.shape)

    def reshape(self, *shape: Any) -> Any:
        wanted = _resolved(self.shape, flat(shape))
        strides = self._strides_as(wanted)
        return self.like(wanted) if strides is None else self._view(wanted, strides)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        first, last = self._dim(start_dim), self._dim(end_dim)
        middle = math.prod(self.shape[first : last + 1])
        return self.reshape(*self.shape[:first], middle, *self.shape[last + 1 :])

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Any:
        at = self._dim(dim)
        piece = _resolved(self.shape[at : at + 1], sizes)
        return self.reshape(*self.shape[:at], *piece, *self.shape[at + 1 :])

    def _dim(self, dim: Any, more: int = 0) -> int:
        rank = max(self.dim() + more, 1)
        at = integer(dim, "a dimension")
        if not -rank <= at < rank:
            raise IndexError(f"there is no dimension {at} in {self.shape}")
        return at % rank

    def permute(self, *dims: Any) -> Any:
        order = [self._dim(dim) for dim in flat(dims)]
        if sorted(order) != list(range(self.dim())):
            raise RuntimeError(f"{flat(dims)} is no order of the dimensions of {self.shape}")
        return self._view([self.shape[d] for d in order], [self._strides[d] for d in order])

    def transpose(self, first: int, second: int) -> Any:
        order = list(range(self.dim()))
        a, b = self._dim(first), self._dim(second)
        order[a], order[b] = order[b], order[a]
        return self.permute(*order) if order else self

    swapaxes = transpose

    def t(self) -> Any:
        return self if self.dim() < 2 else self.transpose(0, 1)

    def unsqueeze(self, dim: int) -> Any:
        at = self._dim(dim, 1)
        step = self.shape[at] * self._strides[at] if at < self.dim() else 1
        return self._view(
            (*self.shape[:at], 1, *self.shape[at:]),
            (*self._strides[:at], step, *self._strides[at:]),
        )

    def squeeze(self, dim: Any = None) -> Any:
        gone = set(range(self.dim()))
        if dim is not None:
            gone = {self._dim(d) for d in (dim if isinstance(dim, tuple | list) else (dim,))}
        kept = [d for d in range(self.dim()) if not (d in gone and self.shape[d] == 1)]
        return self._view([self.shape[d] for d in kept], [self._strides[d] for d in kept])

    def expand(self, *sizes: Any) -> Any:
        wanted = [integer(size, "the shape of an expanded tensor") for size in flat(sizes)]
        new = len(wanted) - self.dim()
        if new < 0:
            raise RuntimeError(f"{self.shape} does not expand to {tuple(wanted)}")
        shape, strides = [], []
        for size, extent, step in zip(
            wanted, (1,) * new + self.shape, (0,) * new + self._strides, strict=True
        ):
            if size not in (-1, extent) and extent != 1:
                raise RuntimeError(f"{self.shape} does not expand to {tuple(wanted)}")
            shape.append(extent if size == -1 else size)
            strides.append(step if size in (-1, extent) else 0)
        return self._view(shape, strides)

    def expand_as(self, other: Any) -> Any:
        return self.expand(*other.shape)

    def as_strided(self, size: Any, stride: Any, storage_offset: int = 0) -> Any:
        if storage_offset:
            raise NotStoodIn("torch.as_strided with an offset")
        return self._view(size, stride)

    def narrow(self, dim: int, start: Any, length: int) -> Any:
        at, first = self._dim(dim), integer(start, "the start of a slice")
        first = first % self.shape[at] if first < 0 else first
        if first + length > self.shape[at]:
            raise RuntimeError(f"{first} + {length} runs past dimension {dim} of {self.shape}")
        shape = (*self.shape[:at], length, *self.shape[at + 1 :])
        return self._view(shape, self._strides, first * self._strides[at])

    def select(self, dim: int, index: Any) -> Any:
        at, which = self._dim(dim), integer(index, "an index")
        if not -self.shape[at] <= which < self.shape[at]:
            raise IndexError(f"index {which} is out of dimension {dim} of {self.shape}")
        offset = which % self.shape[at] * self._strides[at]
        return self._view(
            self.shape[:at] + self.shape[at + 1 :],
            self._strides[:at] + self._strides[at + 1 :],
            offset,
        )

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        return tuple(self.select(dim, index) for index in range(self.shape[self._dim(dim)]))

    def split(self, size: Any, dim: int = 0) -> tuple[Any, ...]:
        extent = self.shape[self._dim(dim)]
        if not isinstance(size, tuple | list):
            size = [min(size, extent - start) for start in range(0, extent, size)] or [0]
        if sum(size) != extent:
            raise RuntimeError(f"{size} do not add up to dimension {dim} of {self.shape}")
        starts = itertools.accumulate(size, initial=0)
        return tuple(self.narrow(dim, start, length) for start, length in zip(starts, size))  # noqa: B905

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Any, ...]:
        extent = self.shape[self._dim(dim)]
        return self.split(max(-(-extent // chunks), 1), dim)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor of no dimension")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(one is Ellipsis for one in keys):
            at = next(i for i, one in enumerate(keys) if one is Ellipsis)
            named = sum(one is not None and one is not Ellipsis for one in keys)
            keys[at : at + 1] = [slice(None)] * (self.dim() - named)
        found, dim, picked = self, 0, []
        for one in keys:
            if one is None:
                found = found.unsqueeze(dim)
                dim += 1
            elif isinstance(one, slice):
                found = found._sliced(dim, one)
                dim += 1
            elif (isinstance(one, Views) and one.known is None) or isinstance(one, list):
                picked.append((dim, one))
                dim += 1
            else:
                found = found.select(dim, one)
        return found._picked(picked) if picked else found

    def _sliced(self, dim: int, part: slice) -> Any:
        at = self._dim(dim)
        start, stop, step = slice(
            *(
                None if x is None else integer(x, "a slice")
                for x in (part.start, part.stop, part.step)
            )
        ).indices(self.shape[at])
        length = len(range(start, stop, step))
        strides = [s * step if d == at else s for d, s in enumerate(self._strides)]
        shape = (*self.shape[:at], length, *self.shape[at + 1 :])
        return self._view(shape, strides, start * self._strides[at] if length else 0)

    def _picked(self, picked: list[tuple[int, Any]]) -> Any:
        """Index by tensors or lists: a copy, of their shape in their dimensions' place."""
        shapes = [i.shape if isinstance(i, Views) else (len(i),) for _, i in picked]
        if any(isinstance(i, Views) and i.dtype is BOOL for _, i in picked):
            raise NotStoodIn("indexing by a mask, which picks as many as it holds,")
        dims = [dim for dim, _ in picked]
        shape = broadcast(*shapes)
        together = dims == list(range(dims[0], dims[0] + len(dims)))
        rest = [extent for dim, extent in enumerate(self.shape) if dim not in dims]
        at = dims[0] if together else 0
        return self.like((*rest[:at], *shape, *rest[at:]))

    def __setitem__(self, key: Any, value: Any) -> None:
        place = self[key]
        if isinstance(value, Views) and broadcast(place.shape, value.shape) != place.shape:
            raise RuntimeError(f"{value.shape} does not fit into {place.shape}")
