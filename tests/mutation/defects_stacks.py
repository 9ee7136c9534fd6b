"""Two models in one graph: what is wrong in one is seen, whatever the other one is like."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.emitter import Model, qwen3, together

from .draft import Mutant
from .registry import defect, mixed
from .subject import Subject

_SHARED = (
    "input_token",
    "embed_tokens",
    "cos_position_embedding",
    "sin_position_embedding",
    "lm_head",
)
_BUFFERS = ("embed_out", "rmsnorm_out", "attn_in", "attn_out", "attn_proj_out", "mlp_out")
SHARES = ((), _SHARED, (*_SHARED, *_BUFFERS))
_PARTS = ("input_layernorm", "k_cache", "v_cache", "q_norm", "o_proj", "down_proj")


def drafted(
    draft: Model, target: Model, share: tuple[str, ...] = (), prefix: str = "draft_"
) -> Model:
    """A small model that runs before another one."""
    return together(draft.named(weights=f"{prefix}layer_{{layer}}_{{part}}"), target, share=share)


@defect("MG703")
def weights_of_two_models_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A layer of each of two models computes with a weight of the other one."""
    if subject.name != "qwen3":
        return
    for part in mixed(rng, _PARTS):
        for layers, share in mixed(rng, [(n, share) for n in (1, 2, 4) for share in SHARES]):
            pair = drafted(qwen3(layers), qwen3(8), share).emit()
            one = f"draft_layer_{rng.randrange(layers)}_{part}"
            other = f"layer_{rng.randrange(8)}_{part}"
            swap = {one: other, other: one}
            for task in pair.graph["all_tasks"]:
                for tensor in [*(task["inputs"] or []), *(task["outputs"] or [])]:
                    tensor["base_ptr"] = swap.get(tensor["base_ptr"], tensor["base_ptr"])
            yield Mutant.of(pair, f"{one} and {other}, {layers} layers drafted, shared: {share}")


@defect("MG701", "MG702")
def one_of_two_models_is_miswired(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One layer of the one or the other has no positions, or adds the embedding."""
    if subject.name != "qwen3":
        return
    for layers, share in mixed(rng, [(n, share) for n in (4, 7) for share in SHARES]):
        layer = rng.randrange(1, layers)
        sound, wrong = qwen3(layers), (qwen3(layers).without_rope, qwen3(layers).stale_residual)
        for change in wrong:
            pair = drafted(change(layer), sound, share).emit()
            yield Mutant.of(pair, f"layer {layer} of the draft, {change.__name__}, shared: {share}")
            pair = drafted(sound, change(layer), share).emit()
            yield Mutant.of(
                pair, f"layer {layer} of the target, {change.__name__}, shared: {share}"
            )
