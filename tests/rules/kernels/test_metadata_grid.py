"""MG512 metadata-grid."""

from __future__ import annotations

from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_moe
from tests.rules import fires, silent, where

SPLIT, W13, W13_FP8, DECODE, ATTENTION = 164, 254, 248, 269, 153


@fires(
    "MG512",
    graph=lambda pair: where(pair, SPLIT, "kv_idx"),
    says=("kv_idx", "never 0"),
)
def test_every_chunk_is_one_further() -> Pair:
    pair = qwen3(1, split_kv=True).emit()
    for task in pair.tasks(SPLIT):
        task["kv_idx"] += 1
    return pair


@fires("MG512", graph=lambda pair: where(pair, W13, "expert_offset"), says=("never 0",))
def test_the_first_expert_of_each_stride_is_left_out() -> Pair:
    pair = qwen3_moe(1).emit()
    for task in pair.tasks(W13):
        task["expert_offset"] += 1
    return pair


@fires(
    "MG512",
    says=("request_id", "never 1"),
    graph=lambda pair: where(pair, DECODE, "request_id", nth=_next(pair)),
)
def test_every_other_request() -> Pair:
    pair = deepseek_v3(1).emit()
    for task in pair.tasks(DECODE):
        task["request_id"] *= 2
    return pair


def _first(pair: Pair, number: int) -> int:
    """Which of the tasks is the first with an expert offset."""
    return [task["expert_offset"] for task in pair.tasks(W13_FP8)].index(number)


def _next(pair: Pair) -> int:
    numbers = [task["request_id"] for task in pair.tasks(DECODE)]
    return numbers.index(2)


@fires(
    "MG512",
    graph=lambda pair: where(pair, W13_FP8, "expert_offset", nth=_first(pair, 3)),
    says=("values, and the variant is compiled for",),
)
def test_fewer_numbers_than_the_variant_is_compiled_for() -> Pair:
    pair = deepseek_v3(4).emit()
    for task in pair.tasks(W13_FP8):
        task["expert_offset"] %= 4
    return pair


@fires(
    "MG512",
    graph=lambda pair: where(pair, ATTENTION, "request_id"),
    says=("several tasks with the same operands",),
)
def test_one_request_is_served_twice() -> Pair:
    pair = qwen3(1).emit()
    tasks = pair.tasks(ATTENTION)
    for task in tasks[:2]:
        task["inputs"], task["outputs"] = tasks[0]["inputs"], tasks[0]["outputs"]
        task["request_id"] = 0
    tasks[2]["request_id"] = 1
    return pair


@silent("MG512")
def test_the_numbers_as_they_are() -> Pair:
    return deepseek_v3(4, dense_layers=2, ranks=8).emit(3)


@silent("MG512")
def test_chunks_of_a_split_cache() -> Pair:
    return qwen3(2, split_kv=True).emit()


@silent("MG512")
def test_noise_in_a_field_that_nobody_reads() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(154):
        task["request_id"] += 7
    return pair
