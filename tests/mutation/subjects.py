"""What is mutated: a model of each family that the emitter knows, and the real artifacts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.emitter import OLD, Model, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe

from .subject import Subject

__all__ = ["MODELS", "emitted", "names", "real"]

MODELS: dict[str, Callable[[], Model]] = {
    "qwen3": lambda: qwen3(5),
    "qwen3-ampere": lambda: qwen3(4, arch="ampere"),
    "qwen3-blackwell": lambda: qwen3(4, arch="blackwell"),
    "qwen3-split-kv": lambda: qwen3(4, split_kv=True),
    "qwen3-tp2": lambda: qwen3(4, ranks=2, collective="tile"),
    "qwen3-tp4": lambda: qwen3(4, ranks=4, collective="allgather"),
    "qwen3-fused": lambda: qwen3_ampere(5, shuffled=(1, 2)),
    "qwen3-moe": lambda: qwen3_moe(5),
    "qwen3-old": lambda: qwen3(4).written(OLD),
    "deepseek": lambda: deepseek_v3(7),
    "deepseek-tp8": lambda: deepseek_v3(6, dense_layers=2, ranks=8),
}

# Those of the real artifacts that are clean, the known defects of three of them aside.
REAL = (
    "qwen3_0.6b_4l_hopper",
    "qwen3_8b_4l_hopper_splitkv",
    "qwen3_8b_2l_ampere_tp4_allgather",
    "qwen3_30b_a3b_6l_blackwell",
    "qwen3_1.7b_6l_hopper_tp2_tile",
    "fused_shuffled_none_3l_ampere",
    "pre665_dsv3_4l_blackwell_tp1",
    "pre665_dsv3_7l_blackwell_tp8",
    "pre665_dsv3_5l_blackwell_tp8_mtp2",
)


@cache
def emitted(name: str, rank: int = 0) -> Subject:
    return Subject.of(name, MODELS[name]().emit(rank))


@cache
def real(name: str, rank: int = 0) -> Subject:
    folder = Path(os.environ["MIRAGE_GATE_ARTIFACTS"], name)
    cuda = (folder / f"kernel_{rank}.cu").read_text()
    return Subject.read(name, rank, cuda, (folder / f"task_graph_{rank}.json").read_text())


@cache
def subject(name: str, rank: int = 0) -> Subject:
    return emitted(name, rank) if name in MODELS else real(name, rank)


def ranks_of(name: str) -> int:
    """How many ranks' files there are."""
    if name in MODELS:
        return MODELS[name]().ranks
    folder = Path(os.environ["MIRAGE_GATE_ARTIFACTS"], name)
    return len(list(folder.glob("kernel_*.cu")))


def names() -> Iterator[str]:
    """Every subject that there is here."""
    yield from MODELS
    folder = os.environ.get("MIRAGE_GATE_ARTIFACTS", "none")
    if folder != "none":
        yield from (name for name in REAL if Path(folder, name).is_dir())
