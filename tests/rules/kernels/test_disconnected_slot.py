"""MG506 disconnected-slot."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent
from tests.rules.kernels._shared import in_task

ATTENTION = 153
RESIDUAL = 156


def _none(task_type: int, slot: int) -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(task_type):
        task["inputs"][slot] = {
            "base_ptr": "nullptr",
            "data_type": 999,
            "dims": [],
            "offset": 0,
            "strides": [],
        }
    return pair


@fires("MG506", graph=in_task(RESIDUAL, "inputs", 1, "base_ptr"), says=("reads address 0",))
def test_a_weight_passed_as_none() -> Pair:
    return _none(RESIDUAL, 1)


@fires("MG506", graph=in_task(ATTENTION, "inputs", 1, "base_ptr"))
def test_a_cache_passed_as_none() -> Pair:
    return _none(ATTENTION, 1)


@fires("MG506", Severity.NOTE, graph=in_task(ATTENTION, "inputs", 3, "base_ptr"))
def test_a_norm_passed_as_none() -> Pair:
    return qwen3(1).without_qk_norm().emit()


@silent("MG506", notes=True)
def test_norms_passed_as_none_in_every_layer_of_a_model_that_has_none() -> Pair:
    return qwen3(3).without_qk_norm().emit()


@silent("MG506")
def test_a_residual_passed_as_none_where_it_is_compiled_out() -> Pair:
    pair = qwen3(1, ranks=2).emit(rank=1)
    for task in pair.tasks(RESIDUAL):
        task["inputs"][2]["base_ptr"] = "nullptr"
    return pair
