"""MG705 grid-outlier."""

from __future__ import annotations

import copy

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent, where
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


def in_tiles(pair: Pair, layer: int, width: int) -> Pair:
    """Cut a layer's SiLU into halves: twice the tasks for the same columns, no events kept."""
    tasks = pair.graph["all_tasks"]
    inside = carrying(pair, f"layer_{layer}_down_proj")
    silu = [t for t in pair.tasks(118) if tasks.index(t) < tasks.index(inside[0])][-4:]
    for task in reversed(silu):
        other = copy.deepcopy(task)
        tasks.insert(tasks.index(task) + 1, other)
        for side in ("inputs", "outputs"):
            columns = task[side][0]["dims"][1] // 2
            for half, tile in enumerate((task[side][0], other[side][0])):
                tile["dims"][1] = columns
                tile["offset"] += half * columns * width
    return pair


@silent("MG705")
def test_smaller_tiles_cover_the_same() -> Pair:
    return in_tiles(qwen3(8).emit(), 4, 2)


@fires(
    "MG705",
    Severity.WARNING,
    graph=lambda pair: where(pair, 118, "task_type", nth=16),
    says=("in layer 4, TASK_SILU_MUL", "has 8 tasks"),
)
def test_twice_the_tasks_do_the_same_twice() -> Pair:
    return in_tiles(qwen3(8).emit(), 4, 0)
