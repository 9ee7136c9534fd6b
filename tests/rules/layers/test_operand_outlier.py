"""MG702 operand-outlier."""

from __future__ import annotations

from dataclasses import replace

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere
from tests.rules import fires, silent
from tests.rules.layers._shared import carrying, exchanged, first_slot, with_copies_exchanged


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_1_o_proj", 2),
    says=("in layer 1, input 2", "embed_out", "what the operator right before the layer wrote"),
)
def test_one_layer_adds_the_embedding() -> Pair:
    return qwen3(4).stale_residual(1).emit()


@fires(
    "MG702", Severity.WARNING, graph=lambda p: first_slot(p, "layer_1_o_proj", 2), says=("layer 1",)
)
def test_one_layer_of_two_adds_the_embedding() -> Pair:
    return qwen3(2).stale_residual(1).emit()


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_4_o_proj", 4),
    says=("in layer 4", "layer_2_mlp_fused", "wrote 2 layers before"),
)
def test_a_residual_of_two_layers_ago() -> Pair:
    pair = deepseek_v3(6).emit()
    for task in carrying(pair, "layer_4_o_proj"):
        task["inputs"][4]["base_ptr"] = "layer_2_mlp_fused"
    return pair


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_2_input_layernorm", 1),
    says=("in layer 2, input 1", "carries layer_2_"),
)
def test_two_norms_of_one_layer_are_exchanged() -> Pair:
    return exchanged(qwen3(4).emit(), "layer_2_input_layernorm", "layer_2_post_attn_layernorm")


@fires(
    "MG702",
    Severity.WARNING,
    says=("layer 2", "sin_position_embedding"),
    graph=lambda p: first_slot(p, "layer_2_k_cache", 5),
)
def test_cosine_and_sine_are_exchanged_in_one_layer() -> Pair:
    pair = qwen3(4).emit()
    for task in carrying(pair, "layer_2_k_cache"):
        task["inputs"][5], task["inputs"][6] = task["inputs"][6], task["inputs"][5]
    return pair


@fires(
    "MG702",
    Severity.WARNING,
    cuda='model_tensors.at("layer_2_up_proj")',
    says=("in layer 2, layer_N_gatedup_proj is filled with layer_N_up_proj, layer_N_gate_proj",),
)
def test_gate_and_up_are_exchanged_in_one_layer() -> Pair:
    part = "layer_2_gatedup_proj"
    return with_copies_exchanged(qwen3(4).emit(), (part, 0), (part, 1))


@silent("MG702")
def test_the_first_layer_adds_the_embedding() -> Pair:
    return qwen3(4).emit()


@silent("MG702")
def test_one_layer_stores_its_weights_otherwise() -> Pair:
    return qwen3_ampere(4, shuffled=(1,)).emit()


@silent("MG702")
def test_the_first_mixture_layer_adds_a_dense_ones_sum() -> Pair:
    return deepseek_v3(9, ranks=8).emit()


@fires("MG702", Severity.WARNING, cuda="layer_1_qkv_proj + 16384)", says=("layer_N_v_proj",))
def test_k_and_v_that_changed_places() -> Pair:
    pair = qwen3(3).emit()
    q, k, v = pair.declaration("layer_1_qkv_proj").copies
    pair.declaration("layer_1_qkv_proj").copies = [
        q,
        replace(k, name="layer_1_v_proj"),
        replace(v, name="layer_1_k_proj"),
    ]
    return pair
