"""Which layers have a mixture of experts, and how many experts there are."""

from __future__ import annotations

from mirage_gate.artifacts.model import families
from mirage_gate.artifacts.model.document import Document, Keys
from mirage_gate.artifacts.model.promise import NOTHING, SOMEWHERE, Promise, exactly, where

EXPERTS = (
    *("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
    *("num_moe_experts", "moe_num_primary_experts"),
)


def experts(keys: Keys) -> int | None:
    """Give how many experts a layer chooses from; None if there are none."""
    number = keys.number(*EXPERTS) or keys.inner("ffn_config").number("moe_num_experts")
    return number if number and number > 1 else None


def mixture(document: Document) -> Promise:
    """Read the keys that say which layers mix."""
    keys, every = document.keys, range(document.layers)
    kind = keys.text("model_type")
    if not experts(keys):
        # A key that this reader does not know may name experts too.
        return exactly((), every) if kind in families.LLAMA and not _mixes(kind) else NOTHING
    if types := keys.words("mlp_layer_types"):
        return where(lambda i: _sparse(types[i]) if i < len(types) else None, every)
    if flags := keys.numbers("moe_layer_freq"):
        return where(lambda i: bool(flags[i]) if i < len(flags) else None, every)
    if (listed := keys.numbers("moe_layers")) is not None:
        return exactly(set(listed) & set(every), every)
    if text := keys.text("moe_layers_enum"):
        words = [word.strip() for word in text.split(",")]
        return exactly({int(w) for w in words if w.isdecimal() and len(w) < 7} & set(every), every)
    if pattern := keys.text("hybrid_override_pattern"):
        return where(lambda i: pattern[i] == "E" if i < len(pattern) else None, every)
    if kind in families.EVERY_LAYER_MIXES:
        return exactly(every, every)
    rule = _by_rule(keys, kind, document.layers)
    return SOMEWHERE if rule is None else exactly(rule, every)


def _mixes(kind: str) -> bool:
    lists = (
        families.EVERY_LAYER_MIXES,
        families.SPARSE_BY_STEP,
        families.DENSE_FIRST,
        families.INTERLEAVED,
    )
    return any(kind in types for types in lists) or "moe" in kind


def _by_rule(keys: Keys, kind: str, layers: int) -> frozenset[int] | None:
    """Give the layers by the rule of the model's type, or of the keys it has; None if unknown."""
    every = frozenset(range(layers))
    if kind in families.INTERLEAVED or keys.has("interleave_moe_layer_step"):
        step = keys.counted("interleave_moe_layer_step")
        step = 1 if step is None else step
        return frozenset(range(step - 1, layers, step)) if step else frozenset()
    if kind in families.DENSE_FIRST or keys.has("first_k_dense_replace"):
        dense = keys.counted("first_k_dense_replace") or 0
        freq = keys.number("moe_layer_freq") or 1
        return frozenset(i for i in every if i >= dense and i % freq == 0)
    if kind in families.SPARSE_BY_STEP or keys.has("decoder_sparse_step"):
        step = keys.number("decoder_sparse_step") or 1
        without = set(keys.numbers("mlp_only_layers") or ())
        return frozenset(i for i in every if (i + 1) % step == 0 and i not in without)
    if keys.has("expert_layer_period"):
        period = keys.number("expert_layer_period") or 1
        offset = keys.counted("expert_layer_offset") or 0
        return frozenset(i for i in every if i % period == offset)
    if keys.has("moe_layer_interval"):
        last = keys.counted("moe_layer_end_index")
        first = keys.counted("moe_layer_start_index") or 0
        step = keys.number("moe_layer_interval") or 1
        end = layers - 1 if last is None else last
        return frozenset(i for i in every if (i + 1) % step == 0 and first <= i <= end)
    if keys.has("num_dense_layers"):
        return frozenset(i for i in every if i >= (keys.counted("num_dense_layers") or 0))
    return None


def _sparse(kind: str) -> bool | None:
    return {"sparse": True, "moe": True, "dense": False, "mlp": False}.get(kind.lower())
