"""MG104 never-read."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent

SILU = 118


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
