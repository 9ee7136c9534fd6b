"""MG5: kernels and their slots."""

from __future__ import annotations

from collections.abc import Callable

from mirage_gate.config import Config, TaskTypeConfig, task_types
from mirage_gate.facts import Options
from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_moe
from tests.rules import Path, fires, silent, where, with_text

ATTENTION, RESIDUAL, SILU, QUANTIZE = 153, 156, 118, 275


def _task(task_type: int, *path: str | int) -> Callable[[Pair], Path]:
    return lambda pair: where(pair, task_type, *path)


@fires("MG501", graph=_task(SILU, "variant_id"), says=("do nothing", "it has none"))
def a_branch_is_gone() -> Pair:
    pair = qwen3(1).emit()
    pair.branches = [b for b in pair.branches if b.task != "TASK_SILU_MUL"]
    return pair


@fires("MG501", graph=_task(SILU, "variant_id"), says=("it has variants 0",))
def a_variant_that_was_never_generated() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(SILU):
        task["variant_id"] = 7
    return pair


@fires("MG501", Severity.WARNING, says=("no dispatch table",))
def a_kernel_file_without_its_second_half() -> Pair:
    pair = qwen3(1).emit()
    text = pair.cuda_text()
    return with_text(pair, text[: text.index("void _execute_task")])


@fires("MG501", graph=_task(296, "task_type"), says=("2 unknown task types", "only 1 type"))
def two_unknown_types_and_one_branch_that_may_be_theirs() -> Pair:
    pair = deepseek_v3(2).emit()
    pair.tasks(296)[-1]["task_type"] = 297
    return pair


@fires("MG501", graph=_task(296, "variant_id"))
def a_variant_that_no_unknown_branch_has() -> Pair:
    pair = deepseek_v3(1).emit()
    for task in pair.tasks(296):
        task["variant_id"] = 5
    return pair


@silent("MG501")
def a_type_that_no_table_knows_and_a_branch_that_may_be_its_own() -> Pair:
    return deepseek_v3(1).emit()


@fires("MG502", cuda="TASK_SILU_MUL && task_desc->variant_id == 0", says=("reads input 1",))
def a_body_reads_a_slot_that_its_tasks_do_not_fill() -> Pair:
    pair = qwen3(1).emit()
    pair.branch("TASK_SILU_MUL").body += " i1"
    return pair


@fires("MG502", cuda="TASK_PAGED_ATTENTION_HOPPER && task_desc->variant_id == 0")
def an_input_is_gone_that_the_body_reads() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(ATTENTION):
        task["inputs"].pop()
    return pair


@silent("MG502")
def a_task_with_a_slot_that_its_body_ignores() -> Pair:
    return qwen3(1, ranks=2).emit(rank=1)


@fires("MG503", Severity.NOTE, cuda="TASK_SILU_MUL && task_desc->variant_id == 1")
def a_branch_too_many() -> Pair:
    pair = qwen3(1).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    return pair


@silent("MG503")
def every_branch_is_selected() -> Pair:
    return qwen3_moe(2).emit()


@fires("MG504", Severity.WARNING, graph=_task(ATTENTION, "inputs"), says=("8 inputs", "room for 7"))
def eight_inputs() -> Pair:
    pair = qwen3(1).emit()
    task = pair.tasks(ATTENTION)[0]
    task["inputs"].append(task["inputs"][0])
    return pair


@silent("MG504")
def eight_inputs_of_a_kernel_that_reads_them() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(ATTENTION):
        task["inputs"].append(task["inputs"][0])
    seventh = "task_desc->input_ptrs[6]"
    assert seventh in pair.cuda_text()
    return with_text(pair, pair.cuda_text().replace(seventh, f"{seventh}, {seventh[:-2]}7]"))


@fires("MG504", graph=_task(SILU, "inputs", 0, "dims"), says=("1 dim and 2 strides",))
def dims_shorter_than_strides() -> Pair:
    pair = qwen3(1).emit()
    pair.tasks(SILU)[0]["inputs"][0]["dims"].pop()
    return pair


@silent("MG504")
def seven_inputs() -> Pair:
    return qwen3(1).emit()


@fires(
    "MG505",
    Severity.WARNING,
    graph=_task(QUANTIZE, "task_type"),
    says=("do the same work 8 times",),
)
def eight_tasks_quantise_the_whole_tensor() -> Pair:
    return deepseek_v3(1).emit()


@silent("MG505")
def one_task_quantises_the_whole_tensor() -> Pair:
    return deepseek_v3(1, dense_layers=1).sized(batch=1, splits=1).emit()


@silent("MG505")
def tasks_told_apart_by_the_request_they_serve() -> Pair:
    pair = qwen3(1).emit()
    first = pair.tasks(ATTENTION)
    for number, task in enumerate(first):  # one head, several requests
        task["inputs"], task["outputs"] = first[0]["inputs"], first[0]["outputs"]
        task["request_id"] = number
    return pair


def _none(task_type: int, slot: int) -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(task_type):
        task["inputs"][slot] = {
            "base_ptr": "nullptr",
            "data_type": 999,
            "dims": [],
            "offset": 0,
            "strides": [],
        }
    return pair


@fires("MG506", graph=_task(RESIDUAL, "inputs", 1, "base_ptr"), says=("reads address 0",))
def a_weight_passed_as_none() -> Pair:
    return _none(RESIDUAL, 1)


@fires("MG506", graph=_task(ATTENTION, "inputs", 1, "base_ptr"))
def a_cache_passed_as_none() -> Pair:
    return _none(ATTENTION, 1)


@fires("MG506", Severity.NOTE, graph=_task(ATTENTION, "inputs", 3, "base_ptr"))
def a_norm_passed_as_none() -> Pair:
    return qwen3(1).without_qk_norm().emit()


@silent("MG506", notes=True)
def norms_passed_as_none_in_every_layer_of_a_model_that_has_none() -> Pair:
    return qwen3(3).without_qk_norm().emit()


@silent("MG506")
def a_residual_passed_as_none_where_it_is_compiled_out() -> Pair:
    pair = qwen3(1, ranks=2).emit(rank=1)
    for task in pair.tasks(RESIDUAL):
        task["inputs"][2]["base_ptr"] = "nullptr"
    return pair


@fires("MG507", Severity.NOTE, graph=_task(296, "task_type"), says=("296",))
def a_forks_own_type() -> Pair:
    return deepseek_v3(1).emit()


_FORK = Config(task_types=[TaskTypeConfig("TASK_MLA_ROPE_Q_SM100", 296, "r r r", "w")])


@silent("MG507", options=Options(task_types=task_types(_FORK)))
def a_forks_own_type_in_the_configuration() -> Pair:
    return deepseek_v3(1).emit()


LINEAR = 155


@fires(
    "MG508",
    Severity.WARNING,
    graph=_task(LINEAR, "variant_id"),
    says=("variant 1 of TASK_LINEAR_SWAPAB_HOPPER runs on",),
)
def one_task_takes_the_variant_of_another_projection() -> Pair:
    pair = qwen3(2).emit()
    pair.tasks(LINEAR)[0]["variant_id"] = 1
    return pair


@fires("MG508", Severity.ERROR, graph=_task(SILU, "variant_id"), says=("float32",))
def one_task_takes_another_data_type() -> Pair:
    pair = qwen3(2).emit()
    pair.tasks(SILU)[0]["outputs"][0]["data_type"] = 950
    return pair


@fires(
    "MG508",
    Severity.WARNING,
    graph=_task(SILU, "variant_id"),
    says=("1 task", "run variant 1", "just like theirs, variant 0"),
)
def one_task_takes_a_twin_of_its_siblings_variant() -> Pair:
    pair = qwen3(2).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    pair.tasks(SILU)[0]["variant_id"] = 1
    return pair


@silent("MG508")
def every_other_layer_takes_a_twin_of_the_variant() -> Pair:
    pair = qwen3(4).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    silu = pair.tasks(SILU)
    tasks = len(silu) // 4
    for number, task in enumerate(silu):
        task["variant_id"] = number // tasks % 2
    return pair


@silent("MG508")
def a_variant_for_every_shape() -> Pair:
    return deepseek_v3(5).emit()
