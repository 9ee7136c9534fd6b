"""MG005 layers-differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import pytest

from mirage_gate import Options, Severity
from tests.emitter import Model, Pair, deepseek_v3, qwen3, qwen3_moe, without_block
from tests.rules import At, Expect, Path, Texts, fires, silent, where

from ._shared import config

ATTENTION, GATHER = 153, 278
QWEN3 = {"model_type": "qwen3", "num_hidden_layers": 4, "rope_theta": 1000000}
LLAMA = {**QWEN3, "model_type": "llama"}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 6,
    "rope_theta": 1000000.0,
    "num_experts": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 5,
    "rope_scaling": {"type": "yarn"},
    "n_routed_experts": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
}
EXAONE = {
    **QWEN3,
    "model_type": "exaone4",
    "sliding_window": 4096,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"],
}
QWEN3_36 = {**QWEN3, "num_hidden_layers": 36}
CUT = {**LLAMA, "num_hidden_layers": 36, "no_rope_layer_interval": 4}


def held(
    subject: Model | Pair | Texts,
    folder: FilePath,
    document: Any,
    layers: int | None = None,
    graph: Path = (),
) -> Expect:
    """A graph, whole or cut to its first layers, held to a configuration."""
    left = None if layers is None else frozenset(range(layers))
    options = Options(model=config(folder, document), layers=left)
    made = subject.emit() if isinstance(subject, Model) else subject
    return Expect(made, options=options, graph=graph)


def first_attention(pair: Pair) -> Path:
    return where(pair, ATTENTION, "task_type")


def attention_of(layer: int) -> Any:
    """The path of the first attention task of a layer, of which each has four."""
    return lambda pair: where(pair, ATTENTION, "task_type", nth=4 * layer)


# -- How many layers there are --------------------------------------------------------------------


@fires(
    "MG005",
    whole="the graph has 3 layers, the model's configuration 4, layer 3 missing",
    cuda='all_tensors["layer_2_',
    related=[At("config.json", 3)],
    once=True,
)
def test_a_layer_too_few(tmp_path: FilePath) -> Expect:
    return held(qwen3(3), tmp_path, QWEN3)


@fires("MG005", says=("4, layer 4 too many",), cuda='all_tensors["layer_4_', once=True)
def test_a_layer_too_many(tmp_path: FilePath) -> Expect:
    return held(qwen3(5), tmp_path, QWEN3)


@silent("MG005")
def test_the_layer_of_multi_token_prediction_is_none_too_many(tmp_path: FilePath) -> Expect:
    return held(qwen3(5), tmp_path, {**QWEN3, "num_nextn_predict_layers": 1})


@fires(
    "MG005",
    Severity.NOTE,
    cuda='all_tensors["layer_3_',
    hints="say so with --layers 4",
    once=True,
)
def test_a_model_that_is_cut(tmp_path: FilePath) -> Expect:
    return held(qwen3(4), tmp_path, QWEN3_36)


@silent("MG005")
def test_a_model_that_is_cut_as_was_said(tmp_path: FilePath) -> Expect:
    return held(qwen3(4), tmp_path, QWEN3_36, layers=4)


@fires(
    "MG005",
    whole="the graph has 4 layers, asked for are 5, layer 4 missing",
    cuda='all_tensors["layer_3_',
    once=True,
)
def test_other_layers_than_asked_for(tmp_path: FilePath) -> Expect:
    return held(qwen3(4), tmp_path, QWEN3_36, layers=5)


@fires(
    "MG005",
    whole="the model has no rotary embedding in layer 3, and the graph has",
    graph=attention_of(3),
    once=True,
)
def test_what_is_promised_of_layers_that_are_left_is_held(tmp_path: FilePath) -> Expect:
    return held(qwen3(7), tmp_path, CUT, layers=7)


@silent("MG005")
def test_layers_that_are_left_are_as_promised(tmp_path: FilePath) -> Expect:
    return held(qwen3(7).without_rope(3), tmp_path, CUT, layers=7)


@fires("MG005", cuda='all_tensors["layer_4_', once=True)
def test_more_than_half_is_not_cut_on_purpose(tmp_path: FilePath) -> Expect:
    return held(qwen3(5), tmp_path, {**QWEN3, "num_hidden_layers": 9})


@silent("MG005")
def test_names_that_count_from_one(tmp_path: FilePath) -> Expect:
    pair = qwen3(4).emit()
    cuda, graph = pair.cuda_text(), pair.json_text()
    for layer in (3, 2, 1, 0):
        cuda = cuda.replace(f"layer_{layer}_", f"layer_{layer + 1}_")
        graph = graph.replace(f"layer_{layer}_", f"layer_{layer + 1}_")
    return held(Texts(cuda, graph), tmp_path, QWEN3)


@fires(
    "MG005", Severity.NOTE, cuda="all_tensors[", says=("no tensor's name says a layer",), once=True
)
def test_names_without_a_layer_prove_nothing(tmp_path: FilePath) -> Expect:
    return held(qwen3(1).named(weights="{part}"), tmp_path, QWEN3)


# -- What they are made of ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (qwen3(4), QWEN3),
        (qwen3(4, arch="ampere"), QWEN3),
        (qwen3(4, split_kv=True), QWEN3),
        (qwen3_moe(6), QWEN3_MOE),
        (deepseek_v3(5), DEEPSEEK),
        (qwen3(4), {"num_hidden_layers": 4}),
        (qwen3(4), {"text_config": QWEN3}),
        (qwen3(4).without_rope(), {"n_layer": 4, "position_embedding_type": "alibi"}),
        (qwen3(4).without_qk_norm(), LLAMA),
        (qwen3(4).without_qk_norm(), {**QWEN3, "use_qk_norm": False}),
        (qwen3(4).without_rope(3), {**LLAMA, "no_rope_layers": [1, 1, 1, 0]}),
        (qwen3(4).without_rope(3), {**LLAMA, "no_rope_layer_interval": 4}),
        (qwen3(4).without_rope(3), {**LLAMA, "model_type": "llama4_text", "no_rope_layers": []}),
        (qwen3(4).without_rope(3), EXAONE),
        (qwen3(4).without_rope(3), {**QWEN3, "model_type": "unheard_of"}),
        (qwen3(4).named(rope=("angles_a", "angles_b")), QWEN3),
        (qwen3(4).named(weights="model.layers.{layer}.{part}"), QWEN3),
    ],
)
@silent("MG005")
def test_a_graph_that_is_as_promised(tmp_path: FilePath, model: Model, document: Any) -> Expect:
    return held(model, tmp_path, document)


@pytest.mark.parametrize("rope", [("rope_cos", "rope_sin"), ("angles_a", "angles_b")])
@fires(
    "MG005",
    whole="the model has rotary embedding in layers 0-4, and the graph has not",
    once=True,
)
def test_deepseek_without_positions(tmp_path: FilePath, rope: tuple[str, str]) -> Expect:
    """As MPK builds it: the tables are attached, and read by nothing."""
    pair = deepseek_v3(5).without_rope().named(rope=rope).emit()
    return held(pair, tmp_path, DEEPSEEK, graph=behind(where(pair, GATHER, "task_type")))


@fires(
    "MG005",
    whole="the model has rotary embedding in layers 0-3, and the graph has not",
    graph=first_attention,
    related=[At("config.json", 4)],
    once=True,
)
def test_no_layer_rotates(tmp_path: FilePath) -> Expect:
    return held(qwen3(4).without_rope(), tmp_path, QWEN3)


@fires(
    "MG005",
    says=("the model has rotary embedding in some of layers 0-3",),
    graph=first_attention,
    once=True,
)
def test_no_layer_of_an_unknown_type_rotates(tmp_path: FilePath) -> Expect:
    return held(qwen3(4).without_rope(), tmp_path, {**QWEN3, "model_type": "new"})


@fires(
    "MG005",
    whole="the model has rotary embedding in layers 1, 3, and the graph has not",
    graph=attention_of(1),
    once=True,
)
def test_half_of_the_layers_rotate(tmp_path: FilePath) -> Expect:
    """As many without as with: only the configuration knows which are right."""
    return held(qwen3(4).without_rope(1).without_rope(3), tmp_path, QWEN3)


@fires(
    "MG005",
    whole="the model has no rotary embedding in layer 3, and the graph has",
    graph=attention_of(3),
    once=True,
)
def test_a_layer_rotates_that_must_not(tmp_path: FilePath) -> Expect:
    return held(qwen3(4), tmp_path, EXAONE)


@fires(
    "MG005",
    says=("the model has norms of queries and keys in layers 0-3",),
    graph=first_attention,
    once=True,
)
def test_norms_of_queries_and_keys(tmp_path: FilePath) -> Expect:
    return held(qwen3(4).without_qk_norm(), tmp_path, QWEN3)


@silent("MG005")
def test_norms_under_other_names_are_norms(tmp_path: FilePath) -> Expect:
    pair = qwen3(4).emit()
    cuda, graph = (
        text.replace("_q_norm", "_g1").replace("_k_norm", "_g2")
        for text in (pair.cuda_text(), pair.json_text())
    )
    return held(Texts(cuda, graph), tmp_path, QWEN3)


@silent("MG005")
def test_an_operator_that_no_table_knows_may_be_an_attention(tmp_path: FilePath) -> Expect:
    pair = qwen3(4).emit()
    for task in pair.tasks(ATTENTION):
        task["task_type"] = 999
    return held(pair, tmp_path, QWEN3)


@fires(
    "MG005",
    whole="the model has a mixture of experts in layers 0-5, and the graph has not",
    graph=first_attention,
    once=True,
)
def test_layers_without_experts(tmp_path: FilePath) -> Expect:
    return held(qwen3(6), tmp_path, QWEN3_MOE)


@fires(
    "MG005",
    whole="the model has no mixture of experts in layer 3, and the graph has",
    once=True,
)
def test_experts_in_a_layer_that_has_none(tmp_path: FilePath) -> Expect:
    pair = deepseek_v3(5).emit()
    place = behind(where(pair, GATHER, "task_type", nth=3))
    return held(pair, tmp_path, {**DEEPSEEK, "first_k_dense_replace": 4}, graph=place)


@fires("MG005", says=("gateup_proj has 8 experts, the model's configuration 16",), once=True)
def test_another_number_of_experts(tmp_path: FilePath) -> Expect:
    pair = qwen3_moe(6).emit()
    first = pair.graph["all_tasks"].index(pair.tasks(tensor="layer_0_gateup_proj")[0])
    place = ("all_tasks", first, "inputs", 1, "dims")
    return held(pair, tmp_path, {**QWEN3_MOE, "num_experts": 16}, graph=place)


def without_attention(layer: int) -> Pair:
    pair = qwen3(4).emit()
    for task in pair.tasks(ATTENTION):
        if task["inputs"][1]["base_ptr"] == f"layer_{layer}_k_cache":
            task["task_type"], task["inputs"] = 118, task["inputs"][:1]
    return pair


@fires(
    "MG005",
    whole="the model has attention in layer 2, and the graph has not",
    once=True,
)
def test_a_layer_without_attention(tmp_path: FilePath) -> Expect:
    pair = without_attention(2)
    tasks = pair.graph["all_tasks"]
    first = next(i for i, task in enumerate(tasks) if "layer_2_" in str(task["inputs"]))
    return held(pair, tmp_path, LLAMA, graph=("all_tasks", first, "task_type"))


@silent("MG005")
def test_a_layer_without_attention_where_no_type_promises_it(tmp_path: FilePath) -> Expect:
    return held(without_attention(2), tmp_path, {"num_hidden_layers": 4})


@pytest.mark.parametrize("layer", [0, 2, 15])
@fires("MG005", once=True, alone=("MG7",))
def test_a_layer_without_a_feed_forward_network(tmp_path: FilePath, layer: int) -> Expect:
    pair = without_block(qwen3(16), [layer], "post_attn_layernorm").emit()
    at = where(pair, ATTENTION, "task_type", nth=4 * layer)
    made = held(pair, tmp_path, {**QWEN3, "num_hidden_layers": 16}, graph=at)
    says = f"the model has a feed-forward network in layer {layer}, and the graph has not"
    return replace(made, whole=says)


@fires("MG005", once=True, alone=("MG7",))
def test_a_searched_architecture_lacks_another_layers(tmp_path: FilePath) -> Expect:
    pair = without_block(qwen3(16), [7], "input_layernorm").emit()
    blocks = [{"attention": {"no_op": layer == 8}, "ffn": {}} for layer in range(16)]
    document = {"model_type": "nemotron-nas", "num_hidden_layers": 16, "block_configs": blocks}
    at = pair.graph["all_tasks"].index(pair.tasks(tensor="layer_7_post_attn_layernorm")[0])
    made = held(pair, tmp_path, document, graph=("all_tasks", at, "task_type"))
    return replace(made, whole="the model has attention in layer 7, and the graph has not")


@pytest.mark.parametrize(("norm", "block"), [("input", "attention"), ("post_attn", "ffn")])
@silent("MG005", passes=True, alone=("MG7",))
def test_a_searched_architecture(tmp_path: FilePath, norm: str, block: str) -> Expect:
    pair = without_block(qwen3(16), [7], f"{norm}_layernorm").emit()
    blocks: list[dict[str, Any]] = [{"attention": {}, "ffn": {}} for _ in range(16)]
    blocks[7][block] = {"no_op": True}
    document = {"model_type": "nemotron-nas", "num_hidden_layers": 16, "block_configs": blocks}
    return held(pair, tmp_path, document)


def behind(path: Path) -> Path:
    """The same field of the next task: the attention is behind the gather."""
    kind, task, *rest = path
    return (kind, int(task) + 1, *rest)
