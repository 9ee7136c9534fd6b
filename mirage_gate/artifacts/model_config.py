"""Reading a Hugging Face ``config.json``: what the model's own description promises.

Keys are those of the transformers library's configurations. A key that is not there
promises nothing, and is not checked.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.findings import Location

_QK_NORM_MODELS = frozenset({"qwen3", "qwen3_moe", "qwen3_next", "olmo2", "olmo3", "gemma3_text"})
"""Model types whose attention always normalises queries and keys."""

_NOPE_WHERE_FULL = frozenset({"cohere2", "exaone4"})
"""Model types that rotate in sliding-window layers only."""

_ROTARY_KEYS = ("rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct")
_OTHER_POSITIONS = frozenset({"absolute", "alibi", "none", "nope", "learned", "relative_key"})


class ModelConfigError(Exception):
    """The file cannot be used; the message says why."""


class ModelConfig(msgspec.Struct, frozen=True):
    """What the description says of each layer. None or an empty set of numbers: nothing.

    ``attention`` are the layers with attention, ``rotary`` those with rotary embedding,
    ``qk_norm`` those that normalise queries and keys, ``mixture`` those with experts.
    ``keys`` gives the place of each key that was used.
    """

    path: str
    layers: int | None = None
    attention: frozenset[int] | None = None
    rotary: frozenset[int] | None = None
    qk_norm: frozenset[int] | None = None
    mixture: frozenset[int] | None = None
    experts: int | None = None
    keys: dict[str, Location] = msgspec.field(default_factory=dict)

    def place(self, *keys: str) -> Location:
        """Point at the first of some keys that the file has."""
        found = next((self.keys[key] for key in keys if key in self.keys), None)
        return found or Location(self.path, 1, 1, 1, 1)


def read(path: str) -> ModelConfig:
    """Read one file. Raises :class:`ModelConfigError`."""
    try:
        text = files.read_bytes(path).decode("utf-8-sig")
        document = json.loads(text)
    except OSError as error:
        raise ModelConfigError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{path}: no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ModelConfigError(f"{path}: no config.json of a model: an object is expected")
    inner = document.get("text_config")
    config = inner if isinstance(inner, dict) and _count(document) is None else document
    layers = _count(config)
    if layers is None:
        raise ModelConfigError(f"{path}: no config.json of a model: it has no num_hidden_layers")
    every = frozenset(range(layers))
    attention = frozenset(i for i in every if _attends(config, i))
    experts = _number(config, "num_experts", "n_routed_experts", "num_local_experts")
    return ModelConfig(
        path=path,
        layers=layers,
        attention=attention,
        rotary=_rotary(config, attention),
        qk_norm=attention if _qk_norm(config) else None,
        mixture=_mixture(config, every) if experts else frozenset(),
        experts=experts,
        keys=_places(path, text, config),
    )


def _number(config: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000:
            return value
    return None


def _count(config: dict[str, Any]) -> int | None:
    layers = _number(config, "num_hidden_layers", "n_layer", "num_layers")
    return layers if layers is None or layers < 10_000 else None


def _layer_type(config: dict[str, Any], layer: int) -> str:
    types = config.get("layer_types")
    if isinstance(types, list) and layer < len(types):
        return str(types[layer])
    return ""


def _attends(config: dict[str, Any], layer: int) -> bool:
    kind = _layer_type(config, layer)
    return not kind or ("attention" in kind and "linear" not in kind)


def _rotary(config: dict[str, Any], attention: frozenset[int]) -> frozenset[int] | None:
    kind = config.get("position_embedding_type")
    if isinstance(kind, str) and kind.lower() in _OTHER_POSITIONS:
        return frozenset()
    if not any(config.get(key) is not None for key in _ROTARY_KEYS):
        return None
    flags = config.get("no_rope_layers")
    if isinstance(flags, list) and flags:  # 1: the layer rotates
        return frozenset(i for i in attention if i >= len(flags) or flags[i])
    interval = _number(config, "no_rope_layer_interval")
    if interval:
        return frozenset(i for i in attention if (i + 1) % interval)
    if _model_type(config) in _NOPE_WHERE_FULL:
        return frozenset(i for i in attention if _layer_type(config, i) != "full_attention")
    return attention


def _model_type(config: dict[str, Any]) -> str:
    value = config.get("model_type")
    return value if isinstance(value, str) else ""


def _qk_norm(config: dict[str, Any]) -> bool:
    for key in ("use_qk_norm", "qk_layernorm"):
        if isinstance(config.get(key), bool):
            return bool(config[key])
    return _model_type(config) in _QK_NORM_MODELS


def _mixture(config: dict[str, Any], every: frozenset[int]) -> frozenset[int]:
    dense = _number(config, "first_k_dense_replace") or 0
    step = _number(config, "decoder_sparse_step") or 1
    every_so_many = _number(config, "moe_layer_freq") or 1
    listed = config.get("mlp_only_layers")
    without = {i for i in listed if isinstance(i, int)} if isinstance(listed, list) else set()
    return frozenset(
        i
        for i in every
        if i >= dense and (i + 1) % step == 0 and i % every_so_many == 0 and i not in without
    )


_KEY = re.compile(r'"(?:[^"\\]|\\.)*"(?=\s*:)')


def _places(path: str, text: str, config: dict[str, Any]) -> dict[str, Location]:
    """Give the place where each key stands first."""
    wanted = {json.dumps(key): key for key in config}
    places: dict[str, Location] = {}
    line, start = 1, 0
    for match in _KEY.finditer(text):
        key = wanted.pop(match[0], None)
        if key is not None:
            line += text.count("\n", start, match.start())
            start = match.start()
            column = start - text.rfind("\n", 0, start)
            end = column + len(match[0])
            places[key] = Location(path, line, column, line, end, note=f"{key} stands here")
    return places
