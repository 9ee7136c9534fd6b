"""MG702 operand-outlier."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere, with_step, without_block
from tests.emitter.graph import INT64, Program, Tensor
from tests.emitter.operators import argmax, linear, rms_norm
from tests.rules import fires, silent
from tests.rules.layers._shared import (
    add_of_the_first,
    aside,
    carrying,
    exchanged,
    first_slot,
    with_copies_exchanged,
)


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


@silent("MG702")
def test_a_copy_of_the_stream_is_kept_behind_one_layer() -> Pair:
    return with_step(qwen3(8), aside, [3]).emit()


@silent("MG702")
def test_the_layers_add_what_the_first_one_kept() -> Pair:
    return with_step(qwen3(8), add_of_the_first, range(8)).emit()


def early_exit(p: Program, layer: int, stream: Tensor) -> None:
    """A head of its own on the stream behind a layer."""
    normed, token = p.scratch("exit_normed", *stream.shape), p.host("exit_token", 4, 1, dtype=INT64)
    logits = p.scratch("exit_logits", stream.shape[0], 256)
    rms_norm(p, "RMS_NORM_HOPPER", stream, p.host("exit_norm", stream.shape[1]), normed)
    head = p.host("exit_head", 256, stream.shape[1])
    linear(p, "LINEAR_SWAPAB_HOPPER", 4, normed, head.cut(x=0), logits)
    argmax(p, "ARGMAX_PARTIAL_SM100", "ARGMAX_REDUCE", 4, logits, token)


@silent("MG702")
def test_the_model_may_leave_early() -> Pair:
    return with_step(qwen3(8), early_exit, [3]).emit()


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_4_input_layernorm", 0),
    says=("in layer 4, input 0", "carries embed_out"),
)
def test_a_layer_reads_the_embedding_behind_an_early_exit() -> Pair:
    pair = with_step(qwen3(8), early_exit, [3]).emit()
    for task in carrying(pair, "layer_4_input_layernorm"):
        task["inputs"][0]["base_ptr"] = "embed_out"
    return pair


COS, SIN = "cos_position_embedding", "sin_position_embedding"


def with_local_tables(pair: Pair, local: Collection[int], *tables: str) -> Pair:
    """Some layers read tables of their own for local attention."""
    for table in (COS, SIN):
        first = pair.declaration(table)
        pair.declarations.insert(0, replace(first, name=f"{table}_local"))
    for layer in local:
        for task in carrying(pair, f"layer_{layer}_k_cache"):
            for tensor in task["inputs"][5:7]:
                if tensor["base_ptr"] in (tables or (COS, SIN)):
                    tensor["base_ptr"] += "_local"
    return pair


@silent("MG702")
def test_three_local_layers_and_a_global_one() -> Pair:
    return with_local_tables(qwen3(24).emit(), [n for n in range(24) if n % 4 != 3])


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_11_k_cache", 5),
    says=("in layer 11, inputs 5 and 6 of", f"carry {COS}_local and {SIN}_local", "3, 7, 15, 19"),
    once=True,
)
def test_one_global_layer_is_local() -> Pair:
    local = [n for n in range(24) if n % 4 != 3 or n == 11]
    return with_local_tables(qwen3(24).emit(), local)


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_5_k_cache", 5),
    says=("in layer 5, TASK_PAGED_ATTENTION_HOPPER", "go together in no other layer"),
    once=True,
)
def test_one_layer_takes_cos_of_one_pair_and_sin_of_the_other() -> Pair:
    """In no pattern: layers 1, 4, 8 and 9 are local."""
    pair = with_local_tables(qwen3(12).emit(), [1, 4, 8, 9])
    for task in carrying(pair, "layer_5_k_cache"):
        task["inputs"][5]["base_ptr"] = f"{COS}_local"
    return pair


def with_donors(pair: Pair, donors: dict[int, int]) -> Pair:
    """Some layers read an earlier layer's cache and have none."""
    for layer, donor in donors.items():
        for task in carrying(pair, f"layer_{layer}_k_cache"):
            for tensor, part in zip(task["inputs"][1:3], "kv", strict=True):
                tensor["base_ptr"] = f"layer_{donor}_{part}_cache"
        for part in "kv":
            pair.declarations.remove(pair.declaration(f"layer_{layer}_{part}_cache"))
    return pair


DONORS = {layer: 4 + layer % 2 for layer in range(6, 12)}


@silent("MG702")
def test_the_upper_half_reads_two_donors() -> Pair:
    return with_donors(qwen3(12).emit(), DONORS)


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_9_q_norm", 1),
    says=("in layer 9", "layer_4_k_cache and layer_5_v_cache, which go together in no other"),
)
def test_one_layer_reads_k_of_one_donor_and_v_of_the_other() -> Pair:
    pair = with_donors(qwen3(12).emit(), DONORS)
    for task in carrying(pair, "layer_9_q_norm"):
        task["inputs"][1]["base_ptr"] = "layer_4_k_cache"
    return pair


@silent("MG702", passes=True)
def test_only_one_layer_has_attention() -> Pair:
    return without_block(qwen3(4), [0, 1, 3], "input_layernorm").emit()
