"""What the names of weights mean."""

from __future__ import annotations

from typing import Any

import pytest

from mirage_gate.facts.model.words import words


@pytest.mark.parametrize(
    ("name", "layer", "roles", "more"),
    [
        ("model.layers.3.self_attn.q_proj.weight", 3, ("q_proj",), {}),
        ("layer_3_q_proj", 3, ("q_proj",), {}),
        ("model.layers.12.self_attn.q_proj.bias", 12, ("q_proj",), {"facet": "bias"}),
        ("layer_0_qkv_proj", 0, ("q_proj", "k_proj", "v_proj"), {}),
        ("layer_0_gatedup_proj", 0, ("gate_proj", "up_proj"), {}),
        ("layers.7.attention.wq.weight", 7, ("q_proj",), {}),
        ("model.layers.5.mlp.experts.17.w2.weight", 5, ("experts.down_proj",), {"expert": 17}),
        ("layer_4_experts_w13", 4, ("experts.gate_proj", "experts.up_proj"), {}),
        (
            "model.layers.61.mlp.experts.255.up_proj.weight_scale_inv",
            61,
            ("experts.up_proj",),
            {"expert": 255, "facet": "scale"},
        ),
        ("layer_9_moe_gate_bias", 9, ("router",), {"facet": "bias"}),
        (
            "model.layers.9.mlp.gate.e_score_correction_bias",
            9,
            ("router",),
            {"facet": "bias"},
        ),
        ("model.layers.2.mlp.shared_experts.gate_proj.weight", 2, ("shared.gate_proj",), {}),
        ("layer_2_shared_expert_gate_up", 2, ("shared.gate_proj", "shared.up_proj"), {}),
        ("layer_2_post_attn_layernorm", 2, ("post_attention_layernorm",), {}),
        ("model.language_model.layers.8.input_layernorm.weight", 8, ("input_layernorm",), {}),
        ("transformer.h.3.ln_1.weight", 3, ("input_layernorm",), {}),
        ("model.embed_tokens.weight", None, ("embed_tokens",), {}),
        ("model_norm_weight", None, ("norm",), {}),
        ("lm_head.weight", None, ("lm_head",), {}),
        ("layer_0_kv_a_rope", 0, ("kv_a_proj:rope",), {}),
        ("model.layers.61.eh_proj.weight", 61, ("?eh_proj",), {"foreign": True}),
        ("vision.layers.3.self_attn.q_proj.weight", 3, ("q_proj",), {"foreign": True}),
        ("layer_3_mystery", 3, ("?mystery",), {}),
        ("", None, ("?",), {}),
        ("model.layers.123456.q_proj", None, None, {}),
    ],
)
def test_a_name(name: str, layer: int | None, roles: Any, more: dict[str, Any]) -> None:
    meaning = words(name)
    assert meaning.layer == layer
    if roles is None:
        assert not meaning.known
        return
    assert meaning.roles == roles
    assert meaning.facet == more.get("facet", "weight")
    assert meaning.foreign is more.get("foreign", False)
    assert meaning.expert == more.get("expert")
