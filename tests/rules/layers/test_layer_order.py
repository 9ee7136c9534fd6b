"""MG707 layer-order."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import Pair, qwen3, reordered
from tests.rules import Expect, fires, silent


def _first_task(pair: Pair, layer: int) -> tuple[str | int, ...]:
    """The first task that carries a weight of a layer."""
    for number, task in enumerate(pair.graph["all_tasks"]):
        if any(t["base_ptr"].startswith(f"layer_{layer}_") for t in task["inputs"] or ()):
            return ("all_tasks", number, "task_type")
    raise AssertionError(layer)


@pytest.mark.parametrize(
    ("order", "early", "late"),
    [([0, 1, 3, 2, 4, 5], 3, 2), ([1, 0, 2, 3], 1, 0), ([0, 1, 2, 4, 3], 4, 3)],
)
@fires("MG707", Severity.WARNING, once=True)
def test_two_layers_are_exchanged(order: list[int], early: int, late: int) -> Expect:
    pair = reordered(qwen3(len(order)), order).emit()
    says = (f"layer {early} runs before layer {late}",)
    return Expect(pair, graph=_first_task(pair, early), says=says)


@silent("MG707")
def test_layers_in_order() -> Pair:
    return qwen3(6).emit()


@silent("MG707")
def test_a_model_whose_layers_all_run_the_other_way_round() -> Pair:
    return reordered(qwen3(6), [5, 4, 3, 2, 1, 0]).emit()
