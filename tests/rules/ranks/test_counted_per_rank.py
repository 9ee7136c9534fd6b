"""MG609 counted-per-rank."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import Expect, Ranks, fires, silent

HOPPER = "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER"
BLACKWELL = "TASK_LINEAR_WITH_RESIDUAL_SM100"
AMPERE = "TASK_LINEAR_WITH_RESIDUAL"


def _bodies(pair: Pair, task: str, drop: str = "", add: str = "") -> Pair:
    """A pair whose bodies of a type lack a word, or have one more."""
    for branch in pair.branches:
        if branch.task == task:
            words = [word for word in branch.body.split() if word != drop]
            branch.body = " ".join(words if not add or add in words else [*words, add])
    return pair


@fires("MG609", rank=1, says=("rank 1 adds embed_out", "and so does rank 0"))
def test_the_second_rank_adds_it_too() -> Expect:
    ranks = qwen3(3, ranks=2, arch="blackwell").emit_all()
    _bodies(ranks[1], BLACKWELL, add="i2")
    return Expect(ranks, cuda="input_ptrs[2]")


@fires("MG609", rank=1, says=("rank 1 adds",), cuda="input_tma_desc_ptrs[2]")
def test_beside_a_rank_that_asks_for_its_number() -> list[Pair]:
    ranks = qwen3(3, ranks=2).emit_all()
    _bodies(ranks[1], HOPPER, add="ti2")
    return ranks


@fires("MG609", rank=3, says=("rank 3 adds",))
def test_one_of_four_does_not_ask() -> Expect:
    ranks = qwen3(2, ranks=4, collective="allgather").emit_all()
    _bodies(ranks[3], AMPERE, drop="r.my_gpu_id")
    return Expect(ranks, cuda="input_ptrs[2]")


@fires("MG609", rank=0, says=("no rank adds embed_out",))
def test_no_rank_adds_it() -> Expect:
    ranks = qwen3(3, ranks=2).emit_all()
    _bodies(ranks[0], HOPPER, drop="ti2")
    return Expect(ranks, cuda=f"{HOPPER} && task_desc->variant_id == 0")


@silent("MG609")
def test_one_rank_adds_it() -> list[Pair]:
    return qwen3(3, ranks=2).emit_all()


@silent("MG609")
def test_all_ask_for_their_number() -> list[Pair]:
    return qwen3(2, ranks=4, collective="allgather").emit_all()


@silent("MG609")
def test_each_adds_a_part_of_the_sum() -> list[Pair]:
    ranks = qwen3(3, ranks=2, arch="blackwell").emit_all()
    for pair in ranks:
        _bodies(pair, BLACKWELL, add="i2")
        for task in pair.graph["all_tasks"]:
            if task["task_type"] == 252:
                task["inputs"][2]["base_ptr"] = "attn_proj_out"  # the part, before its sum
    return ranks


@silent("MG609")
def test_one_of_the_ranks_alone() -> Ranks:
    ranks = qwen3(3, ranks=2).emit_all()
    _bodies(ranks[0], HOPPER, drop="ti2")
    return Ranks(ranks, {0})
