"""MG206 type-clash."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, tiles_of

SILU, REDUCE, FP8 = 118, 111, 276


@fires(
    "MG206",
    Severity.WARNING,
    graph=first_slot(SILU, "inputs", 0, "mlp_mid", "data_type"),
    says=("float32",),
)
def test_a_reader_that_takes_bfloat16_for_float32() -> Pair:
    pair = qwen3(1).emit()
    tile = tiles_of(pair, SILU, "inputs", 0, "mlp_mid")[0]
    tile["data_type"] = 950
    tile["dims"][-1] //= 2
    return pair


@fires(
    "MG206",
    Severity.WARNING,
    graph=first_slot(SILU, "inputs", 0, "mlp_mid", "data_type"),
    says=("float16", "bfloat16"),
)
def test_float16_and_bfloat16_are_of_one_size_and_mean_other_numbers() -> Pair:
    pair = qwen3(1).emit()
    tiles_of(pair, SILU, "inputs", 0, "mlp_mid")[0]["data_type"] = 940
    return pair


@fires(
    "MG206",
    graph=first_slot(REDUCE, "inputs", 0, "argmax_part_index", "data_type"),
    says=("is for floating numbers", "int64"),
)
def test_indices_where_values_belong() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(REDUCE):
        task["inputs"].reverse()
    return pair


@fires(
    "MG206",
    Severity.WARNING,
    graph=first_slot(FP8, "inputs", 2, "layer_0_q_a_proj", "data_type"),
    says=("8-bit floating numbers", "int8"),
)
def test_a_kernel_for_float8_is_given_int8() -> Pair:
    pair = deepseek_v3(1).emit()
    for tile in tiles_of(pair, FP8, "inputs", 2, "layer_0_q_a_proj"):
        tile["data_type"] = 935
    return pair


@silent("MG206")
def test_every_tensor_has_one_data_type() -> Pair:
    return deepseek_v3(4, dense_layers=2, ranks=8).emit(3)


@silent("MG206")
def test_a_model_of_float16() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.graph["all_tasks"]:
        for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ())):
            if tensor["data_type"] == 941:
                tensor["data_type"] = 940
    return pair
