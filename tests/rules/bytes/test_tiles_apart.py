"""MG213 tiles-apart."""

from __future__ import annotations

from typing import Any

from mirage_gate.config import Config, TaskTypeConfig, task_types
from mirage_gate.facts import Options
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.rules import Expect, fires, silent, where
from tests.rules.bytes._shared import first_slot, tiles_of

NORM, LINEAR, RESIDUAL, ATTENTION, SILU = 154, 155, 156, 153, 118
REDUCE, FP8, W13 = 107, 276, 254


def _exchanged() -> Pair:
    """Two tasks of o_proj write each other's columns."""
    pair = qwen3(1).emit()
    first, second = _o_proj(pair)[:2]
    first["outputs"], second["outputs"] = second["outputs"], first["outputs"]
    return pair


def _o_proj(pair: Pair) -> list[dict[str, Any]]:
    """The tasks of layer 0's o_proj."""
    return [t for t in pair.tasks(RESIDUAL) if t["inputs"][1]["base_ptr"] == "layer_0_o_proj"]


@fires(
    "MG213",
    graph=first_slot(RESIDUAL, "outputs", 0, "attn_proj_out", "offset"),
    says=("different orders", "layer_0_o_proj"),
)
def test_two_tasks_write_each_others_columns() -> Pair:
    return _exchanged()


@fires("MG213", graph=first_slot(RESIDUAL, "inputs", 2, "embed_out", "offset"))
def test_the_residuals_tiles_are_rotated() -> Pair:
    pair = qwen3(1).emit()
    found = _o_proj(pair)
    tiles = [task["inputs"][2] for task in found]
    for task, tile in zip(found, tiles[1:] + tiles[:1], strict=True):
        task["inputs"][2] = tile
    return pair


@fires("MG213", graph=first_slot(LINEAR, "inputs", 1, "layer_0_qkv_proj", "offset"))
def test_the_weights_tiles_are_reversed() -> Pair:
    pair = qwen3(1).emit()
    found = [t for t in pair.tasks(LINEAR) if t["inputs"][1]["base_ptr"] == "layer_0_qkv_proj"]
    for task, tile in zip(found, [t["inputs"][1] for t in found][::-1], strict=True):
        task["inputs"][1] = tile
    return pair


@fires("MG213", graph=first_slot(ATTENTION, "outputs", 0, "attn_out", "offset"), says=("axis h",))
def test_each_head_writes_the_next_ones_columns() -> Pair:
    pair = qwen3(1).emit()
    found = pair.tasks(ATTENTION)
    outputs = [task["outputs"] for task in found]
    for task, output in zip(found, outputs[1:] + outputs[:1], strict=True):
        task["outputs"] = output
    return pair


@fires(
    "MG213",
    graph=first_slot(RESIDUAL, "inputs", 1, "layer_0_o_proj", "offset"),
    says=("further on", "beginning of layer_0_o_proj"),
)
def test_every_weight_tile_is_one_tile_late() -> Pair:
    pair = qwen3(1).emit()
    for task in _o_proj(pair):
        tile = task["inputs"][1]
        tile["offset"] += tile["dims"][0] * tile["strides"][0] * 2
    return pair


@fires(
    "MG213",
    graph=first_slot(NORM, "inputs", 1, "layer_0_input_layernorm", "dims"),
    says=("they share the axis d",),
)
def test_a_norm_weight_of_another_length() -> Pair:
    pair = qwen3(1).emit()
    for tile in tiles_of(pair, NORM, "inputs", 1, "layer_0_input_layernorm"):
        tile["dims"] = [tile["dims"][0] // 2]
    return pair


@fires("MG213", graph=first_slot(RESIDUAL, "inputs", 1, "layer_0_down_proj", "dims"))
def test_two_projections_have_each_others_weight() -> Pair:
    pair = qwen3(1).emit()
    down = [t for t in pair.tasks(RESIDUAL) if t["inputs"][1]["base_ptr"] == "layer_0_down_proj"]
    for one, other in zip(_o_proj(pair), down, strict=True):
        one["inputs"][1], other["inputs"][1] = other["inputs"][1], one["inputs"][1]
    return pair


@fires(
    "MG213",
    graph=first_slot(RESIDUAL, "inputs", 1, "layer_0_down_proj", "strides"),
    says=("by columns",),
)
def test_a_weight_read_by_columns() -> Pair:
    pair = qwen3(1).emit()
    for tile in tiles_of(pair, RESIDUAL, "inputs", 1, "layer_0_down_proj"):
        rows = tile["offset"] // (tile["strides"][0] * 2)
        tile["offset"], tile["strides"] = rows * 2, [1, 1024]
    return pair


@fires("MG213", graph=first_slot(FP8, "inputs", 3, "layer_0_q_a_proj_scale", "offset"))
def test_the_scales_of_the_neighbour() -> Pair:
    pair = deepseek_v3(1).emit()
    found = [t for t in pair.tasks(FP8) if t["inputs"][2]["base_ptr"] == "layer_0_q_a_proj"]
    tiles = [task["inputs"][3] for task in found]
    for task, tile in zip(found, tiles[1:] + tiles[:1], strict=True):
        task["inputs"][3] = tile
    return pair


@fires("MG213", graph=lambda pair: where(pair, REDUCE, "inputs", 1, "dims"), says=("4 ranks",))
def test_a_sum_over_fewer_slices_than_ranks() -> Pair:
    pair = qwen3(1, ranks=4, collective="allgather").emit()
    for task in pair.tasks(REDUCE):
        task["inputs"][1]["dims"][0] = 3
    return pair


@fires("MG213", says=("beginning of the next row",))
def test_more_tiles_than_the_axis_has() -> Expect:
    pair = qwen3_moe(1).emit()
    outputs = [task["outputs"][0] for task in pair.tasks(W13)]
    tiles = len({output["offset"] for output in outputs})
    width = outputs[0]["dims"][2] * (tiles // 2)
    top = outputs[0]["dims"][1]
    for tensor in (*outputs, *tiles_of(pair, SILU, "inputs", 0, outputs[0]["base_ptr"])):
        tensor["strides"] = [top * width, width, 1]
    past = next(i for i, output in enumerate(outputs) if output["offset"] == width * 2)
    return Expect(pair, graph=where(pair, W13, "outputs", 0, "offset", nth=past))


@silent("MG213")
def test_the_tiles_as_they_are() -> Pair:
    return qwen3(2, ranks=2).emit(rank=1)


@silent("MG213")
def test_parts_of_a_fused_weight_lie_between_each_other() -> Pair:
    return qwen3_ampere(3, shuffled=(1,)).emit()


@silent("MG213")
def test_tasks_in_another_order() -> Pair:
    pair = qwen3(1).emit()
    found = _o_proj(pair)
    slots = [(task["inputs"], task["outputs"]) for task in found][::-1]
    for task, (inputs, outputs) in zip(found, slots, strict=True):
        task["inputs"], task["outputs"] = inputs, outputs
    return pair


@silent(
    "MG213",
    options=Options(
        task_types=task_types(
            Config(
                task_types=[
                    TaskTypeConfig(
                        name="TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER",
                        operator="x[_,_] w[_,_] r[_,_] -> y[_,_]",
                    )
                ]
            )
        )
    ),
)
def test_a_kernel_whose_slots_a_user_relates_otherwise() -> Pair:
    return _exchanged()
