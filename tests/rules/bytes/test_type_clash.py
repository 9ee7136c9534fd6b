"""MG206 type-clash."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, tiles_of

SILU = 118


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


@silent("MG206")
def test_float16_and_bfloat16_are_of_one_size() -> Pair:
    pair = qwen3(1).emit()
    tiles_of(pair, SILU, "inputs", 0, "mlp_mid")[0]["data_type"] = 940
    return pair
