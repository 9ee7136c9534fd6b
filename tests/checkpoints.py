"""Checkpoints for tests: headers without the numbers behind them."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirage_gate.artifacts import weights
from mirage_gate.artifacts.weights import Checkpoint
from tests.emitter import Model

_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I64": 8}


def safetensors(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """Give the header of a file with these tensors, name to (dtype, shape)."""
    header, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = _BYTES[dtype]
        for extent in shape:
            size *= extent
        span = [offset, offset + size]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": span}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


def write_index(folder: Path, mapped: Mapping[str, str]) -> Path:
    """Write a ``model.safetensors.index.json``."""
    file = folder / "model.safetensors.index.json"
    file.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": dict(mapped)}))
    return file


Tensors = dict[str, tuple[str, list[int]]]


def checkpoint_of(model: Model, family: str) -> Tensors:
    """Give the tensors of an emitted model as its publisher would name them."""
    s = model.sizes
    found: Tensors = {}

    def add(name: str, *shape: int) -> None:
        found[f"{name}.weight"] = ("BF16", list(shape))

    add("model.embed_tokens", s.vocab, s.hidden)
    add("model.norm", s.hidden)
    add("lm_head", s.vocab, s.hidden)
    for layer in range(model.layers):
        part = f"model.layers.{layer}"
        add(f"{part}.input_layernorm", s.hidden)
        add(f"{part}.post_attention_layernorm", s.hidden)
        attention = f"{part}.self_attn"
        add(f"{attention}.q_proj", s.heads * s.head_dim, s.hidden)
        add(f"{attention}.k_proj", s.kv_heads * s.head_dim, s.hidden)
        add(f"{attention}.v_proj", s.kv_heads * s.head_dim, s.hidden)
        add(f"{attention}.o_proj", s.hidden, s.heads * s.head_dim)
        if family.startswith("qwen3"):
            add(f"{attention}.q_norm", s.head_dim)
            add(f"{attention}.k_norm", s.head_dim)
        experts = [""]
        if family in ("qwen3_moe", "mixtral"):
            add(f"{part}.mlp.gate", s.experts, s.hidden)
            experts = [f"experts.{number}." for number in range(s.experts)]
        width = s.moe_intermediate if len(experts) > 1 else s.intermediate
        for expert in experts:
            add(f"{part}.mlp.{expert}gate_proj", width, s.hidden)
            add(f"{part}.mlp.{expert}up_proj", width, s.hidden)
            add(f"{part}.mlp.{expert}down_proj", s.hidden, width)
    return found


def read(tensors: Tensors) -> Checkpoint:
    """Read the header of a file with these tensors."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.safetensors")
        file.write_bytes(safetensors(tensors))
        return weights.read(str(file))
