"""The ``config.json`` of the models that the emitter emits: their keys, by family and sizes."""

from __future__ import annotations

from typing import Any

from tests.emitter import Model


def config_of(model: Model, family: str) -> dict[str, Any]:
    """Give the configuration of an emitted model, as one of a family's."""
    s = model.sizes
    keys: dict[str, Any] = {
        "model_type": family,
        "num_hidden_layers": model.layers,
        "hidden_size": s.hidden,
        "num_attention_heads": s.heads,
        "vocab_size": s.vocab,
        "intermediate_size": s.intermediate,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    if family == "deepseek_v3":
        return {
            **keys,
            "q_lora_rank": s.q_lora,
            "kv_lora_rank": s.kv_lora,
            "qk_rope_head_dim": s.rope,
            "v_head_dim": s.value,
            "n_routed_experts": s.experts,
            "n_shared_experts": 1,
            "num_experts_per_tok": s.topk,
            "moe_intermediate_size": s.moe_intermediate,
            "first_k_dense_replace": model.options["dense_layers"],
            "moe_layer_freq": 1,
        }
    keys |= {"num_key_value_heads": s.kv_heads, "head_dim": s.head_dim}
    if family in ("qwen3_moe", "mixtral"):
        experts = "num_experts" if family == "qwen3_moe" else "num_local_experts"
        keys |= {experts: s.experts, "num_experts_per_tok": s.topk}
        keys["moe_intermediate_size"] = s.moe_intermediate
    return keys
