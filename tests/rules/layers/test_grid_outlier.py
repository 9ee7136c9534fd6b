"""MG705 grid-outlier."""

from __future__ import annotations

import copy

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent
from tests.rules.layers._shared import carrying, first_slot


def with_fewer_norms(layers: int, layer: int) -> Pair:
    pair = qwen3(layers).emit()
    norms = carrying(pair, f"layer_{layer}_input_layernorm")
    follow = carrying(pair, f"layer_{layer}_qkv_proj")[0]
    keep = {key: norms[0][key] for key in ("trigger_event", "dependent_event")}
    norms[0].update({**copy.deepcopy(follow), **keep})
    tasks = pair.graph["all_tasks"]
    at = tasks.index(norms[0])
    tasks[at : at + len(norms)] = [*norms[1:], norms[0]]
    return pair


@fires(
    "MG705",
    Severity.WARNING,
    says=("in layer 2", "has 3 tasks", "it has 4"),
    graph=lambda p: (*first_slot(p, "layer_2_input_layernorm", 0)[:2], "task_type"),
)
def test_one_layer_has_fewer_tasks() -> Pair:
    return with_fewer_norms(5, 2)


@silent("MG705")
def test_three_layers_are_too_few_to_tell() -> Pair:
    return with_fewer_norms(3, 1)


@silent("MG705")
def test_dense_and_mixture_layers_have_other_grids() -> Pair:
    return deepseek_v3(5).emit()
