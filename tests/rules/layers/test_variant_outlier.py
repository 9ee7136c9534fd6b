"""MG706 variant-outlier."""

from __future__ import annotations

import copy
from collections.abc import Collection

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.layers._shared import carrying, first_slot


def windowed(pair: Pair, layers: Collection[int]) -> Pair:
    """Some layers run attention with a window: the same slots, another constant."""
    branch = copy.copy(pair.branch("TASK_PAGED_ATTENTION_HOPPER"))
    branch.variant = 1
    pair.branches.append(branch)
    for layer in layers:
        for task in carrying(pair, f"layer_{layer}_k_cache"):
            task["variant_id"] = 1
    return pair


@fires(
    "MG706",
    Severity.WARNING,
    graph=lambda p: (*first_slot(p, "layer_5_k_cache", 0)[:2], "variant_id"),
    says=("in layer 5, TASK_PAGED_ATTENTION_HOPPER", "runs variant 1", "layers 0-4, 6-11"),
)
def test_one_layer_has_a_window() -> Pair:
    return windowed(qwen3(12).emit(), [5])


@fires(
    "MG706",
    Severity.WARNING,
    graph=lambda p: (*first_slot(p, "layer_6_k_cache", 0)[:2], "variant_id"),
    says=("in layer 6", "runs variant 0", "layers 0, 2, 4, 8, 10 it runs variant 1"),
)
def test_every_second_layer_but_one_has_a_window() -> Pair:
    return windowed(qwen3(12).emit(), [0, 2, 4, 8, 10])


@silent("MG706")
def test_every_second_layer_has_a_window() -> Pair:
    return windowed(qwen3(12).emit(), range(0, 12, 2))


@silent("MG706")
def test_five_local_layers_and_a_global_one_and_the_last_is_global() -> Pair:
    return windowed(qwen3(26).emit(), [n for n in range(26) if n % 6 != 5 and n != 25])


@silent("MG706")
def test_the_first_the_middle_and_the_last_have_none() -> Pair:
    return windowed(qwen3(12).emit(), [n for n in range(12) if n not in (0, 6, 11)])


@silent("MG706")
def test_the_last_layer_has_a_window() -> Pair:
    return windowed(qwen3(12).emit(), [11])


@silent("MG706")
def test_another_variant_is_for_other_slots() -> Pair:
    return qwen3(12).without_qk_norm(layer=5).emit()


@silent("MG706")
def test_the_first_of_every_sixth_layer_is_the_only_one() -> Pair:
    return windowed(qwen3(8).emit(), [5])
