"""Bytes that a reader may meet: real ones, damaged; and pieces of its language, heaped up."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.emitter import LITERAL, OLD, deepseek_v3, qwen3, qwen3_ampere

__all__ = ["damaged", "seeds"]

CUDA_PIECES = (
    b'all_tensors["',
    b'"] = ',
    b"all_tensors[",
    b"char *",
    b"void *",
    b"nvshmem_malloc(",
    b"CUDA_CHECK(cudaMalloc(&",
    b"cudaMemcpy2DAsync(reinterpret_cast<void *>(",
    b" + ",
    b'model_tensors.at("',
    b"static_cast<char*>(",
    b"(char*)(0x",
    b"task_desc->task_type == ",
    b" && task_desc->variant_id == ",
    b"task_desc->input_ptrs[",
    b"task_desc->output_tma_desc_ptrs[",
    b"task_desc->task_metadata.",
    b"runtime_config.",
    b'task.at("',
    b"_execute_task",
    b"/*",
    b"*/",
    b"//",
    b"\\\n",
    b'"',
    b"'",
    b'R"(',
    b')"',
    b'R"x(',
    b"#if 0\n",
    b"#else\n",
    b"#endif\n",
    b"assert(num_gpus = ",
    b"}",
    b"\n}",
    b"{",
    b";",
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"99999999999999999999999999",
    b"TASK_",
    b"FullTaskDesc task_desc(static_cast<TaskType>(",
)
JSON_PIECES = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"true",
    b"NaN",
    b"Infinity",
    b"-",
    b"1e999",
    b"1.0",
    b"9223372036854775806",
    b"18446744073709551616",
    b'"all_tasks": [',
    b'\n  "all_tasks": [\n',
    b"\n    },\n    {",
    b"\n    }",
    b"\n  ]",
    b'"inputs": ',
    b'"base_ptr": "nullptr"',
    b'"dims": [',
    b'"offset": ',
    b"\xef\xbb\xbf",
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b'"all_events": []',
    b'"first_tasks": [2]',
    b"-1",
    b"1" * 400,
)
PYTHON_PIECES = (
    b"attach_input(",
    b"new_tensor(",
    b"name=",
    b'f"layer_{i}_',
    b'"',
    b"'",
    b"{",
    b"}",
    b".format(",
    b"for i in range(",
    b"):\n    ",
    b"lambda ",
    b"(",
    b")",
    b"[",
    b"]",
    b"%",
    b"+",
    b"\\",
    b"\t",
    b"# coding: latin-1\n",
    b"# -*- coding: rot13 -*-\n",
    b"\x00",
    b"\xff",
    b"def f(name):\n ",
    b"fuse_tensors(",
    b"shuffle_tensors(",
    b"not ",
    b"-",
    b"*args",
    b"**k",
    b"f'{f\"{x}\"}'",
    b"if ",
)
PLAN_PIECES = (
    b" = ",
    b"rms_norm(",
    b"linear(",
    b"attention(",
    b", ",
    b")",
    b"(",
    b" + ",
    b"layers 0-3:\n",
    b"layers 0, 2:\n",
    b"layer 1:\n",
    b"layers 0-99999999:\n",
    b"{layer}",
    b"{",
    b"}",
    b"\n",
    b"\n  ",
    b"x",
    b"h",
    b"'",
    b'"',
    b"#",
    b"\\",
    b"\x00",
    b"\xff",
    b"\t",
    b"-",
    b"none",
    b"[",
    b"]",
)
TOML_PIECES = (
    b"[tool.mirage-gate]\n",
    b"critical = ",
    b"[[task-types]]\n",
    b"inputs = ",
    b'"r rw@ r?"',
    b"[severity]\n",
    b"MG101 = ",
    b"[",
    b"]",
    b"{",
    b"}",
    b"=",
    b'"""',
    b"'''",
    b"\n",
    b"1979-05-27",
    b"inf",
    b"nan",
    b"0x",
    b"ranks = ",
    b"paths = ",
    b"workers = ",
    b"\x00",
    b"\xff",
    b"\\u0000",
    b"99999999999999999999",
    b"[[waivers]]\n",
    b"reason = ",
    b"expires = ",
    b"#",
)


@cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """Good inputs of a kind, small ones."""
    pairs = [
        qwen3(1).emit(),
        qwen3(1, ranks=2).emit(1),
        qwen3_ampere(2).emit(),
        qwen3(1).written(OLD).emit(),
        deepseek_v3(1).written(LITERAL).emit(),
    ]
    if kind == "cuda":
        return tuple(pair.cuda_text().encode() for pair in pairs)
    if kind == "graph":
        whole = [pair.json_text().encode() for pair in pairs]
        small = _trimmed(pairs[0].graph)
        return (small, small, json.dumps(json.loads(small)).encode(), *whole)
    if kind == "header":
        return (b"enum TaskType {\n TASK_TERMINATE = 0,\n TASK_MINE = 296, // = 3\n};\n",)
    if kind == "config":
        return (_CONFIG, b"[tool.mirage-gate]\n" + _CONFIG, b"", b"[tool]\nmirage-gate = 3\n")
    if kind == "builder":
        return (_BUILDER, b"")
    good = _document(kind)
    if kind == "model-config":  # every key that is read, in no model at once
        return (good, b'{"num_hidden_layers": 2, "text_config": ' + good + b"}", b"{}")
    return (good, b"{}", b"[]")


def _trimmed(graph: dict[str, Any]) -> bytes:
    """The first few tasks and events: small enough for every byte to be reached."""
    few = {
        "all_events": graph["all_events"][:4],
        "all_tasks": graph["all_tasks"][:8],
        "first_tasks": [2],
    }
    return json.dumps(few, indent=2, sort_keys=True).encode()


_CONFIG = b"""critical = ["+rope_cos", "*_sin"]
ranks = [0, 1]
fail-on = "warning"
ignore = ["MG103", "MG6"]
workers = 128

[severity]
MG104 = "error"

[[task-types]]
name = "TASK_MINE"
code = 296
inputs = "r rw@ r?"
outputs = "w+"
final = true

[[waivers]]
rule = "MG101"
tensor = "rope_*"
reason = "known"
"""

_BUILDER = b"""import mirage as mi

LAYERS = 4

def norm(mpk, weight, name):
    return mpk.attach_input(torch_tensor=weight, name=name)

for i in range(LAYERS):
    q = mpk.attach_input(weights[i], name=f"layer_{i}_q_norm")
    k = norm(mpk, weights[i], "layer_{}_k_norm".format(i))
    w = mpk.shuffle_tensors([q, k], shuffled_dim=0, num_groups=8, name="layer_%d_qk" % i)
for part in ("cos", "sin"):
    table = mpk.attach_input(tables[part], name=part + "_position_embedding")
x = mpk.new_tensor(dims=(8, 4096), dtype=mi.bfloat16, name="attn_in", io_category="cuda_tensor")
"""


def _document(kind: str) -> bytes:
    """What lies beside a pair: a lock, a summary, a report, a model's configuration."""
    from . import documents

    return documents.sample(kind)


def pieces_of(kind: str) -> tuple[bytes, ...]:
    return {
        "cuda": CUDA_PIECES,
        "header": CUDA_PIECES,
        "builder": PYTHON_PIECES,
        "config": TOML_PIECES,
        "plan": PLAN_PIECES,
    }.get(kind, JSON_PIECES)


def damaged(kind: str, rng: random.Random) -> bytes:
    """A good input with a few things done to it, or a heap of pieces."""
    pieces = pieces_of(kind)
    if rng.random() < 0.1:
        return b"".join(rng.choice(pieces) for _ in range(rng.randrange(1, 200)))
    data = rng.choice(seeds(kind))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        data = changed(kind, data, rng)
    return data


def changed(kind: str, data: bytes, rng: random.Random) -> bytes:
    """An input with one thing done to it."""
    return rng.choice(_CHANGES)(data, rng, pieces_of(kind))


def _at(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _insert(data: bytes, rng: random.Random, pieces: tuple[bytes, ...]) -> bytes:
    at = _at(data, rng)
    return data[:at] + rng.choice(pieces) + data[at:]


def _heap(data: bytes, rng: random.Random, pieces: tuple[bytes, ...]) -> bytes:
    at = _at(data, rng)
    return data[:at] + rng.choice(pieces) * rng.choice([2, 50, 5000]) + data[at:]


def _overwrite(data: bytes, rng: random.Random, pieces: tuple[bytes, ...]) -> bytes:
    at, piece = _at(data, rng), rng.choice(pieces)
    return data[:at] + piece + data[at + len(piece) :]


def _flip(data: bytes, rng: random.Random, _: tuple[bytes, ...]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, rng: random.Random, _: tuple[bytes, ...]) -> bytes:
    low, high = sorted((_at(data, rng), _at(data, rng)))
    high = min(high, low + rng.choice([1, 2, 16, 4096]))
    return data[:low] + data[high:]


def _truncate(data: bytes, rng: random.Random, _: tuple[bytes, ...]) -> bytes:
    return data[: _at(data, rng)]


def _repeat(data: bytes, rng: random.Random, _: tuple[bytes, ...]) -> bytes:
    low = _at(data, rng)
    part = data[low : low + rng.choice([1, 16, 256])]
    return data[:low] + part * rng.choice([2, 3, 100]) + data[low:]


def _splice(data: bytes, rng: random.Random, _: tuple[bytes, ...]) -> bytes:
    low, other = _at(data, rng), _at(data, rng)
    return data[:low] + data[other:]


def _number(data: bytes, rng: random.Random, _: tuple[bytes, ...]) -> bytes:
    """Replace a number by one at some edge."""
    digits = [i for i in range(len(data)) if data[i : i + 1].isdigit()]
    if not digits:
        return data
    low = rng.choice(digits)
    high = low
    while data[high : high + 1].isdigit():
        high += 1
    edges = (
        b"0",
        b"1",
        b"-1",
        b"4294967296",
        b"2147483647",
        b"9223372036854775807",
        b"1e3",
        b"7.0",
    )
    return data[:low] + rng.choice(edges) + data[high:]


Change = Callable[[bytes, random.Random, tuple[bytes, ...]], bytes]
_CHANGES: tuple[Change, ...] = (
    _insert,
    _heap,
    _overwrite,
    _flip,
    _cut,
    _truncate,
    _repeat,
    _splice,
    _number,
)
