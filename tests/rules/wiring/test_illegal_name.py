"""MG109 illegal-name."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import fires, silent


@fires("MG109", cuda='all_tensors["model.layers.0.q_norm"]', says=("no C++ identifier",))
def test_a_name_with_dots() -> Pair:
    return qwen3(1).named(weights="model.layers.{layer}.{part}").emit()


@silent("MG109")
def test_a_name_with_digits_and_underscores() -> Pair:
    return qwen3(1).with_extra_host("_x9_").emit()
