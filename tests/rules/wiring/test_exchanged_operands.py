"""MG111 exchanged-operands."""

from __future__ import annotations

from collections.abc import Callable

from mirage_gate.config import Config, TaskTypeConfig, task_types
from mirage_gate.facts import Options
from mirage_gate.findings import Severity
from tests.emitter import Declaration, Pair, qwen3
from tests.rules import Path, fires, silent

ATTENTION = 153

FORK = Config(
    task_types=[
        TaskTypeConfig("TASK_FORK_ATTENTION", code=ATTENTION, inputs="r rw@ rw@ r? r? r? r?")
    ]
)


def _exchanged(one: int, other: int) -> Pair:
    pair = qwen3(2).emit()
    for task in pair.tasks(ATTENTION):
        inputs = task["inputs"]
        inputs[one], inputs[other] = inputs[other], inputs[one]
    return pair


def _input_of_attention(index: int) -> Callable[[Pair], Path]:
    def path(pair: Pair) -> Path:
        first = pair.graph["all_tasks"].index(pair.tasks(ATTENTION)[0])
        return ("all_tasks", first, "inputs", index, "base_ptr")

    return path


@fires("MG111", Severity.WARNING, graph=_input_of_attention(5), says=("each other's (cos, sin)",))
def test_cosine_and_sine_are_exchanged_in_every_layer() -> Pair:
    return _exchanged(5, 6)


@fires("MG111", Severity.WARNING, graph=_input_of_attention(3), says=("each other's (q, k)",))
def test_the_norms_of_queries_and_keys_are_exchanged() -> Pair:
    return _exchanged(3, 4)


@fires("MG111", Severity.WARNING, graph=_input_of_attention(1), says=("each other's (k, v)",))
def test_the_caches_are_exchanged() -> Pair:
    return _exchanged(1, 2)


@silent("MG111")
def test_every_input_in_its_place() -> Pair:
    return qwen3(2).emit()


@silent("MG111")
def test_one_table_for_both() -> Pair:
    pair = qwen3(2).emit()
    for task in pair.tasks(ATTENTION):
        for slot in (5, 6):
            task["inputs"][slot]["base_ptr"] = "cos_sin_table"
    pair.declarations.insert(0, Declaration("cos_sin_table"))
    return pair


def _named(cos: str, sin: str) -> Pair:
    return qwen3(2).named(rope=(cos, sin)).emit()


@fires("MG111", Severity.WARNING, graph=_input_of_attention(5), says=("SIN_TABLE is input 5",))
def test_the_tables_have_capitals() -> Pair:
    return _named("SIN_TABLE", "COS_TABLE")


@silent("MG111")
def test_the_words_are_parts_of_others() -> Pair:
    return _named("single_cosine", "cosmos_sine")


@silent("MG111", options=Options(task_types=task_types(FORK)))
def test_a_fork_whose_attention_takes_them_the_other_way_round() -> Pair:
    return _exchanged(5, 6)
