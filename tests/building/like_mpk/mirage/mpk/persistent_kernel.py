"""The layers that a builder calls, a few of MPK's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.emitter.graph import BF16

from ..core import CyTBGraph, DTensor
from ..kernel import KNGraph, TBGraph

Axes = tuple[int, int, int]
ALL: Axes = (-1, -1, -1)


class PersistentKernel:
    def __init__(self, world_size: int = 1, mpi_rank: int = 0) -> None:
        self.kn_graph = KNGraph(mpi_rank, world_size)
        self.world_size, self.rank = world_size, mpi_rank
        self._attached: list[DTensor] = []

    def attach_input(self, dims: tuple[int, ...], name: str, dtype: int = BF16) -> DTensor:
        t = self.kn_graph.new_input(dims=dims, dtype=dtype)
        self.kn_graph.attach_torch_tensor(t, None, name)
        self.kn_graph.attach_torch_tensor(t, None, name.replace(".", "_"))
        self._attached.append(t)
        return t

    def new_tensor(
        self, dims: tuple[int, ...], name: str, dtype: int = BF16, symmetric: bool = False
    ) -> DTensor:
        t = self.kn_graph.new_input(dims=dims, dtype=dtype)
        if symmetric:
            self.kn_graph.attach_nvshmem_tensor(t, name)
        else:
            self.kn_graph.attach_cuda_tensor(t, name)
        return t

    def shuffle_tensors(self, inputs: list[DTensor], num_groups: int, name: str) -> DTensor:
        return self.kn_graph.shuffle_tensors(inputs, 0, num_groups, name)

    def _operator(
        self,
        task: str,
        grid_dim: tuple[int, ...],
        slots: list[tuple[DTensor | None, Axes]],
        outputs: int = 1,
    ) -> None:
        tb_graph = TBGraph(CyTBGraph(grid_dim, (128, 1, 1), 1, 64))
        for tensor, axes in slots:
            tb_graph.new_input(tensor, axes, -1, True)
        self.kn_graph.customized([tensor for tensor, _ in slots], tb_graph)
        self.kn_graph.register_task(tb_graph, task, [outputs])

    def embed_layer(self, input: DTensor, weight: DTensor, output: DTensor) -> None:
        self._operator("EMBEDDING", (1, 1, 1), [(input, ALL), (weight, ALL), (output, ALL)])

    def rmsnorm_layer(self, input: DTensor, weight: DTensor, output: DTensor) -> None:
        row: Axes = (0, -1, -1)
        slots: list[Any] = [(input, row), (weight, ALL), (output, row)]
        self._operator("RMS_NORM_HOPPER", (input.dim(0), 1, 1), slots)

    def linear_layer(self, input: DTensor, weight: DTensor, output: DTensor, tiles: int) -> None:
        slots: list[Any] = [(input, ALL), (weight, (0, -1, -1)), (output, (1, -1, -1))]
        self._operator("LINEAR_SWAPAB_HOPPER", (tiles, 1, 1), slots)

    def linear_with_residual_layer(
        self, input: DTensor, weight: DTensor, residual: DTensor, output: DTensor, tiles: int
    ) -> None:
        column: Axes = (1, -1, -1)
        slots: list[Any] = [
            (input, ALL),
            (weight, (0, -1, -1)),
            (residual, column),
            (output, column),
        ]
        task = "LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER" + "-residual" * (self.rank > 0)
        self._operator(task, (tiles, 1, 1), slots)

    def allreduce_layer(self, input: DTensor, output: DTensor, tiles: int) -> None:
        slots: list[Any] = [(input, (1, -1, -1)), (output, (1, -1, -1))]
        self._operator("NVSHMEM_TILE_ALLREDUCE", (tiles, 1, 1), slots)

    def paged_attention_layer(
        self,
        input: DTensor,
        k_cache: DTensor,
        v_cache: DTensor,
        q_norm: DTensor | None,
        k_norm: DTensor | None,
        cos_pos_embed: DTensor | None,
        sin_pos_embed: DTensor | None,
        output: DTensor,
    ) -> None:
        slots: list[Any] = [(input, (-1, 1, -1)), (k_cache, (-1, 2, -1)), (v_cache, (-1, 2, -1))]
        slots += [(t, ALL) for t in (q_norm, k_norm, cos_pos_embed, sin_pos_embed)]
        self._operator(
            "PAGED_ATTENTION_HOPPER", (1, k_cache.dim(2), 1), [*slots, (output, (-1, 1, -1))]
        )

    def silu_mul_layer(self, input: DTensor, output: DTensor, tiles: int) -> None:
        slots: list[Any] = [(input, (1, -1, -1)), (output, (1, -1, -1))]
        self._operator("SILU_MUL", (tiles, 1, 1), slots)

    def argmax_layer(
        self, input: DTensor, value: DTensor, index: DTensor, output: DTensor, tiles: int
    ) -> None:
        column: Axes = (1, -1, -1)
        slots: list[Any] = [(input, column), (value, column), (index, column)]
        self._operator("ARGMAX_PARTIAL_SM100", (tiles, 1, 1), slots, outputs=2)
        self._operator("ARGMAX_REDUCE", (1, 1, 1), [(value, ALL), (index, ALL), (output, ALL)])

    def compile(self, compiled: str = "") -> None:
        """Emit the graph, and do what stands for nvcc."""
        self.kn_graph.declare(self._attached)
        self.kn_graph.generate_task_graph(num_gpus=self.world_size, my_gpu_id=self.rank)
        if compiled:
            with Path(compiled).open("a") as file:
                file.write(f"compiled rank {self.rank}, process {os.getpid()}\n")
