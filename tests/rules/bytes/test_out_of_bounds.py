"""MG202 out-of-bounds."""

from __future__ import annotations

from tests.emitter import Pair, qwen3, qwen3_moe
from tests.rules import fires, silent, with_text
from tests.rules.bytes._shared import first_slot, tiles_of

SILU = 118


@fires(
    "MG202",
    graph=first_slot(SILU, "outputs", 0, "silu_mul_out", "offset", last=True),
    says=("past the end of silu_mul_out",),
)
def test_a_tile_moved_past_its_allocation() -> Pair:
    pair = qwen3(1).emit()
    last = tiles_of(pair, SILU, "outputs", 0, "silu_mul_out")[-1]
    last["offset"] += 2
    return pair


@fires(
    "MG202",
    graph=first_slot(SILU, "outputs", 0, "silu_mul_out", "offset", last=True),
    says=("runs 16 bytes past the end of silu_mul_out",),
)
def test_a_buffer_that_is_entered_further_on() -> Pair:
    pair = qwen3(1).emit()
    line = 'all_tensors["silu_mul_out"] = silu_mul_out'
    return with_text(pair, pair.cuda_text().replace(f"{line};", f"{line} + 16;"))


@silent("MG202")
def test_a_tile_up_to_the_last_byte() -> Pair:
    return qwen3_moe(3).emit()


@silent("MG202")
def test_a_remote_write_past_the_local_buffer() -> Pair:
    return qwen3(2, ranks=4, collective="allgather").emit(rank=3)
