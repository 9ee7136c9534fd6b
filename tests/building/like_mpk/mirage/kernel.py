"""The graph that operators are put into."""

from __future__ import annotations

from typing import Any

from tests.emitter.cuda import CURRENT
from tests.emitter.graph import Program, Slot
from tests.emitter.operators import NONE, expert_group, without_residual
from tests.emitter.pair import Pair

from .core import CyTBGraph, DTensor

__all__ = ["CyTBGraph", "DTensor", "KNGraph", "TBGraph"]


class TBGraph:
    def __init__(self, cygraph: CyTBGraph) -> None:
        self.cygraph = cygraph
        self.slots: list[tuple[DTensor | None, tuple[int, int, int]]] = []

    def new_input(
        self, tensor: DTensor | None, input_map: tuple[int, int, int], dim: int, store: bool
    ) -> None:
        self.slots.append((tensor, input_map))


class KNGraph:
    def __init__(self, rank: int = 0, ranks: int = 1) -> None:
        self.program = Program(rank, ranks)

    def new_input(self, dims: tuple[int, ...], dtype: int) -> DTensor:
        return DTensor(dims, dtype)

    def attach_torch_tensor(self, t: DTensor, torch_tensor: object, name: str) -> None:
        t.kind, t.name = "host", name

    def attach_cuda_tensor(self, t: DTensor, name: str) -> None:
        t.made = self.program.scratch(name, *t.dims, dtype=t.dtype)

    def attach_nvshmem_tensor(self, t: DTensor, name: str) -> None:
        t.made = self.program.symmetric(name, *t.dims)

    def shuffle_tensors(
        self, input: list[DTensor], shuffled_dim: int, num_groups: int, name: str
    ) -> DTensor:
        parts = [(part.name, part.dims[0]) for part in input]
        for part in input:
            part.kind = "part"
        whole = DTensor((sum(rows for _, rows in parts), *input[0].dims[1:]), input[0].dtype)
        whole.made = self.program.shuffled(name, num_groups, parts, whole.dims[1])
        return whole

    def customized(self, inputs: list[DTensor | None], bgraph: TBGraph) -> list[DTensor]:
        return []

    def register_task(
        self, bgraph: TBGraph, task_type: str, params: list[int] | None = None
    ) -> None:
        outputs = (params or [1])[0]
        slots = [self._slot(*slot) for slot in bgraph.slots]
        kind, _, without = task_type.partition("-")
        options: dict[str, Any] = {}
        if without:
            options["body"] = without_residual(kind, 2)
        if kind == "NVSHMEM_TILE_ALLREDUCE":
            options["metadata"] = expert_group
        self.program.run(kind, bgraph.cygraph.told(), slots[:-outputs], slots[-outputs:], **options)

    def _slot(self, tensor: DTensor | None, axes: tuple[int, int, int]) -> Slot:
        if tensor is None:
            return NONE
        if tensor.made is None:
            tensor.made = self.program.host(tensor.name, *tensor.dims, dtype=tensor.dtype)
        return Slot(tensor.made, axes)  # type: ignore[arg-type]

    def declare(self, tensors: list[DTensor]) -> None:
        for tensor in tensors:
            if tensor.kind == "host":
                self._slot(tensor, (-1, -1, -1))

    def generate_task_graph(self, num_gpus: int, my_gpu_id: int) -> dict[str, str]:
        pair = Pair.of(self.program, CURRENT)
        return {"cuda_code": pair.cuda_text(), "json_file": pair.json_text()}
