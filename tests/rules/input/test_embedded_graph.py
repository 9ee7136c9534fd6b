"""MG905 embedded-graph."""

from __future__ import annotations

from tests.emitter import EMBEDDED, OLD, Pair, qwen3
from tests.rules import Texts, fires, silent


@fires("MG905", cuda="TaskDesc task_desc(", refuses=True)
def test_a_kernel_with_its_tasks_inside() -> Texts:
    inside = qwen3(1).written(EMBEDDED).emit()
    return Texts(inside.cuda_text(), qwen3(1).emit().json_text())


@silent("MG905", passes=True)
def test_an_old_kernel_that_loads_its_tasks() -> Pair:
    return qwen3(1).written(OLD).emit()
