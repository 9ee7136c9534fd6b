"""MG101 unwired-critical-tensor."""

from __future__ import annotations

import msgspec

from mirage_gate.facts import Options
from mirage_gate.facts.critical import Critical
from mirage_gate.facts.task_types import built_in, slots
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent

ATTENTION = 153


@fires("MG101", cuda='all_tensors["rope_cos"]', says=("rope_cos", "input_refs=0"))
def test_no_layer_reads_the_tables() -> Pair:
    return qwen3(2).named(rope=("rope_cos", "attn_sin")).without_rope().emit()


@fires("MG101", cuda='all_tensors["freqs_cos_sin"]')
def test_a_table_under_another_name() -> Pair:
    return qwen3(2).with_extra_host("freqs_cos_sin").emit()


@fires(
    "MG101",
    cuda='all_tensors["freqs"]',
    options=Options(critical=Critical.of(("+freqs",))),
)
def test_a_table_that_the_user_names() -> Pair:
    return qwen3(2).with_extra_host("freqs").emit()


def _with_slots(code: int, inputs: str) -> Options:
    kind = built_in()[code]
    types = built_in() | {code: msgspec.structs.replace(kind, inputs=slots(inputs))}
    return Options(task_types=types)


@fires(
    "MG101",
    cuda='all_tensors["cos_position_embedding"]',
    says=("cos_position_embedding", "input_refs=8"),
    options=_with_slots(ATTENTION, "r rw@ rw@ r? r? - r?"),
)
def test_a_table_in_a_slot_that_nobody_touches() -> Pair:
    return qwen3(2).emit()


@silent("MG101")
def test_one_layer_reads_the_tables() -> Pair:
    return qwen3(2).without_rope(layer=0).emit()


@silent("MG101")
def test_a_scratch_tensor_with_rope_in_its_name() -> Pair:
    return qwen3(2).with_unused_scratch("q_rope_out").emit()


@silent("MG101")
def test_a_layers_weight_with_rope_in_its_name() -> Pair:
    return qwen3(2).with_extra_host("layer_0_kv_a_rope").emit()


@fires(
    "MG101",
    cuda='all_tensors["layer_0_bias"]',
    options=Options(critical=Critical.of(("+layer_*_bias",))),
)
def test_a_pattern_of_the_users_own_holds_for_layers_too() -> Pair:
    return qwen3(1).with_extra_host("layer_0_bias").emit()


@fires("MG101", cuda='all_tensors["cos_position_embedding"]', says=("input_refs=8",))
def test_a_table_that_stands_in_empty_tiles_alone() -> Pair:
    pair = qwen3(2).emit()
    for task in pair.tasks(ATTENTION):
        task["inputs"][5]["dims"][0] = 0
    return pair
