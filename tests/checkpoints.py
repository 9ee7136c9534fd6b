"""Checkpoints for tests: headers without the numbers behind them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

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
