"""Where MPK has its compiled classes, which take no attributes."""

from __future__ import annotations


class DTensor:
    __slots__ = ("dims", "dtype", "kind", "made", "name", "parts")

    def __init__(self, dims: tuple[int, ...], dtype: int) -> None:
        self.dims, self.dtype = dims, dtype
        self.kind, self.name = "", ""
        self.parts: list[DTensor] = []
        self.made: object = None

    def dim(self, at: int) -> int:
        return self.dims[at]


class CyTBGraph:
    """The grid is given at the beginning, and cannot be asked for."""

    __slots__ = ("_grid",)
    _grid: tuple[int, ...]

    def __new__(
        cls,
        grid_dim: tuple[int, ...],
        block_dim: tuple[int, ...],
        forloop_range: int,
        dimx: int,
    ) -> CyTBGraph:
        graph = object.__new__(cls)
        graph._grid = grid_dim
        return graph

    def told(self) -> tuple[int, ...]:
        return self._grid
