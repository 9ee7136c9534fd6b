"""MG002 weight-misplaced."""

from __future__ import annotations

import re

from mirage_gate import Options
from tests.checkpoints import checkpoint_of, read
from tests.emitter import Model, qwen3, qwen3_ampere, qwen3_moe
from tests.rules import Expect, Texts, fires, silent


def held(model: Model, family: str, old: str = "", new: str = "") -> Expect:
    """A graph in whose ``.cu`` one thing was replaced."""
    pair = model.emit()
    text = pair.cuda_text()
    assert re.search(old, text)
    options = Options(checkpoint=read(checkpoint_of(model, family)))
    return Expect(Texts(re.sub(old, new, text), pair.json_text()), options=options)


@fires(
    "MG002",
    says=("layer_2_o_proj is filled from layer_1_o_proj: a weight of layer 1",),
    cuda='all_tensors["layer_2_o_proj"]',
)
def test_a_weight_of_another_layer() -> Expect:
    return held(qwen3(4), "qwen3", r'(\*layer_2_o_proj = .*at\("layer_)2_', r"\g<1>1_")


@fires(
    "MG002",
    says=("layer_1_q_norm is filled from layer_1_k_norm: k_norm for q_norm",),
    cuda='all_tensors["layer_1_q_norm"]',
)
def test_a_weight_of_another_role() -> Expect:
    return held(qwen3(4), "qwen3", r'at\("layer_1_q_norm"', 'at("layer_1_k_norm"')


@fires(
    "MG002",
    says=("layer_1_qkv_proj is filled from layer_3_k_proj",),
    cuda="reinterpret_cast<void *>(layer_1_qkv_proj + 16384)",
)
def test_a_part_of_another_layer() -> Expect:
    return held(qwen3(4), "qwen3", r'at\("layer_1_k_proj"', 'at("layer_3_k_proj"')


@fires(
    "MG002",
    says=("layer_1_qkv_proj is filled from layer_1_up_proj: up_proj for",),
    cuda="reinterpret_cast<void *>(layer_1_qkv_proj + 16384)",
)
def test_a_part_of_another_role() -> Expect:
    return held(qwen3(4), "qwen3", r'at\("layer_1_k_proj"', 'at("layer_1_up_proj"')


@fires(
    "MG002",
    says=("of layer 3, and the checkpoint has none of that layer",),
    cuda='all_tensors["layer_3_input_layernorm"]',
    once=True,
)
def test_a_layer_that_the_checkpoint_has_not() -> Expect:
    options = Options(checkpoint=read(checkpoint_of(qwen3(3), "qwen3")))
    return Expect(qwen3(4).emit(), options=options)


@silent("MG002")
def test_each_weight_in_its_place() -> Expect:
    return held(qwen3(4), "qwen3")


@silent("MG002")
def test_fused_weights_in_their_places() -> Expect:
    return held(qwen3_ampere(4), "qwen3")


@silent("MG002")
def test_stacked_experts_under_names_of_one() -> Expect:
    return held(qwen3_moe(4), "qwen3_moe")


@silent("MG002")
def test_a_source_whose_name_says_nothing() -> Expect:
    return held(qwen3(4), "qwen3", r'at\("layer_1_q_norm"', 'at("layer_1_gamma"')
