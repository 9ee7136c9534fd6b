"""MG511 crossed-parameters."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere
from tests.emitter.cuda import CURRENT
from tests.rules import fires, silent, with_text
from tests.rules.kernels._bodies import edited

LINEAR = "TASK_LINEAR_SWAPAB_HOPPER"
NORM = "TASK_RMS_NORM_HOPPER"


def _slots(pair: Pair, task: str, old: str, new: str) -> Pair:
    return edited(pair, f"task_desc->{old}", f"task_desc->{new}", task)


def _exchanged(pair: Pair, variant: int) -> Pair:
    """A linear's body that exchanges weight and activation."""
    one, other = "input_tma_desc_ptrs[1]", "input_tma_desc_ptrs[0]"
    pair = edited(pair, one, "input_tma_desc_ptrs[@]", LINEAR, variant)
    pair = edited(pair, other, one, LINEAR, variant)
    return edited(pair, "input_tma_desc_ptrs[@]", other, LINEAR, variant)


@fires(
    "MG511",
    cuda="tma_a,  // weight",
    says=("tma_a is given input 0, and is for input 1",),
)
def test_weight_and_activation_are_exchanged() -> Pair:
    pair = _exchanged(qwen3(1).emit(), 0)
    return with_text(pair, pair.cuda_text().replace("tma_a,", "tma_a,  // weight", 1))


@fires("MG511", cuda="input_ptrs[1],  // x", says=("input is given input 1, and is for input 0",))
def test_one_slot_goes_to_two_parameters() -> Pair:
    return _slots(qwen3(1).emit(), NORM, "input_ptrs[0],", "input_ptrs[1],  // x")


@fires("MG511", cuda="nullptr,  // weight", says=("weight is given no slot, and is for input 1",))
def test_a_parameter_gets_none() -> Pair:
    return edited(qwen3(1).emit(), "task_desc->input_ptrs[1],", "nullptr,  // weight", NORM)


@fires("MG511", cuda="input_ptrs[6],  // cos", says=("cos is given input 6",))
def test_sine_in_the_place_of_cosine() -> Pair:
    task = "TASK_PAGED_ATTENTION_HOPPER"
    return _slots(qwen3(1).emit(), task, "input_ptrs[5],", "input_ptrs[6],  // cos")


@fires(
    "MG511",
    Severity.WARNING,
    cuda="TASK_LINEAR_SWAPAB_HOPPER && task_desc->variant_id == 1",
    says=("all other variants",),
)
def test_unlike_its_siblings_where_no_call_is_seen() -> Pair:
    return _exchanged(qwen3(1).written(CURRENT, reduced=True).emit(), 1)


@silent("MG511")
def test_the_bodies_as_generated() -> Pair:
    return deepseek_v3(4, dense_layers=2, ranks=8).emit(3)


@silent("MG511")
def test_a_body_that_reads_the_runtimes_own_tokens() -> Pair:
    return qwen3_ampere(1).emit()


@silent("MG511")
def test_where_no_call_is_seen_and_all_are_alike() -> Pair:
    return qwen3(1).written(CURRENT, reduced=True).emit()
