"""MG104 never-read."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent

NORM, SILU = 154, 118


def _reads_elsewhere(tensor: str, task_type: int, index: int) -> Pair:
    """One operator's readers take another tensor of the same shape: ``tensor`` loses them."""
    pair = qwen3(2).with_extra_host("elsewhere").emit()
    for task in pair.tasks(task_type):
        if task["inputs"][index]["base_ptr"] == tensor:
            task["inputs"][index]["base_ptr"] = "elsewhere"
    return pair


@fires("MG104", Severity.WARNING, cuda='all_tensors["mlp_mid"]', says=("read by none",))
def test_silu_reads_another_buffer() -> Pair:
    return _reads_elsewhere("mlp_mid", SILU, 0)


@silent("MG104")
def test_the_final_step_writes_scratch_for_the_host() -> Pair:
    pair = qwen3(2).emit()
    pair.declaration("output_token").storage = "scratch"
    pair.declaration("output_token").nbytes = 64
    return pair


def with_deviations() -> Pair:
    """Every norm writes the reciprocal deviations of its rows as well."""
    pair = qwen3(2).with_unused_scratch("rstd").emit()
    for task in pair.tasks(NORM):
        task["outputs"].append({**task["outputs"][0], "base_ptr": "rstd"})
    for branch in pair.branches:
        if branch.task == "TASK_RMS_NORM_HOPPER":
            branch.body = branch.body.replace("o0", "o0 o1")
    return pair


@fires("MG104", Severity.NOTE, cuda='all_tensors["rstd"]', says=("read by none",), notes=True)
def test_a_result_beside_the_proper_one_is_read_by_none() -> Pair:
    return with_deviations()


@fires("MG104", Severity.WARNING, cuda='all_tensors["argmax_part_index"]')
def test_a_second_result_that_the_kernel_is_run_for() -> Pair:
    pair = qwen3(2).emit()
    for task in pair.tasks(111):
        task["inputs"][1] = dict(task["inputs"][0])
    return pair
