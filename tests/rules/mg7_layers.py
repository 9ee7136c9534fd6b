"""Layers: what only siblings tell."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from mirage_gate.facts import Options
from mirage_gate.facts.critical import Critical
from mirage_gate.findings import Severity
from tests.emitter import Declaration, Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.rules import Path, fires, silent, where

NORM, SILU = 154, 118


def carrying(pair: Pair, tensor: str) -> list[dict[str, Any]]:
    return pair.tasks(tensor=tensor)


def first_slot(pair: Pair, tensor: str, index: int) -> Path:
    """The path of a slot of the first task that carries a tensor in any slot."""
    task = pair.graph["all_tasks"].index(carrying(pair, tensor)[0])
    return ("all_tasks", task, "inputs", index, "base_ptr")


def exchanged(pair: Pair, one: str, other: str) -> Pair:
    swap = {one: other, other: one}
    for task in pair.graph["all_tasks"]:
        for tensor in [*(task["inputs"] or []), *(task["outputs"] or [])]:
            tensor["base_ptr"] = swap.get(tensor["base_ptr"], tensor["base_ptr"])
    return pair


# -- MG701 -------------------------------------------------------------------------------------


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "layer_2_k_cache", 5),
    says=("layer 2 runs without cos_position_embedding and sin_position_embedding", "inputs 5 and"),
)
def one_layer_of_four_has_no_tables() -> Pair:
    return qwen3(4).without_rope(layer=2).emit()


@fires("MG701", graph=lambda pair: first_slot(pair, "layer_0_k_cache", 5), says=("layer 0 runs",))
def the_first_layer_has_no_tables() -> Pair:
    return qwen3_moe(6).without_rope(layer=0).emit()


@fires(
    "MG701",
    says=("layer 1 runs without", "layer 0 has"),
    graph=lambda p: first_slot(p, "layer_1_k_cache", 5),
)
def one_layer_of_two_has_no_tables() -> Pair:
    return qwen3(2).without_rope(layer=1).emit()


@fires(
    "MG701",
    says=("layers 3-6 run without cos_position_embedding",),
    graph=lambda pair: first_slot(pair, "layer_3_k_cache", 5),
)
def four_layers_in_a_row_have_no_tables() -> Pair:
    model = qwen3(12)
    for layer in range(3, 7):
        model = model.without_rope(layer=layer)
    return model.emit()


@silent("MG701")
def every_fourth_layer_has_no_tables() -> Pair:
    model = qwen3(12)
    for layer in range(3, 12, 4):
        model = model.without_rope(layer=layer)
    return model.emit()


@silent("MG701")
def no_layer_has_tables() -> Pair:
    return qwen3(4).without_rope().emit()


@fires(
    "MG701",
    Severity.WARNING,
    says=("layer 1 runs without layer_N_q_norm and layer_N_k_norm", "inputs 3 and 4"),
    graph=lambda pair: first_slot(pair, "layer_1_k_cache", 3),
)
def one_layer_of_three_has_no_norms() -> Pair:
    return qwen3_ampere(3).without_qk_norm(layer=1).emit()


@silent("MG701")
def one_layer_of_two_has_no_norms() -> Pair:
    return qwen3(2).without_qk_norm(layer=1).emit()


@fires(
    "MG701",
    says=("layer 1 runs without rope_cos and rope_sin", "missing"),
    graph=lambda p: where(p, 278, "inputs", nth=1),
)
def a_dense_layer_of_deepseek_rotates_nothing() -> Pair:
    return deepseek_v3(5).without_rope(layer=1).emit()


@fires(
    "MG701",
    says=("layer 3 runs without", "not there"),
    graph=lambda pair: where(pair, 278, "inputs", nth=3),
)
def the_only_mixture_layer_rotates_nothing() -> Pair:
    return deepseek_v3(4).without_rope(layer=3).emit()


@fires(
    "MG701",
    says=("input 5", "not read by the kernel"),
    graph=lambda p: first_slot(p, "layer_2_k_cache", 5),
)
def the_kernel_of_one_layer_skips_a_table() -> Pair:
    pair = qwen3(4).emit()
    branch = next(b for b in pair.branches if "PAGED_ATTENTION_HOPPER" in b.task)
    other = copy.copy(branch)
    other.variant = 7
    other.body = " ".join(word for word in branch.body.split() if word != "i5")
    pair.branches.append(other)
    for task in carrying(pair, "layer_2_k_cache"):
        task["variant_id"] = 7
    return pair


def without(pair: Pair, layer: int, task_type: int) -> Pair:
    """Replace an operator's tasks by copies of the ones before it."""
    tasks = pair.graph["all_tasks"]
    inside = [
        i
        for i, t in enumerate(tasks)
        if any(f"layer_{layer}_" in s["base_ptr"] for s in t["inputs"] or [])
    ]
    gone = [i for i in range(inside[0], inside[-1]) if tasks[i]["task_type"] == task_type]
    for i in gone:
        keep = {key: tasks[i][key] for key in ("trigger_event", "dependent_event")}
        tasks[i] = {**copy.deepcopy(tasks[gone[0] - 1]), **keep}
    return pair


@fires(
    "MG701",
    Severity.WARNING,
    says=("layer 2 runs without TASK_SILU_MUL", "missing"),
    graph=lambda pair: (*first_slot(pair, "layer_2_down_proj", 0)[:2], "task_type"),
)
def one_layer_lacks_an_operator() -> Pair:
    return without(qwen3(5).emit(), 2, SILU)


@fires(
    "MG701",
    Severity.WARNING,
    graph=lambda pair: (*first_slot(pair, "layer_2_down_proj", 0)[:2], "task_type"),
    says=("layer 2 has TASK_SILU_MUL", "which layers 0-1, 3-4 do not", "one too many"),
)
def one_layer_has_an_operator_too_many() -> Pair:
    pair = qwen3(5).emit()
    first, *rest = carrying(pair, "layer_2_down_proj")
    assert rest
    first["task_type"] = SILU
    return pair


def with_tables_of_its_own(pair: Pair) -> Pair:
    """Each layer has its own copy of the tables, as some builders attach them."""
    tables = ("cos_position_embedding", "sin_position_embedding")
    for task in pair.tasks(153):
        layer = task["inputs"][1]["base_ptr"].removesuffix("_k_cache")
        for slot, table in zip((5, 6), ("cos", "sin"), strict=True):
            if task["inputs"][slot]["base_ptr"] in tables:
                task["inputs"][slot]["base_ptr"] = f"{layer}_rope_{table}"
    used = {t["inputs"][s]["base_ptr"] for t in pair.tasks(153) for s in (5, 6)} - {"nullptr"}
    pair.declarations = [d for d in pair.declarations if d.name not in tables]
    pair.declarations[:0] = [Declaration(name) for name in sorted(used)]
    return pair


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "layer_2_k_cache", 5),
    says=("layer 2 runs without layer_N_rope_cos and layer_N_rope_sin",),
)
def a_layer_has_not_its_own_tables() -> Pair:
    return with_tables_of_its_own(qwen3(4).without_rope(layer=2).emit())


@silent("MG701")
def every_layer_has_its_own_tables() -> Pair:
    return with_tables_of_its_own(qwen3(4).emit())


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "layer_1_k_cache", 3),
    says=("layer 1 runs without layer_N_q_norm and layer_N_k_norm",),
    options=Options(critical=Critical.of(("+*_norm",))),
)
def norms_are_critical_to_this_user() -> Pair:
    return qwen3(4).without_qk_norm(layer=1).emit()


@silent("MG701")
def dense_layers_before_mixture_layers() -> Pair:
    return deepseek_v3(9).emit()


# -- MG702 -------------------------------------------------------------------------------------


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_1_o_proj", 2),
    says=("in layer 1, input 2", "embed_out", "what the operator right before the layer wrote"),
)
def one_layer_adds_the_embedding() -> Pair:
    return qwen3(4).stale_residual(1).emit()


@fires(
    "MG702", Severity.WARNING, graph=lambda p: first_slot(p, "layer_1_o_proj", 2), says=("layer 1",)
)
def one_layer_of_two_adds_the_embedding() -> Pair:
    return qwen3(2).stale_residual(1).emit()


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_4_o_proj", 4),
    says=("in layer 4", "layer_2_mlp_fused", "wrote 2 layers before"),
)
def a_residual_of_two_layers_ago() -> Pair:
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
def two_norms_of_one_layer_are_exchanged() -> Pair:
    return exchanged(qwen3(4).emit(), "layer_2_input_layernorm", "layer_2_post_attn_layernorm")


@fires(
    "MG702",
    Severity.WARNING,
    says=("layer 2", "sin_position_embedding"),
    graph=lambda p: first_slot(p, "layer_2_k_cache", 5),
)
def cosine_and_sine_are_exchanged_in_one_layer() -> Pair:
    pair = qwen3(4).emit()
    for task in carrying(pair, "layer_2_k_cache"):
        task["inputs"][5], task["inputs"][6] = task["inputs"][6], task["inputs"][5]
    return pair


def with_copies_exchanged(pair: Pair, one: tuple[str, int], other: tuple[str, int]) -> Pair:
    """Two copies into shuffled tensors take each other's source."""
    sources = {(name, at): pair.declaration(name).copies[at].name for name, at in (one, other)}
    for (name, at), source in ((one, sources[other]), (other, sources[one])):
        copies = pair.declaration(name).copies
        copies[at] = replace(copies[at], name=source)
    return pair


@fires(
    "MG702",
    Severity.WARNING,
    cuda='model_tensors.at("layer_2_up_proj")',
    says=("in layer 2, layer_N_gatedup_proj is filled with layer_N_up_proj, layer_N_gate_proj",),
)
def gate_and_up_are_exchanged_in_one_layer() -> Pair:
    part = "layer_2_gatedup_proj"
    return with_copies_exchanged(qwen3(4).emit(), (part, 0), (part, 1))


@silent("MG702")
def the_first_layer_adds_the_embedding() -> Pair:
    return qwen3(4).emit()


@silent("MG702")
def one_layer_stores_its_weights_otherwise() -> Pair:
    return qwen3_ampere(4, shuffled=(1,)).emit()


@silent("MG702")
def the_first_mixture_layer_adds_a_dense_ones_sum() -> Pair:
    return deepseek_v3(9, ranks=8).emit()


# -- MG703 -------------------------------------------------------------------------------------


@fires(
    "MG703",
    graph=lambda pair: first_slot(pair, "layer_2_o_proj", 1),
    says=("in layer 1", "layer_2_o_proj"),
)
def two_layers_weights_are_exchanged() -> Pair:
    return exchanged(qwen3(4).emit(), "layer_1_o_proj", "layer_2_o_proj")


@fires("MG703", graph=lambda p: first_slot(p, "layer_1_input_layernorm", 1), says=("in layer 0",))
def the_first_operators_weights_are_exchanged() -> Pair:
    return exchanged(qwen3(2).emit(), "layer_0_input_layernorm", "layer_1_input_layernorm")


@fires(
    "MG703",
    says=("in layer 3", "layer_2_v_cache", "nobody reads layer_3_v_cache"),
    graph=lambda p: first_slot(p, "layer_3_k_cache", 2),
)
def a_cache_is_shared_by_mistake() -> Pair:
    pair = qwen3(4).emit()
    for task in carrying(pair, "layer_3_k_cache"):
        task["inputs"][2]["base_ptr"] = "layer_2_v_cache"
    return pair


@fires(
    "MG703",
    cuda='model_tensors.at("layer_3_k_proj")',
    says=("in layer 1, layer_1_qkv_proj is filled from layer_3_k_proj",),
)
def two_layers_copies_are_exchanged() -> Pair:
    parts = ("layer_1_qkv_proj", 1), ("layer_3_qkv_proj", 1)
    return with_copies_exchanged(qwen3(4).emit(), *parts)


@silent("MG703")
def every_layer_norms_for_the_next_one() -> Pair:
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
def other_names_for_layers() -> Pair:
    return deepseek_v3(6).named(weights="model_layers_{layer}_{part}").emit()


# -- MG705 -------------------------------------------------------------------------------------


def with_fewer_norms(layers: int, layer: int) -> Pair:
    pair = qwen3(layers).emit()
    norms = carrying(pair, f"layer_{layer}_input_layernorm")
    follow = carrying(pair, f"layer_{layer}_qkv_proj")[0]
    keep = {key: norms[0][key] for key in ("trigger_event", "dependent_event")}
    norms[0].update({**copy.deepcopy(follow), **keep})
    tasks = pair.graph["all_tasks"]
    at = tasks.index(norms[0])
    tasks[at : at + len(norms)] = [*norms[1:], norms[0]]
    return pair


@fires(
    "MG705",
    Severity.WARNING,
    says=("in layer 2", "has 3 tasks", "it has 4"),
    graph=lambda p: (*first_slot(p, "layer_2_input_layernorm", 0)[:2], "task_type"),
)
def one_layer_has_fewer_tasks() -> Pair:
    return with_fewer_norms(5, 2)


@silent("MG705")
def three_layers_are_too_few_to_tell() -> Pair:
    return with_fewer_norms(3, 1)


@silent("MG705")
def dense_and_mixture_layers_have_other_grids() -> Pair:
    return deepseek_v3(5).emit()


@fires("MG703", Severity.ERROR, cuda="layer_2_gatedup_proj + 0)", says=("layer_0_gate_proj",))
def a_layer_filled_from_another() -> Pair:
    pair = qwen3(3).emit()
    copies = pair.declaration("layer_2_gatedup_proj").copies
    copies[0] = replace(copies[0], name="layer_0_gate_proj")
    return pair


@fires("MG702", Severity.WARNING, cuda="layer_1_qkv_proj + 16384)", says=("layer_N_v_proj",))
def k_and_v_that_changed_places() -> Pair:
    pair = qwen3(3).emit()
    q, k, v = pair.declaration("layer_1_qkv_proj").copies
    pair.declaration("layer_1_qkv_proj").copies = [
        q,
        replace(k, name="layer_1_v_proj"),
        replace(v, name="layer_1_k_proj"),
    ]
    return pair


@silent("MG703")
def layers_that_are_filled_from_their_own() -> Pair:
    return qwen3(4).emit()
