"""MG608 reduced-twice."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import Expect, fires, silent, where

ALLREDUCE, REDUCE = 302, 107


@fires("MG608", says=("sums attn_allreduce_out over 2 ranks",))
def test_a_sum_of_what_is_summed() -> Expect:
    pair = qwen3(2, ranks=2).emit(1)
    for task in pair.graph["all_tasks"]:
        if task["task_type"] == ALLREDUCE and task["inputs"][0]["base_ptr"] == "mlp_out":
            task["inputs"][0]["base_ptr"] = "attn_allreduce_out"
    tiles = len(pair.tasks(ALLREDUCE)) // 4
    place = where(pair, ALLREDUCE, "inputs", 0, "base_ptr", nth=tiles)
    return Expect(pair, graph=place, rank=1)


@fires("MG608", says=("sums rmsnorm_out over 2 ranks",))
def test_a_sum_of_a_norm() -> Expect:
    pair = qwen3(2, ranks=2).emit(0)
    for task in pair.graph["all_tasks"]:
        if task["task_type"] == ALLREDUCE and task["inputs"][0]["base_ptr"] == "mlp_out":
            task["inputs"][0]["base_ptr"] = "rmsnorm_out"
    tiles = len(pair.tasks(ALLREDUCE)) // 4
    return Expect(pair, graph=where(pair, ALLREDUCE, "inputs", 0, "base_ptr", nth=tiles))


@fires("MG608", says=("sums attn_allreduce_out over 4 ranks",))
def test_gathered_and_summed_a_second_time() -> Expect:
    pair = qwen3(2, ranks=4, collective="allgather").emit(1)
    for task in pair.graph["all_tasks"]:
        if task["task_type"] in (301, REDUCE) and task["inputs"][0]["base_ptr"] == "mlp_out":
            task["inputs"][0]["base_ptr"] = "attn_allreduce_out"
    tiles = len(pair.tasks(REDUCE)) // 4
    return Expect(pair, graph=where(pair, REDUCE, "inputs", 0, "base_ptr", nth=tiles), rank=1)


@silent("MG608")
def test_each_part_is_summed_once() -> Pair:
    return qwen3(3, ranks=2).emit(1)


@silent("MG608")
def test_each_part_is_gathered_and_summed_once() -> Pair:
    return qwen3(2, ranks=4, collective="allgather").emit()


@silent("MG608")
def test_an_embedding_that_each_rank_has_a_share_of() -> Pair:
    pair = qwen3(2, ranks=2).emit()
    for task in pair.graph["all_tasks"]:
        for tensor in task["inputs"] or []:
            if tensor["base_ptr"] == "embed_out":
                tensor["base_ptr"] = "attn_allreduce_out"
    first = pair.tasks(ALLREDUCE)[0]
    first["inputs"][0]["base_ptr"] = "embed_out"
    return pair
