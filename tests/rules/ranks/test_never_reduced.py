"""MG607 never-reduced."""

from __future__ import annotations

import pytest

from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import Expect, fires, silent, where

NORM, ALLREDUCE = 154, 302


def _unread(pair: Pair, layers: int = 3, only: int | None = None) -> Pair:
    """Whoever took the sum behind the MLP of a layer, or of all, takes the part before it."""
    steps = [i for i, t in enumerate(pair.graph["all_tasks"]) if t["task_type"] == ALLREDUCE]
    tiles = len(steps) // (2 * layers)
    ends = [steps[(2 * layer + 2) * tiles - 1] for layer in range(layers)] + [1 << 30]
    for layer in range(layers):
        if only in (None, layer):
            for task in pair.graph["all_tasks"][ends[layer] + 1 : ends[layer + 1]]:
                for tensor in task["inputs"] or []:
                    if tensor["base_ptr"] == "mlp_final":
                        tensor["base_ptr"] = "mlp_out"
    return pair


@pytest.mark.parametrize("rank", [0, 1])
@fires("MG607", says=("mlp_out, made with layer_0_down_proj, goes into TASK_RMS", "over 2 ranks"))
def test_the_norm_takes_the_part(rank: int) -> Expect:
    pair = _unread(qwen3(3, ranks=2).emit(rank))
    place = where(pair, NORM, "inputs", 0, "base_ptr", nth=8)  # the first behind an MLP
    return Expect(pair, graph=place, rank=rank)


def _bare(pair: Pair, gone: str = "mlp_final") -> Pair:
    """A pair without the sums that fill a buffer: their operand is read in its place."""
    for task in pair.graph["all_tasks"]:
        if task["task_type"] == ALLREDUCE and task["outputs"][0]["base_ptr"] == gone:
            task["outputs"][0]["base_ptr"] = task["inputs"][0]["base_ptr"] = "attn_proj_out"
        for tensor in task["inputs"] or []:
            if tensor["base_ptr"] == gone:
                tensor["base_ptr"] = "mlp_out"
    return pair


@fires("MG607", says=("its residual is left to another rank", "layers 0-2"), once=True)
def test_no_layer_sums_its_mlp() -> Expect:
    pair = _bare(qwen3(3, ranks=2).emit(1))
    return Expect(pair, graph=where(pair, NORM, "inputs", 0, "base_ptr", nth=8), rank=1)


@fires("MG607", says=("its residual is added on one rank alone",), once=True)
def test_the_rank_that_asks_for_its_number() -> Expect:
    pair = _bare(qwen3(3, ranks=2).emit(0))
    return Expect(pair, graph=where(pair, NORM, "inputs", 0, "base_ptr", nth=8))


@fires("MG607", says=("TASK_MLA_MTP_DECODE_TP8_REDUCE_SM100 gives each rank its own heads",))
def test_attention_with_an_eighth_of_the_heads() -> Expect:
    pair = deepseek_v3(4, ranks=8).emit()
    tasks = pair.graph["all_tasks"]
    task = next(
        i
        for i, t in enumerate(tasks)
        if t["inputs"] and t["inputs"][0]["base_ptr"] == "layer_0_attn_proj_fused"
    )
    return Expect(pair, graph=("all_tasks", task, "inputs", 0, "base_ptr"))


@pytest.mark.parametrize("rank", [0, 1])
@silent("MG607")
def test_every_part_is_summed(rank: int) -> Pair:
    return qwen3(3, ranks=2).emit(rank)


@silent("MG607")
def test_every_part_is_put_to_the_others_and_summed() -> Pair:
    return qwen3(2, ranks=4, collective="allgather").emit(2)


@silent("MG607")
def test_nothing_decides_it() -> Pair:
    pair = _bare(_bare(qwen3(2, ranks=2, arch="blackwell").emit(0)), "attn_allreduce_out")
    for task in pair.graph["all_tasks"]:
        if task["task_type"] == ALLREDUCE:
            task["inputs"][0]["base_ptr"] = "all_reduce_buf"
    return pair


@silent("MG607")
def test_one_rank_has_all_heads() -> Pair:
    return deepseek_v3(4).emit()
