"""Which layers rotate queries and keys by their positions."""

from __future__ import annotations

from mirage_gate.artifacts.model import families
from mirage_gate.artifacts.model.document import Document, Keys
from mirage_gate.artifacts.model.promise import NOTHING, SOMEWHERE, Promise, exactly, where

_ROTARY_KEYS = (
    *("rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct"),
    *("rotary_emb_base", "partial_rotary_factor", "rope_local_base_freq", "qk_rope_head_dim"),
)
_OTHER_POSITIONS = frozenset({"absolute", "alibi", "none", "nope", "learned", "relative_key"})


def rotary(document: Document, attention: Promise) -> Promise:
    """Read which of the layers with attention rotate. Cross-attention never does."""
    keys, every = document.keys, range(document.layers)
    kind = keys.text("model_type")
    none = exactly((), every)
    if keys.text("position_embedding_type").lower() in _OTHER_POSITIONS:
        return none
    if keys.flag("alibi") or keys.flag("mla_use_nope") or kind in families.NEVER_ROTARY:
        return none
    if keys.inner("attn_config").flag("alibi"):
        return none
    crossing = frozenset(keys.numbers("cross_attention_layers") or ())
    flagged = _flags(keys, kind, document.layers)
    # Both asked for, so that both count as keys that were read.
    said = [keys.has(key) for key in _ROTARY_KEYS]
    if kind not in families.LLAMA:
        # What a type that is not known does in each layer is for its own code to say.
        if flagged is not None:
            return where(lambda i: (flagged.get(i) and i in attention.having) or None, every)
        return SOMEWHERE if any(said) else NOTHING

    def rotates(layer: int) -> bool | None:
        if layer in attention.lacking or layer in crossing:
            return False
        if flagged is not None:
            return flagged.get(layer)
        return True if layer in attention.having else None

    return where(rotates, every)


def _flags(keys: Keys, kind: str, layers: int) -> dict[int, bool | None] | None:
    """Give what the keys for layers without positions say of each; None if there are none."""
    listed = keys.numbers("no_rope_layers")
    if listed:  # 1: the layer rotates
        return {i: bool(flag) for i, flag in enumerate(listed[:layers])}
    interval = keys.number("no_rope_layer_interval")
    if interval is None and kind in families.NOPE_EVERY_FOURTH:
        interval = 4
    if interval:
        return {i: bool((i + 1) % interval) for i in range(layers)}
    if kind in families.NOPE_WHERE_FULL:
        return _sliding(keys, layers)
    return None


def _sliding(keys: Keys, layers: int) -> dict[int, bool | None] | None:
    """Rotate where the window slides; in every layer if there is no window."""
    if not keys.number("sliding_window"):
        # Left out, it may be the library's default; null, it is none.
        return None if "sliding_window" in set(keys) else {}
    types = keys.words("layer_types")
    if types:
        return {i: t != "full_attention" for i, t in enumerate(types[:layers])}
    pattern = keys.number("sliding_window_pattern")
    if pattern:
        return {i: bool((i + 1) % pattern) for i in range(layers)}
    letters = keys.text("sliding_window_pattern")
    if letters:
        # The last layer is a global one whatever the pattern says.
        return {i: letters[i % len(letters)] == "L" for i in range(layers - 1)}
    return {}
