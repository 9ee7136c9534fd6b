"""The sizes and constants that a configuration names; None is: it does not say."""

from __future__ import annotations

import msgspec

from mirage_gate.artifacts.model import families
from mirage_gate.artifacts.model.document import Document
from mirage_gate.artifacts.model.mixture import experts


class Sizes(msgspec.Struct, frozen=True):
    """Sizes in elements, of the whole model (ranks share some of them out).

    ``head_dim`` is a query's head; in latent attention the heads are ``rope_dim`` and
    ``nope_dim`` wide together, and ``kv_rank`` is the latent's width. ``positions`` bounds
    the rotary tables. ``window`` is the sliding window's width, ``eps`` the norms' epsilon.
    """

    hidden: int | None = None
    vocabulary: int | None = None
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    experts: int | None = None
    top_k: int | None = None
    expert_intermediate: int | None = None
    shared_experts: int | None = None
    q_rank: int | None = None
    kv_rank: int | None = None
    rope_dim: int | None = None
    nope_dim: int | None = None
    value_dim: int | None = None
    positions: int | None = None
    window: int | None = None
    eps: float | None = None
    routed_scaling: float | None = None
    tied: bool | None = None
    activation: str = ""


def sizes(document: Document) -> Sizes:
    """Read every size that the keys name."""
    keys = document.keys
    hidden = keys.number("hidden_size", "n_embd", "d_model")
    heads = keys.number("num_attention_heads", "n_head", "n_heads")
    latent = keys.text("model_type") in families.LATENT or keys.has("kv_lora_rank")
    head_dim = keys.number("head_dim")
    if head_dim is None and hidden and heads and hidden % heads == 0:
        # Only of types whose default this is: Gemma and Qwen 3 have one of their own.
        known = keys.text("model_type") in ("llama", "qwen2", "mistral", "mixtral", "qwen2_moe")
        head_dim = hidden // heads if known else None
    tied = keys.flag("tie_word_embeddings")
    width = keys.number("moe_intermediate_size")
    if width is None and keys.text("model_type") in ("mixtral", "phimoe"):
        width = keys.number("intermediate_size")
    return Sizes(
        hidden=hidden,
        vocabulary=keys.number("vocab_size"),
        intermediate=keys.number("intermediate_size", "ffn_hidden_size"),
        heads=heads,
        kv_heads=keys.number("num_key_value_heads"),
        head_dim=None if latent else head_dim,
        experts=experts(keys),
        top_k=keys.number("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"),
        expert_intermediate=width,
        shared_experts=keys.number("n_shared_experts"),
        q_rank=keys.number("q_lora_rank"),
        kv_rank=keys.number("kv_lora_rank"),
        rope_dim=keys.number("qk_rope_head_dim"),
        nope_dim=keys.number("qk_nope_head_dim"),
        value_dim=keys.number("v_head_dim"),
        positions=keys.number("max_position_embeddings"),
        window=None if keys.flag("use_sliding_window") is False else keys.number("sliding_window"),
        eps=keys.real("rms_norm_eps", "layer_norm_eps", "norm_eps", "layer_norm_epsilon"),
        routed_scaling=keys.real("routed_scaling_factor"),
        tied=document.outer.flag("tie_word_embeddings") if tied is None else tied,
        activation=keys.text("hidden_act") or keys.text("hidden_activation"),
    )
