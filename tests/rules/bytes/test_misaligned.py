"""MG205 misaligned."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, tiles_of

PROJECTION = 155
SILU = 118


@fires("MG205", graph=first_slot(SILU, "inputs", 0, "mlp_mid", "offset"), says=("2 bytes",))
def test_an_offset_of_half_an_element() -> Pair:
    pair = qwen3(1).emit()
    tiles_of(pair, SILU, "inputs", 0, "mlp_mid")[0]["offset"] += 1
    return pair


@fires(
    "MG205",
    Severity.WARNING,
    graph=first_slot(PROJECTION, "inputs", 1, "layer_0_qkv_proj", "offset"),
    says=("TMA", "16 bytes"),
)
def test_a_tma_tile_that_is_aligned_to_its_element_only() -> Pair:
    pair = qwen3(1).emit()
    tiles_of(pair, PROJECTION, "inputs", 1, "layer_0_qkv_proj")[0]["offset"] += 2
    return pair


@silent("MG205")
def test_a_tile_read_by_pointer_needs_no_sixteen_bytes() -> Pair:
    return qwen3(1).emit()
