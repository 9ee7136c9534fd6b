"""MG502 missing-slot."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import fires, silent

ATTENTION = 153


@fires("MG502", cuda="TASK_SILU_MUL && task_desc->variant_id == 0", says=("reads input 1",))
def test_a_body_reads_a_slot_that_its_tasks_do_not_fill() -> Pair:
    pair = qwen3(1).emit()
    pair.branch("TASK_SILU_MUL").body += " i1"
    return pair


@fires("MG502", cuda="TASK_PAGED_ATTENTION_HOPPER && task_desc->variant_id == 0")
def test_an_input_is_gone_that_the_body_reads() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(ATTENTION):
        task["inputs"].pop()
    return pair


@silent("MG502")
def test_a_task_with_a_slot_that_its_body_ignores() -> Pair:
    return qwen3(1, ranks=2).emit(rank=1)
