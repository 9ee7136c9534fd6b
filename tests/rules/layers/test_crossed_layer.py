"""MG703 crossed-layer."""

from __future__ import annotations

from dataclasses import replace

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent
from tests.rules.layers._shared import carrying, exchanged, first_slot, with_copies_exchanged

NORM = 154


@fires(
    "MG703",
    graph=lambda pair: first_slot(pair, "layer_2_o_proj", 1),
    says=("in layer 1", "layer_2_o_proj"),
)
def test_two_layers_weights_are_exchanged() -> Pair:
    return exchanged(qwen3(4).emit(), "layer_1_o_proj", "layer_2_o_proj")


@fires("MG703", graph=lambda p: first_slot(p, "layer_1_input_layernorm", 1), says=("in layer 0",))
def test_the_first_operators_weights_are_exchanged() -> Pair:
    return exchanged(qwen3(2).emit(), "layer_0_input_layernorm", "layer_1_input_layernorm")


@fires(
    "MG703",
    says=("in layer 3", "layer_2_v_cache", "nobody reads layer_3_v_cache"),
    graph=lambda p: first_slot(p, "layer_3_k_cache", 2),
)
def test_a_cache_is_shared_by_mistake() -> Pair:
    pair = qwen3(4).emit()
    for task in carrying(pair, "layer_3_k_cache"):
        task["inputs"][2]["base_ptr"] = "layer_2_v_cache"
    return pair


@fires(
    "MG703",
    cuda='model_tensors.at("layer_3_k_proj")',
    says=("in layer 1, layer_1_qkv_proj is filled from layer_3_k_proj",),
)
def test_two_layers_copies_are_exchanged() -> Pair:
    parts = ("layer_1_qkv_proj", 1), ("layer_3_qkv_proj", 1)
    return with_copies_exchanged(qwen3(4).emit(), *parts)


@silent("MG703")
def test_every_layer_norms_for_the_next_one() -> Pair:
    """The norm after a layer's attention carries the next layer's weight, in all of them."""
    pair = qwen3(5).emit()
    for layer in range(4):
        for task in carrying(pair, f"layer_{layer}_post_attn_layernorm"):
            if task["task_type"] == NORM:
                task["inputs"][1]["base_ptr"] = f"next_{layer}"
    for layer in range(4):
        for task in carrying(pair, f"next_{layer}"):
            task["inputs"][1]["base_ptr"] = f"layer_{layer + 1}_post_attn_layernorm"
    return pair


@silent("MG703")
def test_other_names_for_layers() -> Pair:
    return deepseek_v3(6).named(weights="model_layers_{layer}_{part}").emit()


@fires("MG703", Severity.ERROR, cuda="layer_2_gatedup_proj + 0)", says=("layer_0_gate_proj",))
def test_a_layer_filled_from_another() -> Pair:
    pair = qwen3(3).emit()
    copies = pair.declaration("layer_2_gatedup_proj").copies
    copies[0] = replace(copies[0], name="layer_0_gate_proj")
    return pair


@silent("MG703")
def test_layers_that_are_filled_from_their_own() -> Pair:
    return qwen3(4).emit()
