"""MG504 limits."""

from __future__ import annotations

from mirage_gate import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent, with_text
from tests.rules.kernels._shared import in_task

ATTENTION = 153
SILU = 118


@fires(
    "MG504",
    Severity.WARNING,
    graph=in_task(ATTENTION, "inputs"),
    says=("8 inputs", "room for 7"),
)
def test_eight_inputs() -> Pair:
    pair = qwen3(1).emit()
    task = pair.tasks(ATTENTION)[0]
    task["inputs"].append(task["inputs"][0])
    return pair


@silent("MG504")
def test_eight_inputs_of_a_kernel_that_reads_them() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(ATTENTION):
        task["inputs"].append(task["inputs"][0])
    seventh = "task_desc->input_ptrs[6]"
    assert seventh in pair.cuda_text()
    return with_text(pair, pair.cuda_text().replace(seventh, f"{seventh}, {seventh[:-2]}7]"))


@fires("MG504", graph=in_task(SILU, "inputs", 0, "dims"), says=("1 dim and 2 strides",))
def test_dims_shorter_than_strides() -> Pair:
    pair = qwen3(1).emit()
    pair.tasks(SILU)[0]["inputs"][0]["dims"].pop()
    return pair


@silent("MG504")
def test_seven_inputs() -> Pair:
    return qwen3(1).emit()
