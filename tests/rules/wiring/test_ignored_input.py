"""MG107 ignored-input."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_moe
from tests.rules import fires, silent


def _ignoring_gather() -> Pair:
    pair = deepseek_v3(2).emit()
    pair.branch("TASK_MLA_KV_GATHER_SM100").body = pair.branch(
        "TASK_MLA_KV_GATHER_SM100"
    ).body.replace(" i4 i5", "")
    return pair


@fires("MG107", Severity.ERROR, cuda='all_tensors["rope_cos"]', says=("no body reads",))
def test_no_kernel_reads_the_table_it_is_given() -> Pair:
    pair = _ignoring_gather()
    for task in pair.tasks(296):  # nobody else reads it
        task["inputs"] = task["inputs"][:1]
    return pair


@fires("MG107", Severity.NOTE, cuda='all_tensors["rope_cos"]')
def test_one_of_two_readers_ignores_the_table() -> Pair:
    return _ignoring_gather()


@fires("MG107", Severity.NOTE, cuda='all_tensors["input_token"]')
def test_the_embedding_ignores_its_input() -> Pair:
    pair = qwen3(2).emit()
    pair.branch("TASK_EMBEDDING").body = "r.tokens r.step i1 o0"
    return pair


def _without(pair: Pair, task: str, *words: str) -> Pair:
    """A pair whose bodies of a task type do not name some slots."""
    for branch in pair.branches:
        if branch.task == task:
            kept = [word for word in branch.body.split() if word not in words]
            assert len(kept) < len(branch.body.split())
            branch.body = " ".join(kept)
    return pair


@fires("MG107", cuda='all_tensors["embed_out"]', says=("there is one rank",))
def test_the_only_rank_does_not_add_the_residual() -> Pair:
    return _without(qwen3(2).emit(), "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER", "ti2", "i2")


@fires("MG107", cuda='all_tensors["moe_topk_weight"]', says=("input 1 of TASK_MOE_MUL_SUM_ADD",))
def test_the_experts_are_summed_without_their_weights() -> Pair:
    return _without(qwen3_moe(2).emit(), "TASK_MOE_MUL_SUM_ADD_SM100", "i1")


@silent("MG107", notes=True)
def test_a_residual_that_a_rank_compiles_out() -> Pair:
    return qwen3(2, ranks=2).emit(rank=1)
