"""Which layers have softmax attention: not those with a linear, recurrent or no mixer."""

from __future__ import annotations

from mirage_gate.artifacts.model import families
from mirage_gate.artifacts.model.document import Document, Keys
from mirage_gate.artifacts.model.promise import NOTHING, Promise, exactly, where

_INTERVAL = {"qwen3_next": 4, "qwen3_5_text": 4, "qwen3_5_moe_text": 4}
"""Every so many layers attend where ``full_attention_interval`` is left out."""

_TYPED = ("layer_types", "layers_block_type", "layer_block_type")


def attention(document: Document) -> Promise:
    """Read the keys by which hybrid models say which of their layers attend."""
    keys, every = document.keys, range(document.layers)
    kind = keys.text("model_type")
    named = next((types for key in _TYPED if (types := keys.words(key))), None)
    if named:
        return where(lambda i: _attends(named[i]) if i < len(named) else None, every)
    if blocks := keys.objects("block_configs"):
        return where(lambda i: _block(blocks[i]) if i < len(blocks) else None, every)
    if pattern := keys.text("hybrid_override_pattern"):
        return where(lambda i: pattern[i] == "*" if i < len(pattern) else None, every)
    if types := keys.words("block_types"):  # repeated over the depth (RecurrentGemma)
        return where(lambda i: _attends(types[i % len(types)]), every)
    if (listed := keys.numbers("attn_layer_indices")) is not None:
        return exactly(set(listed) & set(every), every)
    if flags := keys.numbers("attn_type_list"):  # 1 softmax, 0 lightning
        return where(lambda i: bool(flags[i]) if i < len(flags) else None, every)
    if (period := keys.number("attn_layer_period")) is not None:
        offset = keys.counted("attn_layer_offset") or 0
        return exactly((i for i in every if i % period == offset), every)
    full = keys.inner("linear_attn_config").numbers("full_attn_layers")
    if full:  # counted from 1
        return exactly({i - 1 for i in full} & set(every), every)
    interval = keys.number("full_attention_interval") or _INTERVAL.get(kind)
    if interval:
        return exactly((i for i in every if (i + 1) % interval == 0), every)
    return exactly(every, every) if kind in families.LLAMA else NOTHING


def _attends(kind: str) -> bool | None:
    kind = kind.lower()
    if "attention" in kind:
        return "linear" not in kind
    # "hybrid" is both a mixer and attention, and a name from elsewhere says nothing.
    known = {"mamba", "mamba2", "conv", "recurrent", "mlp", "moe", "ssm", "linear"}
    return False if kind in known else None


def _block(block: Keys) -> bool | None:
    inner = block.inner("attention")
    if inner.flag("no_op") or inner.flag("replace_with_linear"):
        return False
    return True if block.has("attention") else None
