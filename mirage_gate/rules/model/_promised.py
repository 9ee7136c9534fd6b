"""What a model's configuration promises of its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mirage_gate.artifacts.model import ModelConfig, Promise
    from mirage_gate.facts.model.features import Features

COUNT = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "hybrid_override_pattern")
"""The keys that say how many layers there are."""


class Promised(NamedTuple):
    """One thing that a layer has or lacks: in which it is promised, and what the graph shows.

    ``shown`` tells of a layer whether it has it, or None where that cannot be seen; ``keys`` are
    those of the configuration that may say so.
    """

    promise: Promise
    shown: Callable[[int], bool | None]
    what: str
    keys: tuple[str, ...]


def promised(features: Features, model: ModelConfig) -> tuple[Promised, ...]:
    """Give each promise of a configuration."""
    return (
        Promised(
            model.attention,
            features.attends,
            "attention",
            ("layer_types", "block_configs", "full_attention_interval", *COUNT),
        ),
        Promised(
            model.feed_forward,
            features.feeds,
            "a feed-forward network",
            ("block_configs", "model_type", *COUNT),
        ),
        Promised(
            model.rotary,
            features.rotates,
            "rotary embedding",
            ("no_rope_layers", "position_embedding_type", "rope_parameters", "rope_theta"),
        ),
        Promised(
            model.qk_norm,
            features.normalises,
            "norms of queries and keys",
            ("use_qk_norm", "qk_layernorm", "model_type"),
        ),
        Promised(
            model.mixture,
            features.mixes,
            "a mixture of experts",
            (
                *("moe_layer_freq", "first_k_dense_replace", "interleave_moe_layer_step"),
                *("num_experts", "n_routed_experts", "num_local_experts", "model_type"),
            ),
        ),
    )
