"""MG207 tile-gap."""

from __future__ import annotations

from dataclasses import replace

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3, qwen3_moe, shared, with_step
from tests.emitter.graph import Program, Tensor
from tests.rules import fires, silent
from tests.rules.bytes._shared import first_slot, tiles_of

PROJECTION = 155


@fires(
    "MG207",
    Severity.ERROR,
    graph=first_slot(PROJECTION, "inputs", 1, "lm_head", "offset", last=True),
    says=("read the same", "of lm_head among it", "write different tiles"),
)
def test_the_last_tile_of_the_head_is_read_from_the_one_before() -> Pair:
    pair = qwen3(2).sized(lm_tiles=8).emit()
    tiles = tiles_of(pair, PROJECTION, "inputs", 1, "lm_head")
    tiles[-1]["offset"] = tiles[-2]["offset"]
    return pair


SUM = 261


@fires(
    "MG207",
    Severity.WARNING,
    graph=first_slot(SUM, "inputs", 2, "attn_proj_out", "offset", last=True),
    says=("of attn_proj_out more than once", "2 tiles in all", "read less often"),
)
def test_both_tasks_of_the_last_layer_read_one_half_of_the_residual() -> Pair:
    """In the layer alone it might be meant; in the other layers each task has a half."""
    pair = qwen3_moe(3).emit()
    tiles = tiles_of(pair, SUM, "inputs", 2, "attn_proj_out")
    tiles[-1]["offset"] = tiles[-2]["offset"]
    return pair


@silent("MG207")
def test_a_residual_that_every_layer_reads_one_half_of() -> Pair:
    pair = qwen3_moe(3).emit()
    for tile in tiles_of(pair, SUM, "inputs", 2, "attn_proj_out"):
        tile["offset"] = 0
    return pair


@silent("MG207")
def test_an_operator_whose_tasks_all_read_the_same() -> Pair:
    return qwen3(3).emit()


@silent("MG207")
def test_split_k_style_tiles_over_two_axes() -> Pair:
    return qwen3_moe(3).emit()


def repeated(p: Program, layer: int, stream: Tensor) -> None:
    """One KV head, repeated for four query heads."""
    one = shared(p, "kv_one", stream.shape[0], 32)
    four = shared(p, "kv_four", stream.shape[0], 128)
    p.run("IDENTITY", (1,), [replace(stream, shape=one.shape).whole], [one.whole])
    p.run("IDENTITY", (4,), [one.whole], [four.cut(x=1)])
    p.run("ELEMENTWISE_ADD_SM100", (4,), [stream.cut(x=0), four.cut(x=0)], [stream.cut(x=0)])


@silent("MG207")
def test_a_copy_repeats_what_it_reads() -> Pair:
    return with_step(qwen3(3), repeated, range(3)).emit()


@fires(
    "MG207",
    Severity.ERROR,
    graph=first_slot(119, "inputs", 0, "kv_one", "offset", last=True),
    says=("4 tasks (first", "read the same", "of kv_one among it"),
)
def test_what_is_no_copy_repeats_what_it_reads() -> Pair:
    pair = with_step(qwen3(3), repeated, range(3)).emit()
    for task in pair.tasks(121):
        task["task_type"] = 119
    for branch in pair.branches:
        branch.task = branch.task.replace("IDENTITY", "RMS_NORM")
    return pair
