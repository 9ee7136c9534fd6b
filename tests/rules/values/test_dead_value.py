"""MG211 dead-value."""

from __future__ import annotations

from dataclasses import replace

from mirage_gate import Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_moe
from tests.rules import Expect, fires, silent
from tests.rules.values._shared import of_type, place, reads, taking

ATTENTION = 153


@fires("MG211", tensor="rmsnorm_out", once=True)
def test_the_head_skips_the_last_norm() -> Expect:
    pair = qwen3(3).emit()
    norm = next(taking(pair, "model_norm_weight"))
    for task in taking(pair, "lm_head"):
        reads(task, 0, "mlp_out")
    return Expect(
        pair,
        graph=("all_tasks", place(pair, norm), "outputs", 0, "base_ptr"),
        says=("(model_norm_weight)", "read by no task", "to the end of the iteration"),
    )


@fires("MG211", tensor="rmsnorm_out", once=True)
def test_a_projection_skips_its_norm_in_every_layer() -> Expect:
    pair = qwen3(3).emit()
    for task in taking(pair, "gatedup_proj"):
        reads(task, 0, "attn_proj_out")
    norm = next(taking(pair, "post_attn_layernorm", 0))
    return Expect(
        pair,
        graph=("all_tasks", place(pair, norm), "outputs", 0, "base_ptr"),
        says=("in layers 0-2", "(layer_N_input_layernorm) of layer 1", "over"),
    )


@fires("MG211", tensor="rmsnorm_out", once=True)
def test_a_projection_skips_its_norm_in_one_layer() -> Expect:
    pair = qwen3(4).emit()
    for task in taking(pair, "gatedup_proj", 2):
        reads(task, 0, "attn_proj_out")
    norm = next(taking(pair, "post_attn_layernorm", 2))
    return Expect(
        pair,
        graph=("all_tasks", place(pair, norm), "outputs", 0, "base_ptr"),
        says=("in layer 2", "unread"),
    )


@silent("MG211")
def test_one_task_that_reads_it_is_enough() -> Pair:
    pair = qwen3(3).emit()
    for layer in range(3):
        for task in list(taking(pair, "gatedup_proj", layer))[1:]:
            reads(task, 0, "attn_proj_out")
    return pair


@silent("MG211")
def test_a_state_that_the_next_iteration_reads() -> Pair:
    pair = qwen3(2).emit()
    for task in taking(pair, "input_layernorm", 0):
        reads(task, 0, "mlp_out")
    return pair


@silent("MG211")
def test_zeros_that_something_is_written_over() -> Pair:
    return deepseek_v3(5).emit()


@silent("MG211")
def test_what_the_last_step_writes() -> Pair:
    return qwen3_moe(2).emit()


@fires("MG211", Severity.WARNING, tensor="layer_1_k_cache", once=True)
def test_two_layers_share_their_caches() -> Expect:
    pair = qwen3(3).emit()
    for task in of_type(pair, ATTENTION, 2):
        reads(task, 1, "layer_1_k_cache")
        reads(task, 2, "layer_1_v_cache")
    second = of_type(pair, ATTENTION, 2)[0]
    return Expect(
        pair,
        graph=("all_tasks", place(pair, second), "inputs", 1, "base_ptr"),
        says=("of layer 2 writes the rows", "of layer 1 has written", "1 more"),
    )


@fires("MG211", Severity.WARNING, once=True)
def test_keys_and_values_share_a_cache() -> Expect:
    pair = qwen3(3).emit()
    for task in of_type(pair, ATTENTION):
        reads(task, 2, task["inputs"][1]["base_ptr"])
    first = of_type(pair, ATTENTION)[0]
    return Expect(
        pair,
        graph=("all_tasks", place(pair, first), "inputs", 2, "base_ptr"),
        says=("inputs 1 and 2 of one task", "2 more caches"),
    )


@silent("MG211")
def test_a_kernel_of_its_own_may_only_read_the_cache() -> Pair:
    pair = qwen3(3).emit()
    for branch in list(pair.branches):
        if branch.task == "TASK_PAGED_ATTENTION_HOPPER":
            pair.branches.append(replace(branch, variant=7))
    for task in of_type(pair, ATTENTION, 2):
        reads(task, 1, "layer_1_k_cache")
        reads(task, 2, "layer_1_v_cache")
        task["variant_id"] = 7
    return pair


@silent("MG211")
def test_other_tokens_have_rows_of_their_own() -> Pair:
    """A second model that starts from the first one's token, as drafts do."""
    pair = qwen3(4).emit()
    tasks = pair.graph["all_tasks"]
    embedding = next(task for task in tasks if task["task_type"] == 101)
    embeddings = [{**task} for task in tasks if task["task_type"] == embedding["task_type"]]
    first = next(taking(pair, "input_layernorm", 2))
    for task in embeddings:
        task["dependent_event"] = first["dependent_event"]
        task["trigger_event"] = first["dependent_event"]
    at = place(pair, first)
    tasks[at:at] = embeddings
    for layer in (2, 3):
        for task in of_type(pair, ATTENTION, layer):
            reads(task, 1, f"layer_{layer - 2}_k_cache")
    for task in taking(pair, "input_layernorm", 2):
        reads(task, 0, "embed_out")
    for task in taking(pair, "o_proj", 2):
        reads(task, 2, "embed_out")
    return pair


@fires("MG211", Severity.WARNING, tensor="mlp_mid", once=True)
def test_a_part_is_read_in_the_other_layers_only() -> Expect:
    """One of the activation's tasks takes its neighbour's columns."""
    pair = qwen3(4).emit()
    silu = of_type(pair, 118, 1)
    silu[0]["inputs"] = silu[1]["inputs"]
    first = next(taking(pair, "gatedup_proj", 1))
    return Expect(
        pair,
        graph=("all_tasks", place(pair, first), "outputs", 0, "base_ptr"),
        says=("are read by no task (in layer 1)", "in most layers"),
    )


@silent("MG211")
def test_the_last_layer_may_go_on_with_a_part() -> Pair:
    pair = qwen3(4).emit()
    silu = of_type(pair, 118, 3)
    silu[0]["inputs"] = silu[1]["inputs"]
    return pair


@fires("MG211", tensor="attn_out", once=True)
def test_a_projection_skips_attention_in_one_layer() -> Expect:
    """Its caches are read by the iterations to come; what it is run for, by nobody."""
    pair = qwen3(4).emit()
    for task in taking(pair, "o_proj", 1):
        reads(task, 0, "attn_in")
    first = of_type(pair, ATTENTION, 1)[0]
    return Expect(
        pair,
        graph=("all_tasks", place(pair, first), "outputs", 0, "base_ptr"),
        says=("into attn_out is read by no task (in layer 1)",),
    )


@silent("MG211")
def test_a_layer_that_is_there_to_fill_its_caches() -> Pair:
    """No layer beside it reads the result of attention: nothing says that one is to."""
    pair = qwen3(1).emit()
    for task in taking(pair, "o_proj"):
        reads(task, 0, "attn_in")
    return pair


@silent("MG211")
def test_one_projection_that_reads_attention_is_enough() -> Pair:
    pair = qwen3(4).emit()
    for task in list(taking(pair, "o_proj", 1))[1:]:
        reads(task, 0, "attn_in")
    return pair
