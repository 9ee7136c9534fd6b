"""MG1: declared and wired."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mirage_gate.config import Config, TaskTypeConfig, task_types
from mirage_gate.facts import Options
from mirage_gate.facts.critical import Critical
from mirage_gate.facts.task_types import built_in, slots
from mirage_gate.findings import Severity
from tests.emitter import LITERAL, Declaration, Pair, deepseek_v3, qwen3, qwen3_ampere
from tests.rules import Path, fires, silent, with_text

EMBEDDING, GATHER, ATTENTION, SILU = 101, 278, 153, 118


@fires("MG101", cuda='all_tensors["rope_cos"]', says=("rope_cos", "input_refs=0"))
def no_layer_reads_the_tables() -> Pair:
    return qwen3(2).named(rope=("rope_cos", "attn_sin")).without_rope().emit()


@fires("MG101", cuda='all_tensors["freqs_cos_sin"]')
def a_table_under_another_name() -> Pair:
    return qwen3(2).with_extra_host("freqs_cos_sin").emit()


@fires(
    "MG101",
    cuda='all_tensors["freqs"]',
    options=Options(critical=Critical.of(("+freqs",))),
)
def a_table_that_the_user_names() -> Pair:
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
def a_table_in_a_slot_that_nobody_touches() -> Pair:
    return qwen3(2).emit()


@silent("MG101")
def one_layer_reads_the_tables() -> Pair:
    return qwen3(2).without_rope(layer=0).emit()


@silent("MG101")
def a_scratch_tensor_with_rope_in_its_name() -> Pair:
    return qwen3(2).with_unused_scratch("q_rope_out").emit()


@silent("MG101")
def a_layers_weight_with_rope_in_its_name() -> Pair:
    return qwen3(2).with_extra_host("layer_0_kv_a_rope").emit()


@fires("MG102", cuda='all_tensors["layer_1_extra"]', says=("host", "output_refs=0"))
def a_weight_that_is_wired_to_nothing() -> Pair:
    return qwen3(2).with_extra_host("layer_1_extra").emit()


@silent("MG102")
def a_host_tensor_that_is_only_written() -> Pair:
    return qwen3(2).emit()


@fires("MG103", Severity.NOTE, cuda='all_tensors["spare"]')
def a_buffer_for_another_configuration() -> Pair:
    return qwen3(2).with_unused_scratch("spare").emit()


@silent("MG103")
def the_sentinel_without_a_user() -> Pair:
    return qwen3_ampere(1).emit()


def _reads_elsewhere(tensor: str, task_type: int, index: int) -> Pair:
    """One operator's readers take another tensor of the same shape: ``tensor`` loses them."""
    pair = qwen3(2).with_extra_host("elsewhere").emit()
    for task in pair.tasks(task_type):
        if task["inputs"][index]["base_ptr"] == tensor:
            task["inputs"][index]["base_ptr"] = "elsewhere"
    return pair


@fires("MG104", Severity.WARNING, cuda='all_tensors["mlp_mid"]', says=("read by none",))
def silu_reads_another_buffer() -> Pair:
    return _reads_elsewhere("mlp_mid", SILU, 0)


@silent("MG104")
def the_final_step_writes_scratch_for_the_host() -> Pair:
    pair = qwen3(2).emit()
    pair.declaration("output_token").storage = "scratch"
    pair.declaration("output_token").nbytes = 64
    return pair


@fires("MG105", cuda='all_tensors["mlp_mid"]', says=("written by none",))
def the_projection_writes_another_buffer() -> Pair:
    pair = qwen3(2).with_unused_scratch("elsewhere").emit()
    for task in pair.tasks(tensor="mlp_mid"):
        for output in task["outputs"]:
            if output["base_ptr"] == "mlp_mid":
                output["base_ptr"] = "elsewhere"
    return pair


@silent("MG105")
def a_cache_is_read_and_written_in_one_slot() -> Pair:
    pair = qwen3(2).emit()
    for name in ("layer_0_k_cache", "layer_0_v_cache"):
        pair.declaration(name).storage = "scratch"
        pair.declaration(name).nbytes = 1 << 30
    return pair


def _first_use_of_mlp_out(pair: Pair) -> Path:
    for i, task in enumerate(pair.graph["all_tasks"]):
        for side in ("inputs", "outputs"):
            for j, tensor in enumerate(task[side] or []):
                if tensor["base_ptr"] == "mlp_out":
                    return ("all_tasks", i, side, j, "base_ptr")
    raise AssertionError("mlp_out is not used")


@fires("MG106", graph=_first_use_of_mlp_out, says=("mlp_out", "declared nowhere"))
def a_declaration_is_gone() -> Pair:
    pair = qwen3(2).emit()
    pair.declarations = [d for d in pair.declarations if d.name != "mlp_out"]
    return pair


@fires("MG106", graph=("all_tasks", 2, "inputs", 1, "base_ptr"), says=("not of one build",))
def most_declarations_are_of_another_build() -> Pair:
    pair = qwen3(4).emit()
    pair.declarations = pair.declarations[:6]
    return pair


@silent("MG106")
def every_name_is_declared() -> Pair:
    return qwen3(2).without_rope(layer=1).emit()


def _ignoring_gather() -> Pair:
    pair = deepseek_v3(2).emit()
    pair.branch("TASK_MLA_KV_GATHER_SM100").body = pair.branch(
        "TASK_MLA_KV_GATHER_SM100"
    ).body.replace(" i4 i5", "")
    return pair


@fires("MG107", Severity.ERROR, cuda='all_tensors["rope_cos"]', says=("no body reads",))
def no_kernel_reads_the_table_it_is_given() -> Pair:
    pair = _ignoring_gather()
    for task in pair.tasks(296):  # nobody else reads it
        task["inputs"] = task["inputs"][:1]
    return pair


@fires("MG107", Severity.NOTE, cuda='all_tensors["rope_cos"]')
def one_of_two_readers_ignores_the_table() -> Pair:
    return _ignoring_gather()


@fires("MG107", Severity.NOTE, cuda='all_tensors["input_token"]')
def the_embedding_ignores_its_input() -> Pair:
    pair = qwen3(2).emit()
    pair.branch("TASK_EMBEDDING").body = "r.tokens r.step i1 o0"
    return pair


@silent("MG107", notes=True)
def a_residual_that_a_rank_compiles_out() -> Pair:
    return qwen3(2, ranks=2).emit(rank=1)


@fires("MG108", cuda='all_tensors["model_norm_weight"]  //again', says=("declared again",))
def a_name_attached_twice() -> Pair:
    pair = qwen3(1).emit()
    text = pair.cuda_text()
    line = '  all_tensors["model_norm_weight"] = model_norm_weight;'
    again = '  all_tensors["model_norm_weight"]  //again\n = model_norm_weight;'
    return with_text(pair, text.replace(line, f"{line}\n{again}"))


def _at_one_address(name: str, other: str) -> Pair:
    pair = qwen3(1).written(LITERAL).emit()
    pair.declaration(name).address = pair.declaration(other).address
    return pair


@fires("MG108", cuda='all_tensors["layer_0_v_cache"]', says=("one address", "written by"))
def two_caches_at_one_address() -> Pair:
    return _at_one_address("layer_0_v_cache", "layer_0_k_cache")


@silent("MG108", notes=True)
def two_names_for_one_weight_that_is_only_read() -> Pair:
    return _at_one_address("layer_0_k_norm", "layer_0_q_norm")


@fires("MG109", cuda='all_tensors["model.layers.0.q_norm"]', says=("no C++ identifier",))
def a_name_with_dots() -> Pair:
    return qwen3(1).named(weights="model.layers.{layer}.{part}").emit()


@silent("MG109")
def a_name_with_digits_and_underscores() -> Pair:
    return qwen3(1).with_extra_host("_x9_").emit()


@fires("MG110", Severity.WARNING, cuda='all_tensors["input_token"]', says=("position encoding",))
def tables_under_a_name_that_nobody_knows() -> Pair:
    return qwen3(1).named(rope=("freqs_a", "freqs_b")).emit()


@fires(
    "MG110",
    Severity.ERROR,
    says=("lm_haed", "not declared (there is lm_head)"),
    options=Options(critical=Critical.of(("lm_haed",))),
)
def the_only_critical_name_is_mistyped() -> Pair:
    return qwen3(1).emit()


@fires(
    "MG110",
    Severity.WARNING,
    says=("foo", "not declared"),
    options=Options(critical=Critical.of(("foo", "lm_head"))),
)
def one_of_several_names_that_models_use_is_not_this_models() -> Pair:
    return qwen3(1).emit()


@silent("MG110")
def the_demos_own_names() -> Pair:
    return qwen3(1).named(rope=("cos_position_embedding", "sin_position_embedding")).emit()


@silent("MG110")
def tables_of_each_layers_own() -> Pair:
    return qwen3(1).named(rope=("layer_0_rope_cos", "layer_0_rope_sin")).emit()


@fires(
    "MG101",
    cuda='all_tensors["layer_0_bias"]',
    options=Options(critical=Critical.of(("+layer_*_bias",))),
)
def a_pattern_of_the_users_own_holds_for_layers_too() -> Pair:
    return qwen3(1).with_extra_host("layer_0_bias").emit()


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
def cosine_and_sine_are_exchanged_in_every_layer() -> Pair:
    return _exchanged(5, 6)


@fires("MG111", Severity.WARNING, graph=_input_of_attention(3), says=("each other's (q, k)",))
def the_norms_of_queries_and_keys_are_exchanged() -> Pair:
    return _exchanged(3, 4)


@fires("MG111", Severity.WARNING, graph=_input_of_attention(1), says=("each other's (k, v)",))
def the_caches_are_exchanged() -> Pair:
    return _exchanged(1, 2)


@silent("MG111")
def every_input_in_its_place() -> Pair:
    return qwen3(2).emit()


@silent("MG111")
def one_table_for_both() -> Pair:
    pair = qwen3(2).emit()
    for task in pair.tasks(ATTENTION):
        for slot in (5, 6):
            task["inputs"][slot]["base_ptr"] = "cos_sin_table"
    pair.declarations.insert(0, Declaration("cos_sin_table"))
    return pair


def _named(cos: str, sin: str) -> Pair:
    return qwen3(2).named(rope=(cos, sin)).emit()


@fires("MG111", Severity.WARNING, graph=_input_of_attention(5), says=("SIN_TABLE is input 5",))
def the_tables_have_capitals() -> Pair:
    return _named("SIN_TABLE", "COS_TABLE")


@silent("MG111")
def the_words_are_parts_of_others() -> Pair:
    return _named("single_cosine", "cosmos_sine")


@silent("MG111", options=Options(task_types=task_types(FORK)))
def a_fork_whose_attention_takes_them_the_other_way_round() -> Pair:
    return _exchanged(5, 6)
