"""MG209 stride-clash."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, tiles_of

NORM = 154
RESIDUAL = 156
SILU = 118


@fires(
    "MG209",
    Severity.WARNING,
    graph=first_slot(SILU, "inputs", 0, "mlp_mid", "strides"),
    says=("768",),
)
def test_one_task_that_walks_rows_of_half_the_length() -> Pair:
    pair = qwen3(1).emit()
    tile = tiles_of(pair, SILU, "inputs", 0, "mlp_mid")[0]
    tile["strides"][0] //= 2
    return pair


@silent("MG209")
def test_a_kernel_that_views_a_buffer_under_another_shape() -> Pair:
    pair = qwen3(4).emit()
    for tile in tiles_of(pair, RESIDUAL, "inputs", 0, "attn_out"):
        rows, width = tile["dims"]
        tile["dims"], tile["strides"] = [2 * rows, width // 2], [width // 2, 1]
    return pair


@silent("MG209")
def test_rows_of_one_element_whose_stride_says_nothing() -> Pair:
    pair = qwen3(1).emit()
    tiles_of(pair, NORM, "inputs", 0, "embed_out")[0]["strides"][0] = 8
    return pair
