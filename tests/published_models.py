"""Facts of published models' ``config.json``: the keys that decide what a layer is.

Each entry is (the keys as published, what they mean). The meaning is what the transformers
library makes of them: the layers that attend, rotate, normalise queries and keys, and mix
experts. ``all`` is every layer, ``none`` no layer, ``some`` one at least; what is left out
must not be promised at all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Layers = frozenset[int] | str | None


class Meaning(NamedTuple):
    """What one configuration promises; None is nothing."""

    layers: int
    attention: Layers = "all"
    rotary: Layers = "all"
    qk_norm: Layers = None
    mixture: Layers = "none"
    experts: int | None = None


def _every(step: int, layers: int, offset: int = 0) -> frozenset[int]:
    return frozenset(i for i in range(layers) if (i - offset) % step == 0)


def _but(layers: int, without: frozenset[int]) -> frozenset[int]:
    return frozenset(range(layers)) - without


def _from(first: int, layers: int) -> frozenset[int]:
    return frozenset(range(first, layers))


def _dense(kind: str, layers: int, heads: int, kv_heads: int, hidden: int, **keys: Any) -> Any:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": hidden,
        "rope_theta": 10000.0,
        **keys,
    }


_LAYER_TYPES_GPT_OSS = ["sliding_attention", "full_attention"] * 12
_NEMOTRON_H = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
_GRANITE_4 = frozenset({5, 15, 25, 35})
_LFM2 = frozenset({2, 5, 8, 10, 12, 14})
_KIMI_LINEAR = frozenset({3, 7, 11, 15, 19, 23, 26})

PUBLISHED: dict[str, tuple[dict[str, Any], Meaning]] = {
    "Llama-3.1-8B": (_dense("llama", 32, 32, 8, 4096, rope_theta=500000.0), Meaning(32)),
    "Llama-3.2-1B": (
        _dense("llama", 16, 32, 8, 2048, head_dim=64, tie_word_embeddings=True),
        Meaning(16),
    ),
    "Llama-3.2-11B-Vision": (
        {
            "model_type": "mllama",
            "text_config": _dense(
                "mllama_text_model",
                40,
                32,
                8,
                4096,
                cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38],
            ),
        },
        Meaning(40, attention=None, rotary="some", mixture=None),
    ),
    "Llama-4-Scout": (
        {
            "model_type": "llama4",
            "architectures": ["Llama4ForConditionalGeneration"],
            "text_config": _dense(
                "llama4_text",
                48,
                40,
                8,
                5120,
                no_rope_layers=[],
                use_qk_norm=True,
                num_local_experts=16,
                num_experts_per_tok=1,
                interleave_moe_layer_step=1,
                attention_chunk_size=8192,
            ),
            "vision_config": {"num_hidden_layers": 34, "rope_theta": 10000},
        },
        Meaning(48, rotary=_but(48, _every(4, 48, 3)), mixture="all", experts=16),
    ),
    "Llama-4-Maverick": (
        {
            "model_type": "llama4",
            "text_config": _dense(
                "llama4_text",
                48,
                40,
                8,
                5120,
                no_rope_layers=[],
                use_qk_norm=False,
                num_local_experts=128,
                num_experts_per_tok=1,
                interleave_moe_layer_step=2,
            ),
        },
        Meaning(48, rotary=_but(48, _every(4, 48, 3)), mixture=_every(2, 48, 1), experts=128),
    ),
    "Nemotron-51B": (
        {
            **_dense("nemotron-nas", 80, 64, 8, 8192, num_key_value_heads=None),
            "block_configs": [
                {"attention": {"n_heads_in_group": 8, "no_op": i in (40, 41)}, "ffn": {}}
                for i in range(80)
            ],
        },
        Meaning(80, attention=_but(80, frozenset({40, 41})), rotary="some", mixture=None),
    ),
    "Nemotron-H-8B": (
        {
            "model_type": "nemotron_h",
            "num_hidden_layers": 52,
            "num_attention_heads": 32,
            "hybrid_override_pattern": _NEMOTRON_H,
        },
        Meaning(
            52,
            attention=frozenset(i for i, kind in enumerate(_NEMOTRON_H) if kind == "*"),
            rotary="none",
            mixture=None,
        ),
    ),
    "Qwen2.5-7B": (
        _dense(
            "qwen2",
            28,
            28,
            4,
            3584,
            sliding_window=131072,
            use_sliding_window=False,
            max_window_layers=28,
        ),
        Meaning(28),
    ),
    "Qwen1.5-MoE-A2.7B": (
        _dense(
            "qwen2_moe",
            24,
            16,
            16,
            2048,
            num_experts=60,
            decoder_sparse_step=1,
            norm_topk_prob=False,
        ),
        Meaning(24, mixture="all", experts=60),
    ),
    "Qwen3-0.6B": (
        _dense("qwen3", 28, 16, 8, 1024, head_dim=128, sliding_window=None),
        Meaning(28, qk_norm="all"),
    ),
    "Qwen3-8B": (_dense("qwen3", 36, 32, 8, 4096, head_dim=128), Meaning(36, qk_norm="all")),
    "Qwen3-30B-A3B": (
        _dense(
            "qwen3_moe", 48, 32, 4, 2048, num_experts=128, decoder_sparse_step=1, mlp_only_layers=[]
        ),
        Meaning(48, qk_norm="all", mixture="all", experts=128),
    ),
    "Qwen3-Next-80B-A3B": (
        {
            **_dense("qwen3_next", 48, 16, 2, 2048, full_attention_interval=4),
            "num_experts": 512,
            "partial_rotary_factor": 0.25,
            "decoder_sparse_step": 1,
        },
        Meaning(
            48,
            attention=_every(4, 48, 3),
            rotary="some",
            qk_norm=_every(4, 48, 3),
            mixture="all",
            experts=512,
        ),
    ),
    "Mistral-7B-v0.1": (_dense("mistral", 32, 32, 8, 4096, sliding_window=4096), Meaning(32)),
    "Mixtral-8x7B": (
        _dense("mixtral", 32, 32, 8, 4096, num_local_experts=8, num_experts_per_tok=2),
        Meaning(32, mixture="all", experts=8),
    ),
    "DeepSeek-V3": (
        _dense(
            "deepseek_v3",
            61,
            128,
            128,
            7168,
            n_routed_experts=256,
            first_k_dense_replace=3,
            moe_layer_freq=1,
            kv_lora_rank=512,
            rope_scaling={"type": "yarn", "factor": 40},
        ),
        Meaning(61, mixture=_from(3, 61), experts=256),
    ),
    "DeepSeek-V2-Lite": (
        _dense(
            "deepseek_v2",
            27,
            16,
            16,
            2048,
            n_routed_experts=64,
            first_k_dense_replace=1,
            moe_layer_freq=1,
            q_lora_rank=None,
            kv_lora_rank=512,
        ),
        Meaning(27, mixture=_from(1, 27), experts=64),
    ),
    "Kimi-K2": (
        _dense("kimi_k2", 61, 64, 64, 7168, n_routed_experts=384, first_k_dense_replace=1),
        Meaning(61, mixture=_from(1, 61), experts=384),
    ),
    "Kimi-Linear-48B-A3B": (
        {
            "model_type": "kimi_linear",
            "num_hidden_layers": 27,
            "num_attention_heads": 32,
            "rope_theta": 10000.0,
            "mla_use_nope": True,
            "num_experts": 256,
            "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
            "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27]},
        },
        Meaning(27, attention=_KIMI_LINEAR, rotary="none", mixture=_from(1, 27), experts=256),
    ),
    "GLM-4.5": (
        _dense(
            "glm4_moe",
            92,
            96,
            8,
            5120,
            n_routed_experts=160,
            first_k_dense_replace=3,
            use_qk_norm=True,
            partial_rotary_factor=0.5,
        ),
        Meaning(92, qk_norm="all", mixture=_from(3, 92), experts=160),
    ),
    "GLM-4.5-Air": (
        _dense(
            "glm4_moe",
            46,
            96,
            8,
            4096,
            n_routed_experts=128,
            first_k_dense_replace=1,
            use_qk_norm=False,
        ),
        Meaning(46, mixture=_from(1, 46), experts=128),
    ),
    "Gemma-2-9B": (
        _dense("gemma2", 42, 16, 8, 3584, head_dim=256, sliding_window=4096),
        Meaning(42),
    ),
    "Gemma-3-4B": (
        {
            "model_type": "gemma3",
            "architectures": ["Gemma3ForConditionalGeneration"],
            "text_config": {
                "model_type": "gemma3_text",
                "num_hidden_layers": 34,
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "sliding_window": 1024,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            },
            "vision_config": {"num_hidden_layers": 27},
        },
        Meaning(34, qk_norm="all"),
    ),
    "Command-R7B": (
        {
            **_dense("cohere2", 32, 32, 8, 4096, sliding_window=4096, sliding_window_pattern=4),
            "position_embedding_type": "rope_gptj",
            "rotary_pct": 1.0,
        },
        Meaning(32, rotary=_but(32, _every(4, 32, 3))),
    ),
    "EXAONE-4.0-32B": (
        _dense(
            "exaone4",
            64,
            40,
            8,
            5120,
            sliding_window=4096,
            sliding_window_pattern="LLLG",
            layer_types=[*["sliding_attention"] * 3, "full_attention"] * 16,
        ),
        Meaning(64, rotary=_but(64, _every(4, 64, 3)), qk_norm="all"),
    ),
    "EXAONE-4.0-1.2B": (
        _dense("exaone4", 30, 32, 8, 2048, sliding_window=None, sliding_window_pattern=None),
        Meaning(30, qk_norm="all"),
    ),
    "SmolLM3-3B": (
        _dense(
            "smollm3",
            36,
            16,
            4,
            2048,
            no_rope_layers=[1, 1, 1, 0] * 9,
            no_rope_layer_interval=4,
            layer_types=["full_attention"] * 36,
        ),
        Meaning(36, rotary=_but(36, _every(4, 36, 3))),
    ),
    "gpt-oss-20b": (
        _dense(
            "gpt_oss",
            24,
            64,
            8,
            2880,
            num_local_experts=32,
            experts_per_token=4,
            sliding_window=128,
            layer_types=_LAYER_TYPES_GPT_OSS,
        ),
        Meaning(24, mixture="all", experts=32),
    ),
    "Jamba-v0.1": (
        {
            "model_type": "jamba",
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 16,
        },
        Meaning(
            32, attention=_every(8, 32, 4), rotary="none", mixture=_every(2, 32, 1), experts=16
        ),
    ),
    "Granite-4.0-H-Tiny": (
        {
            "model_type": "granitemoehybrid",
            "num_hidden_layers": 40,
            "num_attention_heads": 12,
            "position_embedding_type": "nope",
            "rope_theta": 10000,
            "num_local_experts": 64,
            "layer_types": ["attention" if i in _GRANITE_4 else "mamba" for i in range(40)],
        },
        Meaning(40, attention=_GRANITE_4, rotary="none", mixture="some", experts=64),
    ),
    "Bamba-9B": (
        {
            "model_type": "bamba",
            "num_hidden_layers": 32,
            "attn_layer_indices": [9, 18, 27],
            "rope_theta": 10000.0,
        },
        Meaning(32, attention=frozenset({9, 18, 27}), rotary="some", mixture=None),
    ),
    "Falcon-7B": (
        {"model_type": "falcon", "num_hidden_layers": 32, "alibi": False, "multi_query": True},
        Meaning(32, attention=None, rotary=None, mixture=None),
    ),
    "Falcon-RW-1B": (
        {"model_type": "falcon", "num_hidden_layers": 24, "alibi": True, "rope_theta": 10000},
        Meaning(24, attention=None, rotary="none", mixture=None),
    ),
    "MiniMax-M2": (
        _dense(
            "minimax_m2",
            62,
            48,
            8,
            3072,
            use_qk_norm=True,
            attn_type_list=[1] * 62,
            num_local_experts=256,
        ),
        Meaning(62, qk_norm="all", mixture="all", experts=256),
    ),
    "MiniMax-Text-01": (
        {
            "model_type": "minimax_text_01",
            "num_hidden_layers": 80,
            "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
            "num_local_experts": 32,
            "rope_theta": 10000000,
        },
        Meaning(80, attention=_every(8, 80, 7), rotary="some", mixture="some", experts=32),
    ),
    "MiMo-V2-Flash": (
        _dense(
            "mimo_v2_flash",
            48,
            64,
            4,
            4096,
            n_routed_experts=256,
            moe_layer_freq=[0] + [1] * 47,
            hybrid_layer_pattern=[0, 1, 1, 1, 1, 0] * 8,
        ),
        Meaning(48, mixture=_from(1, 48), experts=256),
    ),
    "OLMo-2-7B": (_dense("olmo2", 32, 32, 32, 4096), Meaning(32, qk_norm="all")),
    "Phi-3-mini": (_dense("phi3", 32, 32, 32, 3072, sliding_window=2047), Meaning(32)),
    "Phi-3.5-MoE": (
        _dense("phimoe", 32, 32, 8, 4096, num_local_experts=16),
        Meaning(32, mixture="all", experts=16),
    ),
    "GPT-2": (
        {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768},
        Meaning(12, attention=None, rotary="none", mixture=None),
    ),
    "BLOOM-560M": (
        {"model_type": "bloom", "n_layer": 24, "n_head": 16},
        Meaning(24, attention=None, rotary="none", mixture=None),
    ),
    "ERNIE-4.5-21B-A3B": (
        _dense(
            "ernie4_5_moe",
            28,
            20,
            4,
            2560,
            moe_num_experts=64,
            moe_layer_start_index=1,
            moe_layer_end_index=27,
            moe_layer_interval=1,
            moe_k=6,
        ),
        Meaning(28, mixture=_from(1, 28), experts=64),
    ),
    "Hunyuan-A13B": (
        _dense(
            "hunyuan_v1_moe", 32, 32, 8, 4096, num_experts=64, moe_topk=[8] * 32, use_qk_norm=True
        ),
        Meaning(32, qk_norm="all", mixture="some", experts=64),
    ),
    "LFM2-1.2B": (
        {
            "model_type": "lfm2",
            "num_hidden_layers": 16,
            "rope_theta": 1000000.0,
            "layer_types": ["full_attention" if i in _LFM2 else "conv" for i in range(16)],
        },
        Meaning(16, attention=_LFM2, rotary="some", qk_norm=_LFM2, mixture=None),
    ),
    "RecurrentGemma-2B": (
        {
            "model_type": "recurrent_gemma",
            "num_hidden_layers": 26,
            "block_types": ["recurrent", "recurrent", "attention"],
            "rope_theta": 10000.0,
        },
        Meaning(26, attention=_every(3, 26, 2), rotary="some", mixture=None),
    ),
    "Mamba-2.8B": (
        {"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560},
        Meaning(64, attention=None, rotary="none", mixture=None),
    ),
    "Step-3": (
        {
            "model_type": "step3_vl",
            "text_config": {
                "model_type": "step3_text",
                "num_hidden_layers": 61,
                "moe_layers_enum": ",".join(map(str, range(4, 60))),
                "moe_num_experts": 48,
                "rope_theta": 500000,
            },
        },
        Meaning(61, attention=None, rotary="some", mixture=frozenset(range(4, 60)), experts=48),
    ),
}
"""Model to (keys as published, what they mean)."""
