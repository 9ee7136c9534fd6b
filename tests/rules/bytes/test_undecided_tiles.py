"""MG208 undecided-tiles."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, of_a_new_type, tiles_of

SILU = 118


@fires("MG208", Severity.WARNING, graph=first_slot(SILU, "inputs", 0, "mlp_mid", "strides"))
def test_dims_that_no_memory_could_hold() -> Pair:
    pair = qwen3(1).emit()
    for i, tile in enumerate(tiles_of(pair, SILU, "inputs", 0, "mlp_mid")):
        tile["dims"], tile["strides"] = [2**31 - 1, 2**31 - 1], [3 + 2 * i, 5]
    return pair


@fires(
    "MG208",
    Severity.WARNING,
    graph=("all_tasks", 2, "inputs", 1, "data_type"),
    says=("data type 942 has no known size", "more tensors"),
)
def test_a_data_type_that_no_table_knows() -> Pair:
    return of_a_new_type(qwen3(2).emit())


@silent("MG208")
def test_three_thousand_rows() -> Pair:
    pair = qwen3(1).emit()
    for tile in tiles_of(pair, SILU, "inputs", 0, "mlp_mid"):
        tile["dims"], tile["strides"] = [3000, 2], [6, 1]
    return pair
