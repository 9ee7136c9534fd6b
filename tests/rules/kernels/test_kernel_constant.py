"""MG509 kernel-constant."""

from __future__ import annotations

from mirage_gate.facts import Options
from mirage_gate.facts.signatures.notation import kernel
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.emitter.cuda import CURRENT
from tests.rules import fires, silent
from tests.rules.kernels._bodies import edited

LINEAR = "TASK_LINEAR_SWAPAB_HOPPER"
RESIDUAL = "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER"
SILU = "TASK_SILU_MUL"
ATTENTION = "TASK_PAGED_ATTENTION_HOPPER"


def _small() -> Pair:
    return qwen3(1).emit()


def _own_silu() -> Pair:
    known = "silu_mul_task_impl<bfloat16, 4, 96, 768, 384>"
    return edited(_small(), known, "my_silu<bfloat16, 9, 96>", SILU)


@fires(
    "MG509",
    cuda="linear_swapAB_kernel_hopper<bfloat16, 4, 32, 128",
    says=("OUTPUT_SIZE is 32, not 64",),
)
def test_the_kernel_is_for_narrower_tiles() -> Pair:
    return edited(_small(), "hopper<bfloat16, 4, 64,", "hopper<bfloat16, 4, 32,", LINEAR)


@fires("MG509", cuda="4, 64, 64, 5, TMA_A", says=("REDUCTION_SIZE is 64, not 128",))
def test_the_kernel_sums_over_half_of_the_axis() -> Pair:
    return edited(_small(), "4, 64, 128, 5, TMA_A", "4, 64, 64, 5, TMA_A", LINEAR)


@fires("MG509", cuda="using TMA_OUT = kernel::tma::tma_2d<bfloat16, 3, 3, 3, 4, 64, 8, 64, 0,")
def test_a_descriptor_whose_rows_are_all_the_first_one() -> Pair:
    return edited(_small(), "3, 4, 64, 8, 64, 512,", "3, 4, 64, 8, 64, 0,", LINEAR)


@fires("MG509", cuda="cute::make_stride(0, cute::Int<1>{}));", says=("the layout of mBias",))
def test_a_residual_that_adds_the_first_row_to_all() -> Pair:
    pair = qwen3_moe(1, batch=4).emit()
    return edited(
        pair,
        "make_stride(128, cute::Int<1>{})",
        "make_stride(0, cute::Int<1>{})",
        "TASK_LINEAR_WITH_RESIDUAL_SM100",
    )


@fires("MG509", cuda="512, 256, 64, -1,", says=("HEAD_DIM is 64, not 32",))
def test_a_head_of_another_length() -> Pair:
    return edited(_small(), "512, 256, 32, -1,", "512, 256, 64, -1,", ATTENTION)


@fires("MG509", cuda="reduction_kernel<bfloat16, 3,", says=("NUM_GPUS is 3, not 4",))
def test_a_sum_over_fewer_ranks() -> Pair:
    pair = qwen3(1, ranks=4, collective="allgather").emit()
    return edited(
        pair, "reduction_kernel<bfloat16, 4,", "reduction_kernel<bfloat16, 3,", "TASK_REDUCE"
    )


@fires("MG509", cuda="silu_mul_task_impl<half", says=("T is float16, not bfloat16",))
def test_a_kernel_for_another_element_type() -> Pair:
    return edited(
        _small(), "silu_mul_task_impl<bfloat16", "silu_mul_task_impl<half", "TASK_SILU_MUL"
    )


@fires("MG509", cuda="linear_fp8_sm100_task_impl<", says=("SHAPE_K is 64",))
def test_a_number_among_the_arguments() -> Pair:
    pair = deepseek_v3(1).emit()
    text = pair.cuda_text()
    start = text.index("linear_fp8_sm100_task_impl<")
    end = text.index(", 32, 16, 128", start)
    before = text[start:end]
    return edited(pair, before, before.rpartition(", ")[0] + ", 64", "TASK_LINEAR_FP8_SM100")


@silent("MG509")
def test_the_kernels_as_generated() -> Pair:
    return deepseek_v3(4, dense_layers=2, ranks=8).emit(3)


@silent("MG509")
def test_the_kernels_of_an_older_generation() -> Pair:
    return qwen3_ampere(3, shuffled=(1,)).emit()


@silent("MG509")
def test_a_stride_that_nobody_takes() -> Pair:
    """With one row, how far the next would be does not matter."""
    pair = qwen3(1, batch=1).emit()
    return edited(pair, "TMA_OUT, void, 512, false", "TMA_OUT, void, 0, false", LINEAR)


@silent("MG509")
def test_where_no_call_can_be_seen() -> Pair:
    return qwen3(1).written(CURRENT, reduced=True).emit()


@silent("MG509")
def test_a_function_that_nobody_knows() -> Pair:
    return _own_silu()


@fires(
    "MG509",
    options=Options(kernels={"my_silu": kernel("T BATCH=b N=n", "in=x out=y tokens")}),
    cuda="my_silu<bfloat16, 9,",
    says=("BATCH is 9, not 4",),
)
def test_a_function_that_the_user_describes() -> Pair:
    return _own_silu()
