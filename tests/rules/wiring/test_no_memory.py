"""MG113 no-memory."""

from __future__ import annotations

import pytest

from mirage_gate.findings import Severity
from tests.emitter import LITERAL, OLD, Dialect, Pair, qwen3
from tests.rules import fires, silent

from ._shared import changed, edited

ENTERED = 'all_tensors["mlp_mid"] = mlp_mid;'


def _allocation(pair: Pair) -> str:
    return next(line for line in pair.cuda_text().split("\n") if "(&mlp_mid," in line) + "\n"


@pytest.mark.parametrize("dialect", [LITERAL, OLD])
@fires("MG113", cuda=ENTERED, says=("nothing gives mlp_mid any memory",), once=True)
def test_never_allocated(dialect: Dialect) -> Pair:
    pair = qwen3(2).written(dialect).emit()
    return edited(pair, (_allocation(pair), ""))


@fires("MG113", cuda=ENTERED, says=("only after it is entered",), once=True)
def test_entered_before_it_is_allocated() -> Pair:
    pair = qwen3(2).emit()
    line = _allocation(pair)
    return edited(pair, (f"{line}  {ENTERED}\n", f"  {ENTERED}\n{line}"))


@fires("MG113", cuda=ENTERED, says=("nothing gives mlp_mid any memory",))
def test_not_even_defined() -> Pair:
    pair = qwen3(2).emit()
    return edited(pair, (_allocation(pair), ""), ("  void *mlp_mid;\n", ""))


@fires("MG113", cuda='all_tensors["layer_1_o_proj"]', says=("a null pointer (nullptr)",), once=True)
def test_a_weight_is_a_null_pointer() -> Pair:
    line = 'all_tensors["layer_1_o_proj"] = '
    return edited(qwen3(2).emit(), (f"{line}layer_1_o_proj", f"{line}nullptr"))


@fires("MG113", Severity.WARNING, cuda='all_tensors["layer_1_q_norm"]', says=("a null pointer",))
def test_a_norm_that_its_kernel_may_skip_is_a_null_pointer() -> Pair:
    line = 'all_tensors["layer_1_q_norm"] = '
    return edited(qwen3(2).emit(), (f"{line}layer_1_q_norm", f"{line}nullptr"))


@pytest.mark.parametrize("what", ['erase("lm_head")', "clear()"])
@fires("MG113", cuda='all_tensors["lm_head"]', says=("taken back afterwards",))
def test_taken_back_before_the_graph_is_loaded(what: str) -> Pair:
    line = '  all_tensors["nullptr"] = nullptr;\n'
    return edited(qwen3(2).emit(), (line, f"  all_tensors.{what};\n{line}"))


def _local(pair: Pair, name: str) -> Pair:
    size = pair.declaration(name).nbytes
    return edited(
        pair,
        (
            f"void *{name} = nvshmem_malloc({size});\n  assert({name} != nullptr);",
            f"void *{name};\n  CUDA_CHECK(cudaMalloc(&{name}, {size}));",
        ),
    )


@fires("MG113", cuda='all_tensors["attn_proj_out"]', says=("must be symmetric memory",))
def test_an_all_reduce_reads_what_only_its_own_rank_can_reach() -> Pair:
    return _local(qwen3(2, ranks=2).emit(), "attn_proj_out")


@fires("MG113", cuda='all_tensors["all_reduce_buf"]', says=("must be symmetric memory",), once=True)
def test_a_put_lands_in_what_other_ranks_cannot_reach() -> Pair:
    return _local(qwen3(2, ranks=4, collective="allgather").emit(1), "all_reduce_buf")


@silent("MG113")
def test_a_put_may_come_from_memory_of_its_own_rank() -> Pair:
    return _local(qwen3(2, ranks=4, collective="allgather").emit(1), "attn_proj_out")


@silent("MG113")
def test_all_is_allocated() -> Pair:
    return qwen3(2, ranks=2).emit()


@silent("MG113")
def test_an_unused_buffer_without_memory() -> Pair:
    return changed(qwen3(2).with_unused_scratch("spare").emit(), (r".*\(&spare,.*\n", ""))


@pytest.mark.parametrize(
    "statement",
    [
        "my_allocate(&mlp_mid, 98304);",
        "CHECK(pool.get(reinterpret_cast<void **>(&mlp_mid), 98304));",
        "my_allocate(mlp_mid, 98304);",
        "mlp_mid = my_allocate(98304);",
    ],
)
@silent("MG113")
def test_memory_from_a_function_of_the_users_own(statement: str) -> Pair:
    pair = qwen3(2).emit()
    return edited(pair, (_allocation(pair), f"  {statement}\n"))


@silent("MG113")
def test_a_pointer_that_is_null_until_it_is_allocated() -> Pair:
    return edited(qwen3(2).emit(), ("void *mlp_mid;", "void *mlp_mid = nullptr;"))


@silent("MG113")
def test_cleared_once_the_graph_is_loaded() -> Pair:
    call = "all_events, first_tasks, all_tensors);\n"
    return edited(qwen3(2).emit(), (call, f"{call}  all_tensors.clear();\n"))
