"""MG214 empty-tile."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot

NORM, ATTENTION = 154, 153


def _tables_of_no_rows() -> Pair:
    pair = qwen3(2).emit()
    for task in pair.tasks(ATTENTION):
        task["inputs"][5]["dims"][0] = 0
    return pair


@fires(
    "MG214",
    graph=first_slot(ATTENTION, "inputs", 5, "cos_position_embedding", "dims"),
    says=("0 x 32", "they read nothing"),
)
def test_rotary_tables_of_no_rows() -> Pair:
    return _tables_of_no_rows()


@fires(
    "MG214", graph=first_slot(NORM, "outputs", 0, "rmsnorm_out", "dims"), says=("write nothing",)
)
def test_one_task_that_writes_no_row() -> Pair:
    pair = qwen3(1).emit()
    pair.tasks(NORM)[0]["outputs"][0]["dims"][0] = 0
    return pair


@silent("MG214")
def test_a_tile_of_one_row() -> Pair:
    return qwen3(2).emit()


@silent("MG214")
def test_the_sentinel_has_no_dims() -> Pair:
    return qwen3(2).without_rope(layer=0).emit()
