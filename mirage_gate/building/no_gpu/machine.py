"""The machine that a builder is told it runs on: its GPUs, and which rank of how many it is."""

from __future__ import annotations

import msgspec


class Gpu(msgspec.Struct, frozen=True):
    """A GPU as builders ask for it: compute capability, processors, what its switch can."""

    name: str
    major: int
    minor: int
    processors: int
    gigabytes: int
    shared_memory: int
    multicast: bool

    @property
    def capability(self) -> int:
        """As MPK writes it: 80, 90, 100."""
        return 10 * self.major + self.minor


GPUS = {
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 8, 0, 108, 80, 163 << 10, multicast=False),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 9, 0, 132, 80, 227 << 10, multicast=True),
    "b200": Gpu("NVIDIA B200", 10, 0, 148, 180, 227 << 10, multicast=True),
}


class Machine(msgspec.Struct, frozen=True):
    """One process of a job. ``config`` is the model's config.json, whole; None if not given."""

    gpu: Gpu
    rank: int = 0
    world_size: int = 1
    multicast: bool = True
    config: dict[str, object] | None = None
