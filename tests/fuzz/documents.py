"""What lies beside a pair, as seeds for its readers.

What the gate writes and reads again is made by the gate itself; a model's configuration and its
checkpoint are those of an emitted model.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from mirage_gate.cli import cli
from tests.checkpoints import checkpoint_of, safetensors
from tests.emitter import qwen3
from tests.model_of import config_of

__all__ = ["sample"]

_COMMANDS = {
    "lock": ("lock", "{folder}", "--force", "-o", "{out}"),
    "summary": ("check", "{folder}", "-o", "summary={out}"),
    "report": ("check", "{folder}", "-o", "json={out}"),
    "sarif": ("check", "{folder}", "-o", "sarif={out}"),
    "plan": ("plan", "{folder}"),
}


@cache
def sample(kind: str) -> bytes:
    """A good document of a kind."""
    if kind in _COMMANDS:
        return _written(_COMMANDS[kind])
    return _GIVEN[kind]()


def _written(command: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        # Something to find, which a baseline knows; what fails is not locked.
        qwen3(1).with_extra_host("left_over").write(folder)
        out = Path(folder, "out")
        arguments = [part.format(folder=folder, out=out) for part in command]
        done = CliRunner().invoke(cli, arguments, standalone_mode=False)
        return _short(out.read_bytes()) if out.exists() else done.stdout.encode()


def _short(document: bytes) -> bytes:
    """A SARIF log without its rules, which are nine tenths of it and not read."""
    value = json.loads(document)
    for run in value.get("runs", ()):
        del run["tool"]["driver"]["rules"]
    return json.dumps(value, indent=2).encode() if "runs" in value else document


def _model_config() -> bytes:
    keys = config_of(qwen3(4), "qwen3")
    keys |= {"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 4096}
    return json.dumps({**keys, "no_rope_layers": [1, 0, 1, 1]}, indent=2).encode()


def _weights() -> bytes:
    return safetensors(checkpoint_of(qwen3(1), "qwen3"))


def _weights_index() -> bytes:
    # The tests of rules read whole checkpoints; here the file that is named is not there.
    names = dict.fromkeys(checkpoint_of(qwen3(1), "qwen3"), "model-00001-of-00001.safetensors")
    return json.dumps({"metadata": {"total_size": 1}, "weight_map": names}, indent=2).encode()


def _provenance() -> bytes:
    frame = {"file": 0, "line": 3, "function": "<module>", "column": 1, "end_line": 3}
    made = {
        "version": 1,
        "rank": 0,
        "world_size": 1,
        "pair": {"cuda_bytes": 1, "cuda_sha256": "0" * 64, "graph_bytes": 1},
        "files": ["demo.py"],
        "stacks": [[frame], [frame, frame | {"line": 9}]],
        "tensors": [{"name": "rope_cos", "call": "attach_input", "stack": 0, "layer": 1}],
        "operators": [{"call": "rmsnorm_layer", "task": "rmsnorm", "stack": 1, "first_task": 2}],
    }
    return json.dumps(made, indent=2).encode()


_GIVEN = {
    "model-config": _model_config,
    "weights": _weights,
    "weights-index": _weights_index,
    "provenance": _provenance,
}
