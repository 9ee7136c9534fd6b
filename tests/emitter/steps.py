"""Models with steps of their own, with layers in another order, or two in one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .graph import AnySlot, Fused, Op, Program, Slot, Tensor
from .model import Model

__all__ = ["reordered", "shared", "together", "with_step", "without_block"]

Step = Callable[[Program, int, Tensor], None]


def with_step(model: Model, step: Step, layers: Sequence[int], behind: str = "down_proj") -> Model:
    """Run `step(program, layer, result)` behind one operator of some layers.

    `behind` is the part that the operator reads, `result` what it fills.
    """
    build = model.build
    weights = {model.weight(layer, behind): layer for layer in layers}

    def stepped(p: Program, m: Model) -> None:
        run = p.run

        def watched(
            name: str, grid: Any, inputs: Sequence[AnySlot], outputs: Any = (), **rest: Any
        ) -> None:
            run(name, grid, inputs, outputs, **rest)
            names = [tensor.name for slot in inputs for tensor in slot.tensors]
            layer = next((weights[name] for name in names if name in weights), None)
            if layer is not None:
                p.run = run  # type: ignore[method-assign]
                step(p, layer, outputs[0].tensor)
                p.run = watched  # type: ignore[method-assign]

        p.run = watched  # type: ignore[method-assign]
        build(p, m)
        p.run = run  # type: ignore[method-assign]

    return replace(model, build=stepped)


def shared(p: Program, name: str, *shape: int) -> Tensor:
    """A buffer that all layers use, declared where the first one does."""
    return p.tensors.get(name) or p.scratch(name, *shape)


def reordered(model: Model, order: Sequence[int]) -> Model:
    """Run the layers, each whole, in another order; one may come twice or not at all.

    What a layer's first operators read of the layer before stays in the same buffer: all layers
    of the families fill one.
    """
    build = model.build

    def mixed(p: Program, m: Model) -> None:
        build(p, m)
        begins = [_opening(op, m) for op in p.ops]
        at = [i for i, layer in enumerate(begins) if layer >= 0]
        end = next(i for i, op in enumerate(p.ops) if _reads(op, "model_norm_weight"))
        blocks = [p.ops[a:b] for a, b in zip(at, [*at[1:], end], strict=True)]
        p.ops[at[0] : end] = [op for layer in order for op in blocks[layer]]

    return replace(model, build=mixed)


def without_block(model: Model, layers: Sequence[int], norm: str) -> Model:
    """Build some layers without the block that begins with a norm, and attach nothing for it.

    `norm` is the part that it reads. What the block would have read is passed on, as a searched
    architecture does.
    """
    build = model.build

    def cut(p: Program, m: Model) -> None:
        build(p, m)
        for layer in dict.fromkeys(layers):
            _cut_block(p, m.weight(layer, norm), _norms(m))

    return replace(model, build=cut)


def _norms(m: Model) -> list[str]:
    parts = ("input_layernorm", "post_attn_layernorm")
    return [m.weight(n, part) for n in range(m.layers) for part in parts] + ["model_norm_weight"]


def _cut_block(p: Program, norm: str, norms: Sequence[str]) -> None:
    begin = next(i for i, op in enumerate(p.ops) if _reads(op, norm))
    end = next(
        i for i in range(begin + 1, len(p.ops)) if any(_reads(p.ops[i], other) for other in norms)
    )
    block, rest = p.ops[begin:end], p.ops[end:]
    stream, result = block[0].inputs[0].tensor, block[-1].outputs[0].tensor

    def passed_on(slot: AnySlot) -> AnySlot:
        mine = isinstance(slot, Slot) and slot.tensor is result
        return replace(slot, tensor=stream) if mine else slot  # type: ignore[arg-type]

    for at, op in enumerate(rest):
        rest[at] = replace(op, inputs=tuple(map(passed_on, op.inputs)))
        if any(slot.tensor is result for slot in op.outputs):
            break
    p.ops[begin:] = rest
    used = {tensor.name for op in p.ops for slot in op.slots for tensor in slot.tensors}
    gone = {tensor.name for op in block for slot in op.slots for tensor in slot.tensors} - used
    for name in gone:
        if p.tensors[name].storage in ("host", "shuffled"):
            del p.tensors[name]


def together(*models: Model, share: Sequence[str] = ()) -> Model:
    """Run models one after the other in one graph, as a draft model and its target.

    Every model but the last is called by its weights: a draft's buffers, tables and head are
    ``draft_…`` where its weights are ``draft_layer_{layer}_{part}``. What is in `share` it has
    in common with the last one.
    """
    *_, last = models

    def build(p: Program, m: Model) -> None:
        for model in models:
            alone = Program(p.rank, p.ranks)
            model.build(alone, model)
            prefix = "" if model is last else model.weight_names.partition("layer")[0]
            _append(p, alone, prefix, share)

    return replace(last, build=build)


def _append(p: Program, other: Program, prefix: str, share: Sequence[str]) -> None:
    """Lay out another program's operators as well, its tensors called by a prefix."""

    def renamed(tensor: Tensor) -> Tensor:
        name = tensor.name
        own = not name.startswith(prefix) and name not in share
        tensor = replace(tensor, name=f"{prefix}{name}") if own else tensor
        return p.tensors.setdefault(tensor.name, tensor)

    def slot(of: AnySlot) -> AnySlot:
        if isinstance(of, Fused):
            return replace(of, parts=tuple((renamed(tensor), n) for tensor, n in of.parts))
        return of if of.tensor is None else replace(of, tensor=renamed(of.tensor))

    for tensor in other.tensors.values():
        renamed(tensor)
    for op in other.ops:
        inputs, outputs = [slot(of) for of in op.inputs], [slot(of) for of in op.outputs]
        rest: dict[str, Any] = {"metadata": op.metadata, "fanout": op.fanout}
        p.run(op.kind.name, op.grid, inputs, outputs, body=op.body, **rest)


def _reads(op: Op, name: str) -> bool:
    return any(tensor.name == name for slot in op.inputs for tensor in slot.tensors)


def _opening(op: Op, m: Model) -> int:
    """The layer that an operator is the first of; -1 for none."""
    layers = range(m.layers)
    return next((n for n in layers if _reads(op, m.weight(n, "input_layernorm"))), -1)
