"""Model types by what all models of the type have: known from the transformers library.

A type that stands in no list is not known: then a layer is promised nothing but what a key
says of it.
"""

from __future__ import annotations

LLAMA = frozenset(
    {
        *("llama", "llama4", "llama4_text", "mistral", "mistral3", "ministral", "mixtral"),
        *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text"),
        *("qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen2_5_omni_text"),
        *("gemma", "gemma2", "gemma3", "gemma3_text", "phi", "phi3", "phimoe", "cohere"),
        *("olmo", "olmo2", "olmo3", "olmoe", "flex_olmo", "granite", "granitemoe"),
        *("stablelm", "starcoder2", "internlm2", "internlm3", "baichuan", "dbrx", "persimmon"),
        *("gpt_neox", "gpt_oss", "glm", "glm4", "glm4_moe", "ernie4_5", "ernie4_5_moe"),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "seed_oss", "apertus", "arcee", "helium"),
        *("nemotron", "dots1", "minimax_m2", "mimo", "mimo_v2_flash", "aya", "yi", "smollm3"),
        *("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa"),
        *("bailing_moe", "bailing_moe_v2", "longcat_flash", "cohere2", "exaone4", "solar"),
    }
)
"""Attention with rotary embedding in every layer, unless a key says otherwise."""

NOPE_EVERY_FOURTH = frozenset({"llama4", "llama4_text", "smollm3"})
"""Without ``no_rope_layers``, or with an empty one, every fourth layer does not rotate."""

NOPE_WHERE_FULL = frozenset({"cohere2", "exaone4"})
"""These rotate in sliding-window layers only, if the model has a window at all."""

NEVER_ROTARY = frozenset(
    {
        *("nemotron_h", "jamba", "zamba", "gpt2", "opt", "bloom", "mpt", "gpt_bigcode"),
        *("mamba", "mamba2", "rwkv", "falcon_mamba", "gpt_neo"),
    }
)
"""These have no rotary embedding, whatever keys their configuration carries along."""

LATENT = frozenset(
    {
        *("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa"),
        *("longcat_flash", "kimi_linear", "minicpm3"),
    }
)
"""Multi-head latent attention."""

QK_NORM = frozenset(
    {
        *("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"),
        *("qwen3_vl_text", "qwen3_vl_moe_text", "olmo2", "olmo3", "olmoe", "flex_olmo"),
        *("gemma3", "gemma3_text", "gemma3n_text", "exaone4", "apertus", "lfm2", "lfm2_moe"),
        *("dots1", "hunyuan_v1_dense", "hunyuan_v1_moe"),
    }
)
"""Attention normalises queries and keys, with weights."""

QK_NORM_BY_KEY = frozenset({"glm4_moe", "cohere", "minimax_m2", "stablelm", "persimmon", "phi"})
"""Attention normalises queries and keys with weights where ``use_qk_norm`` or kin is true.

Llama 4's and nanochat's norms have no weights: no operand of a task shows them.
"""

EVERY_LAYER_MIXES = frozenset(
    {
        *("mixtral", "gpt_oss", "phimoe", "granitemoe", "olmoe", "flex_olmo", "dbrx"),
        *("minimax", "minimax_m2", "grok", "grok1"),
    }
)
"""A mixture of experts in every layer."""

SPARSE_BY_STEP = frozenset(
    {
        *("qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_vl_moe_text", "qwen3_omni_moe_text"),
    }
)
"""``decoder_sparse_step`` and ``mlp_only_layers`` say which layers mix; every layer by default."""

DENSE_FIRST = frozenset(
    {
        *("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe", "glm4_moe_lite"),
        *("glm_moe_dsa", "dots1", "bailing_moe", "bailing_moe_v2", "kimi_linear"),
    }
)
"""``first_k_dense_replace`` and ``moe_layer_freq`` say which layers mix."""

INTERLEAVED = frozenset({"llama4", "llama4_text"})
"""``interleave_moe_layer_step`` (1 by default) or ``moe_layers`` says which layers mix."""
