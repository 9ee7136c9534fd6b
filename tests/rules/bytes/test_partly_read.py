"""MG203 partly-read."""

from __future__ import annotations

from tests.emitter import Declaration, Pair, deepseek_v3, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import of_a_new_type, tiles_of

PROJECTION = 155
RESIDUAL = 156


@fires("MG203", cuda='all_tensors["layer_0_qkv_proj"]', says=("read by no task",))
def test_rows_of_a_shuffled_weight_are_read_twice_and_their_neighbours_never() -> Pair:
    pair = qwen3(1).emit()
    tiles = tiles_of(pair, PROJECTION, "inputs", 1, "layer_0_qkv_proj")
    tiles[-1]["offset"] = tiles[0]["offset"]
    return pair


@fires("MG203", cuda='all_tensors["layer_1_o_proj"]', says=("in the other layers",))
def test_the_last_rows_of_a_host_weight_are_read_by_none_in_one_layer() -> Pair:
    pair = qwen3(4).emit()
    tiles = tiles_of(pair, RESIDUAL, "inputs", 1, "layer_1_o_proj")
    tiles[-1]["offset"] = tiles[0]["offset"]
    return pair


@fires("MG203", cuda='all_tensors["layer_0_o_proj"]')
def test_rows_in_the_middle_of_a_host_weight_are_read_by_none() -> Pair:
    pair = qwen3(1).emit()
    tiles = tiles_of(pair, RESIDUAL, "inputs", 1, "layer_0_o_proj")
    tiles[1]["offset"] = tiles[0]["offset"]
    return pair


@silent("MG203")
def test_a_layer_with_a_smaller_weight_and_fewer_tasks() -> Pair:
    pair = qwen3(4).emit()
    tasks = [t for t in pair.tasks(RESIDUAL) if t["inputs"][1]["base_ptr"] == "layer_1_o_proj"]
    tasks[-1]["inputs"][1]["base_ptr"] = "layer_1_o_proj_rest"
    pair.declarations.insert(0, Declaration("layer_1_o_proj_rest"))
    return pair


@silent("MG203")
def test_a_weight_in_column_major_order() -> Pair:
    return deepseek_v3(2).emit()


@silent("MG203")
def test_a_buffer_that_split_kv_only_partly_touches() -> Pair:
    return qwen3(2, split_kv=True).emit()


@silent("MG203")
def test_shuffled_weights_of_a_data_type_that_no_table_knows() -> Pair:
    return of_a_new_type(qwen3(2).emit())
