"""MG201 unwritten-range."""

from __future__ import annotations

from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, tiles_of

PROJECTION = 155
ATTENTION = 153


@fires(
    "MG201",
    graph=first_slot(ATTENTION, "inputs", 0, "attn_in", "offset"),
    says=("of attn_in", "written by none"),
)
def test_one_tile_of_a_projection_is_written_over_its_sibling() -> Pair:
    pair = qwen3(1).emit()
    tiles = tiles_of(pair, PROJECTION, "outputs", 0, "attn_in")
    tiles[0]["offset"] = tiles[1]["offset"]
    return pair


@silent("MG201")
def test_every_tile_of_a_projection_is_written() -> Pair:
    return qwen3(2).emit()


@silent("MG201")
def test_a_cache_nobody_fills_before_it_is_read() -> Pair:
    return deepseek_v3(2).emit()
