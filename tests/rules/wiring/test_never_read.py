"""MG104 never-read."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Model, Pair, deepseek_v3, qwen3
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


ATTENTION, MLA_MERGE = 153, 270


def _into_spare(model: Model, task_type: int, layer: int | None = None) -> Pair:
    """Attention of a layer, or of all, fills a buffer that nobody reads."""
    pair = model.with_unused_scratch("spare").emit()
    tasks = pair.tasks(task_type)
    name = tasks[0]["outputs"][0]["base_ptr"]
    pair.declaration("spare").nbytes = pair.declaration(name).nbytes
    per_layer = len(tasks) // model.layers
    for task in tasks if layer is None else tasks[layer * per_layer : (layer + 1) * per_layer]:
        task["outputs"][0]["base_ptr"] = "spare"
    return pair


@fires(
    "MG104",
    cuda='all_tensors["spare"]',
    says=("read by none: attention goes nowhere in layer 1",),
    once=True,
)
def test_attention_of_one_layer_fills_what_nobody_reads() -> Pair:
    return _into_spare(qwen3(4), ATTENTION, 1)


@fires("MG104", cuda='all_tensors["spare"]', says=("attention goes nowhere in layer 1",))
def test_the_second_half_of_it_in_the_last_of_two_layers() -> Pair:
    return _into_spare(deepseek_v3(2), MLA_MERGE, 1)


@fires("MG104", Severity.WARNING, cuda='all_tensors["spare"]')
def test_attention_of_the_only_layer() -> Pair:
    return _into_spare(qwen3(1), ATTENTION)


@fires("MG104", Severity.WARNING, cuda='all_tensors["spare"]')
def test_attention_of_all_layers() -> Pair:
    return _into_spare(qwen3(3), ATTENTION)


@fires("MG104", Severity.WARNING, cuda='all_tensors["spare"]')
def test_what_is_no_attention_in_one_layer() -> Pair:
    """A last layer may well fill what only another layer would read."""
    return _into_spare(qwen3(4), SILU, 3)
