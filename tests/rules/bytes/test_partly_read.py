"""MG203 partly-read."""

from __future__ import annotations

from mirage_gate import Severity
from tests.emitter import Declaration, Pair, deepseek_v3, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import of_a_new_type, tiles_of

ATTENTION = 153
PROJECTION = 155
RESIDUAL = 156


@fires("MG203", cuda='all_tensors["layer_0_qkv_proj"]', says=("read by no task",))
def test_rows_of_a_shuffled_weight_are_read_twice_and_their_neighbours_never() -> Pair:
    pair = qwen3(1).emit()
    tiles = tiles_of(pair, PROJECTION, "inputs", 1, "layer_0_qkv_proj")
    tiles[-1]["offset"] = tiles[0]["offset"]
    return pair


@fires("MG203", cuda='all_tensors["layer_1_o_proj"]', says=("; other layers read bytes 0..",))
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


def _one_row_late(pair: Pair, *names: str) -> Pair:
    for task in pair.tasks(ATTENTION):
        for tile in task["inputs"]:
            if tile["base_ptr"] in names:
                tile["offset"] += tile["strides"][0] * 2
    return pair


@fires(
    "MG203",
    Severity.WARNING,
    cuda='all_tensors["cos_position_embedding"]',
    says=("bytes 0..63", "read by no task"),
)
def test_a_table_of_which_nobody_reads_the_first_row() -> Pair:
    return _one_row_late(qwen3(2).emit(), "cos_position_embedding")


@fires("MG203", cuda='all_tensors["layer_1_q_norm"]', says=("bytes 0..63",))
def test_a_weight_that_begins_late_in_one_layer() -> Pair:
    return _one_row_late(_wide_norms(), "layer_1_q_norm")


def _wide_norms() -> Pair:
    """Norm weights of two dims, of which a task reads one row."""
    pair = qwen3(2).emit()
    for task in pair.tasks(ATTENTION):
        for tile in task["inputs"]:
            if tile["base_ptr"].endswith("_q_norm"):
                tile["dims"], tile["strides"] = [1, *tile["dims"]], [tile["dims"][0], 1]
    return pair


@silent("MG203")
def test_weights_that_all_begin_at_their_first_row() -> Pair:
    return _wide_norms()


@silent("MG203")
def test_a_layer_with_a_smaller_weight_and_fewer_tasks() -> Pair:
    pair = qwen3(4).emit()
    tasks = [t for t in pair.tasks(RESIDUAL) if t["inputs"][1]["base_ptr"] == "layer_1_o_proj"]
    tasks[-1]["inputs"][1] |= {"base_ptr": "layer_1_o_proj_rest", "offset": 0}
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
