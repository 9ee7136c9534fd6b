"""Operators that every family has, and the meanings of a task's metadata union."""

from __future__ import annotations

from .graph import AnySlot, Program, Slot, Tensor
from .tasks import KINDS

__all__ = [
    "argmax",
    "expert_group",
    "linear",
    "optional",
    "rms_norm",
    "split",
    "without_residual",
]

NONE = Slot(None)


def expert_group(x: int, y: int, z: int) -> tuple[int, int, int]:
    """The union of MoE and tile all-reduce tasks: a 32-bit x, the upper half zero."""
    return x, 0, -1


def split(x: int, y: int, z: int) -> tuple[int, int, int]:
    """The union of split-KV attention: request, KV chunk, head group."""
    return x, z, y


def rms_norm(p: Program, kind: str, x: Tensor, weight: Tensor, out: Tensor) -> None:
    """One task per row."""
    p.run(kind, (x.shape[0],), [x.cut(x=0), weight.whole], [out.cut(x=0)])


def linear(p: Program, kind: str, tiles: int, x: Tensor, weight: AnySlot, out: Tensor) -> None:
    """One task per tile of output columns, which is a tile of weight rows."""
    p.run(kind, (tiles,), [x.whole, weight], [out.cut(x=1)])


def without_residual(kind: str, slot: int) -> str:
    """The body of a linear operator whose residual was compiled out."""
    gone = {f"ti{slot}", f"i{slot}", "r.my_gpu_id"}
    return " ".join(word for word in KINDS[kind].body.split() if word not in gone)


def optional(tensors: tuple[Tensor, ...]) -> list[AnySlot]:
    """A pair of optional inputs: two tensors, or two Nones."""
    return [tensor.whole for tensor in tensors] or [NONE, NONE]


def argmax(
    p: Program, partial: str, reduce: str, tiles: int, logits: Tensor, token: Tensor
) -> None:
    """Per-tile maxima, then one task over them; the two scratch tensors are there already."""
    value, index = p.tensors["argmax_part_value"], p.tensors["argmax_part_index"]
    p.run(partial, (tiles,), [logits.cut(x=1)], [value.cut(x=1), index.cut(x=1)])
    p.run(reduce, (1,), [value.whole, index.whole], [token.whole])
