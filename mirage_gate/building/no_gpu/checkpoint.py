"""A model's weights, by name: their shapes and types, from a checkpoint's header or its config.

Where a safetensors file is whole, its header says it all. Where it is not here (a stand-in run
needs no weights) the names and shapes are those of the architecture that config.json describes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from mirage_gate.building.no_gpu.torch.tensor import Tensor
from mirage_gate.building.no_gpu.torch.types import TYPES, Default, dtype
from mirage_gate.building.no_gpu.unknown import NotStoodIn

_SAFETENSORS = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}
_LONGEST_HEADER = 100 << 20
_BLOCK = 128
"""Rows and columns that share a scale in an FP8 checkpoint."""

Config = dict[str, Any]


def state(path: Any, config: Config | None, device: Any = None) -> dict[str, Tensor]:
    """What loading a file gives."""
    entries = header(os.fspath(path))
    if entries is not None:
        return {
            name: Tensor(entry["shape"], TYPES[_SAFETENSORS[entry["dtype"]]], device=device)
            for name, entry in entries.items()
            if name != "__metadata__"
        }
    if config is None:
        raise NotStoodIn(
            f"the weights in {path}", ": the file has no header; --model-config tells their shapes"
        )
    return {name: Tensor(shape, kind, device=device) for name, shape, kind in of_config(config)}


def header(path: str) -> dict[str, Any] | None:
    """The header of a safetensors file, or None where there is none to read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as text, of whatever kind
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 0 < length < _LONGEST_HEADER:
                return None
            found = msgspec.json.decode(file.read(length), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return None
    return found


def of_config(config: Config) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
    """Every weight of the model that a config.json describes: name, shape, type."""
    return _Weights(config).all()


class _Weights:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._fp8 = "kv_lora_rank" in config or "quantization_config" in config
        self._hidden: int = self._get("hidden_size")

    def _get(self, key: str, default: Any = None) -> Any:
        value = self._config.get(key, default)
        if value is None:
            raise NotStoodIn("the checkpoint", f": the model's config.json has no {key}")
        return value

    def all(self) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        c = self._config
        vocabulary, layers = self._get("vocab_size"), self._get("num_hidden_layers")
        yield self._row("model.embed_tokens", vocabulary, self._hidden)
        for layer in range(layers):
            yield from self._layer(f"model.layers.{layer}.", layer)
        for extra in range(layers, layers + c.get("num_nextn_predict_layers", 0)):
            prefix = f"model.layers.{extra}."
            yield from self._layer(prefix, extra)
            for name in ("enorm", "hnorm", "shared_head.norm"):
                yield self._row(prefix + name, self._hidden)
            yield self._row(f"{prefix}eh_proj", self._hidden, 2 * self._hidden)
            for name in ("shared_head.head", "embed_tokens"):
                yield self._row(prefix + name, vocabulary, self._hidden)
        yield self._row("model.norm", self._hidden)
        yield self._row("lm_head", vocabulary, self._hidden)

    def _row(self, name: str, *shape: int) -> tuple[str, tuple[int, ...], dtype]:
        """A weight that is kept in full precision."""
        return f"{name}.weight", shape, TYPES["bfloat16"] if self._fp8 else Default.dtype

    def _linear(
        self, name: str, rows: int, columns: int
    ) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        """A weight that an FP8 checkpoint has in blocks, with their scales."""
        if not self._fp8:
            yield self._row(name, rows, columns)
            return
        yield f"{name}.weight", (rows, columns), TYPES["float8_e4m3fn"]
        blocks = (-(-rows // _BLOCK), -(-columns // _BLOCK))
        yield f"{name}.weight_scale_inv", blocks, TYPES["float32"]

    def _layer(self, prefix: str, layer: int) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield self._row(prefix + name, self._hidden)
        if "kv_lora_rank" in self._config:
            yield from self._latent_attention(f"{prefix}self_attn.")
        else:
            yield from self._attention(f"{prefix}self_attn.")
        experts = self._config.get("n_routed_experts") or self._config.get("num_experts")
        dense = layer < self._config.get("first_k_dense_replace", 0) or layer in self._config.get(
            "mlp_only_layers", ()
        )
        if experts and not dense:
            yield from self._mixture(f"{prefix}mlp.", experts)
        else:
            yield from self._mlp(f"{prefix}mlp.", self._get("intermediate_size"))

    def _attention(self, prefix: str) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        heads = self._get("num_attention_heads")
        groups = self._get("num_key_value_heads", heads)
        width = self._get("head_dim", self._hidden // heads)
        for name, count in (("q", heads), ("k", groups), ("v", groups)):
            yield from self._linear(f"{prefix}{name}_proj", count * width, self._hidden)
        yield from self._linear(f"{prefix}o_proj", self._hidden, heads * width)
        if str(self._config.get("model_type", "")).startswith("qwen3"):
            for name in ("q_norm", "k_norm"):
                yield self._row(prefix + name, width)

    def _latent_attention(self, prefix: str) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        heads, rope = self._get("num_attention_heads"), self._get("qk_rope_head_dim")
        nope, value = self._get("qk_nope_head_dim"), self._get("v_head_dim")
        latent, queries = self._get("kv_lora_rank"), self._get("q_lora_rank")
        yield from self._linear(f"{prefix}q_a_proj", queries, self._hidden)
        yield self._row(f"{prefix}q_a_layernorm", queries)
        yield from self._linear(f"{prefix}q_b_proj", heads * (nope + rope), queries)
        yield from self._linear(f"{prefix}kv_a_proj_with_mqa", latent + rope, self._hidden)
        yield self._row(f"{prefix}kv_a_layernorm", latent)
        yield from self._linear(f"{prefix}kv_b_proj", heads * (nope + value), latent)
        yield from self._linear(f"{prefix}o_proj", self._hidden, heads * value)

    def _mlp(self, prefix: str, width: int) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        for name in ("gate_proj", "up_proj"):
            yield from self._linear(prefix + name, width, self._hidden)
        yield from self._linear(f"{prefix}down_proj", self._hidden, width)

    def _mixture(self, prefix: str, experts: int) -> Iterator[tuple[str, tuple[int, ...], dtype]]:
        width = self._get("moe_intermediate_size")
        yield self._row(f"{prefix}gate", experts, self._hidden)
        if self._config.get("topk_method") == "noaux_tc":
            yield f"{prefix}gate.e_score_correction_bias", (experts,), TYPES["float32"]
        for expert in range(experts):
            yield from self._mlp(f"{prefix}experts.{expert}.", width)
        if shared := self._config.get("n_shared_experts"):
            yield from self._mlp(f"{prefix}shared_experts.", width * shared)
