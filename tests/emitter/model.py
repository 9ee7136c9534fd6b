"""A model: a family's sizes and layers, plus what a test wants changed about its wiring.

    qwen3(layers=4).without_rope(layer=2).emit()

gives the pair that MPK would have written had the builder passed None for the rotary tables in
layer 2. A `Model` is a value: every modifier returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .cuda import CURRENT, Dialect
from .graph import BF16, FLOAT32, Program, TaskGraph, Tensor
from .pair import FileNames, Pair

__all__ = ["Model"]


@dataclass(frozen=True)
class Model:
    """Everything that decides the emitted text. Make one with a family function.

    `sizes` is the family's own record. The three sets name layers: those whose attention gets no
    rotary tables, no q and k norms, and those that add a stale residual.
    """

    build: Callable[[Program, Model], None]
    sizes: Any
    layers: int
    ranks: int = 1
    rope_names: tuple[str, str] = ("rope_cos", "rope_sin")
    weight_names: str = "layer_{layer}_{part}"
    dialect: Dialect = CURRENT
    no_rope: frozenset[int] = frozenset()
    no_qk_norm: frozenset[int] = frozenset()
    stale: frozenset[int] = frozenset()
    extra_hosts: tuple[str, ...] = ()
    extra_scratch: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    # -- what a test changes -----------------------------------------------------------------

    def without_rope(self, layer: int | Iterable[int] | None = None) -> Model:
        """The builder passed no rotary tables, in one layer, some or all; they stay attached."""
        return replace(self, no_rope=self.no_rope | self._layers(layer))

    def without_qk_norm(self, layer: int | None = None) -> Model:
        """The builder passed None for q_norm and k_norm, and did not attach them."""
        return replace(self, no_qk_norm=self.no_qk_norm | self._layers(layer))

    def stale_residual(self, layer: int = 1) -> Model:
        """The attention of `layer` adds the embedding where it should add the layer before."""
        if layer < 1:
            raise ValueError("the residual of layer 0 is the embedding; it cannot be stale")
        return replace(self, stale=self.stale | self._layers(layer))

    def with_extra_host(self, *names: str) -> Model:
        """Host tensors that are attached and passed to no operator."""
        return replace(self, extra_hosts=self.extra_hosts + names)

    def with_unused_scratch(self, *names: str) -> Model:
        """Scratch buffers that no operator uses."""
        return replace(self, extra_scratch=self.extra_scratch + names)

    def named(self, rope: tuple[str, str] | None = None, weights: str | None = None) -> Model:
        """Other names: the two tables; a pattern for weights, as "model.layers.{layer}.{part}"."""
        return replace(
            self,
            rope_names=rope or self.rope_names,
            weight_names=weights or self.weight_names,
        )

    def written(self, dialect: Dialect | None = None, **changes: Any) -> Model:
        """Another dialect of the `.cu`; keywords change single traits, as `tabs=True`."""
        return replace(self, dialect=replace(dialect or self.dialect, **changes))

    def sized(self, **sizes: int) -> Model:
        """The same model, with some sizes changed."""
        return replace(self, sizes=replace(self.sizes, **sizes))

    # -- what it gives -----------------------------------------------------------------------

    def emit(self, rank: int = 0) -> Pair:
        """The pair of one rank."""
        if not 0 <= rank < self.ranks:
            raise ValueError(f"there is no rank {rank} of {self.ranks}")
        program, graph = _laid_out(self, rank)
        return Pair.of(program, self.dialect, graph)

    def emit_all(self) -> list[Pair]:
        """The pairs of all ranks, in order."""
        return [self.emit(rank) for rank in range(self.ranks)]

    def write(
        self, folder: Path | str, names: FileNames = "kernel", ranks: Iterable[int] | None = None
    ) -> list[Path]:
        """Write the files of all ranks, or of those given, and return their paths.

        Plain names do not say the rank, so each of several ranks has a folder of its own.
        """
        paths: list[Path] = []
        for rank in range(self.ranks) if ranks is None else ranks:
            alone = names != "plain" or self.ranks == 1
            place = Path(folder) if alone else Path(folder, f"rank{rank}")
            paths += self.emit(rank).write(place, names)
        return paths

    # -- what families ask -------------------------------------------------------------------

    def weight(self, layer: int, part: str) -> str:
        """The name of a tensor that belongs to a layer."""
        return self.weight_names.format(layer=layer, part=part)

    def residual(self, layer: int, stream: Tensor, embedding: Tensor) -> Tensor:
        """What the attention of a layer adds: the stream so far, unless made stale."""
        return embedding if layer in self.stale else stream

    def _layers(self, layer: int | Iterable[int] | None) -> frozenset[int]:
        if layer is None:
            return frozenset(range(self.layers))
        layers = frozenset((layer,) if isinstance(layer, int) else layer)
        for one in layers:
            if not 0 <= one < self.layers:
                raise ValueError(f"there is no layer {one} of {self.layers}")
        return layers


@lru_cache(maxsize=32)
def _laid_out(model: Model, rank: int) -> tuple[Program, TaskGraph]:
    """What a pair is written from, and never changes: tests emit the same few models again."""
    program = Program(rank, model.ranks)
    model.build(program, model)
    for name in model.extra_hosts:
        program.host(name, 16, 16, dtype=BF16)
    for name in model.extra_scratch:
        program.scratch(name, 16, 16, dtype=FLOAT32)
    return program, TaskGraph.of(program, model.dialect.metadata)
