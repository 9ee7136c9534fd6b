"""MG503 unused-kernel."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3, qwen3_moe
from tests.rules import fires, silent


@fires("MG503", Severity.NOTE, cuda="TASK_SILU_MUL && task_desc->variant_id == 1")
def test_a_branch_too_many() -> Pair:
    pair = qwen3(1).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    return pair


@silent("MG503")
def test_every_branch_is_selected() -> Pair:
    return qwen3_moe(2).emit()
