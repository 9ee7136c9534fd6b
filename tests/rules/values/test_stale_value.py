"""MG212 stale-value."""

from __future__ import annotations

from mirage_gate import Severity
from tests.emitter import Pair, qwen3, qwen3_moe
from tests.rules import Expect, fires, silent
from tests.rules.values._shared import Task, of_type, place, reads, taking

W13, SILU, W2, SUM = 254, 118, 255, 261
TOPK = 260
PARTS, MERGE = 164, 264


def _slot(pair: Pair, task: Task, slot: int) -> tuple[str | int, ...]:
    return ("all_tasks", place(pair, task), "inputs", slot, "base_ptr")


def _waits_for(pair: Pair, tasks: list[Task], like: Task) -> None:
    for task in tasks:
        task["dependent_event"] = like["dependent_event"]


@fires("MG212", tensor="silu_mul_out", once=True)
def test_the_second_experts_do_not_wait_for_the_activation() -> Expect:
    pair = qwen3_moe(4).emit()
    late = of_type(pair, W2, 2)
    _waits_for(pair, late, of_type(pair, SILU, 2)[0])
    return Expect(
        pair,
        graph=("all_tasks", place(pair, late[0]), "inputs", 0, "base_ptr"),
        says=("in layer 2", "TASK_SILU_MUL of layer 2 is not ordered before it"),
    )


@fires("MG212", tensor="mlp_out", once=True)
def test_the_sum_does_not_wait_for_the_experts() -> Expect:
    pair = qwen3_moe(4).emit()
    late = of_type(pair, SUM, 1)
    _waits_for(pair, late, of_type(pair, W2, 1)[0])
    return Expect(
        pair, graph=_slot(pair, late[0], 0), says=("in layer 1", "is not ordered before it")
    )


@fires("MG212", tensor="moe_routing_indices")
def test_the_first_experts_take_the_routing_of_the_layer_before() -> Expect:
    pair = qwen3_moe(4).emit()
    topk, experts = of_type(pair, TOPK, 2), of_type(pair, W13, 2)
    # The experts run where the routing did, and the routing behind them.
    event = experts[0]["dependent_event"]
    for task in experts:
        task["dependent_event"] = topk[0]["dependent_event"]
    for task in topk:
        task["dependent_event"] = experts[0]["trigger_event"]
        task["trigger_event"] = of_type(pair, SILU, 2)[0]["trigger_event"]
    assert event
    says = ("as TASK_MOE_TOPK_SOFTMAX_SM100 of layer 1 left it", "too late")
    return Expect(pair, graph=_slot(pair, experts[0], 2), says=says)


@silent("MG212")
def test_experts_that_wait_for_all() -> Pair:
    return qwen3_moe(4).emit()


@fires("MG212", tensor="lse")
def test_a_merge_of_parts_that_nobody_makes() -> Expect:
    pair = qwen3(3, split_kv=True).emit()
    _drop_last_part(pair, None)
    merge = of_type(pair, MERGE)[0]
    return Expect(
        pair, graph=_slot(pair, merge, 0), says=("in layers 0-2", "merges parts that no task makes")
    )


@fires("MG212", tensor="lse")
def test_a_merge_of_a_part_that_one_layer_does_not_make() -> Expect:
    pair = qwen3(4, split_kv=True).emit()
    _drop_last_part(pair, 2)
    merge = of_type(pair, MERGE, 2)[0]
    return Expect(
        pair,
        graph=_slot(pair, merge, 0),
        says=("in layer 2", "of layer 1 left it", "does not fill those bytes"),
    )


@silent("MG212")
def test_all_parts_are_made() -> Pair:
    return qwen3(4, split_kv=True).emit()


def _drop_last_part(pair: Pair, layer: int | None) -> None:
    """Let the tasks of the last part write where those of the first do."""
    layers = range(4) if layer is None else (layer,)
    for number in layers:
        parts = of_type(pair, PARTS, number) if list(taking(pair, "qkv_proj", number)) else []
        last = max((task["kv_idx"] for task in parts), default=0)
        first = {task["inputs"][1]["offset"]: task for task in parts if task["kv_idx"] == 0}
        for task in parts:
            if task["kv_idx"] == last:
                task["outputs"] = first[task["inputs"][1]["offset"]]["outputs"]


@fires("MG212", Severity.WARNING, tensor="embed_out", once=True)
def test_every_layer_starts_from_the_embedding() -> Expect:
    pair = qwen3(4).emit()
    for layer in range(1, 4):
        for task in taking(pair, "input_layernorm", layer):
            reads(task, 0, "embed_out")
    first = next(taking(pair, "input_layernorm", 1))
    return Expect(
        pair,
        graph=("all_tasks", place(pair, first), "inputs", 0, "base_ptr"),
        says=("in layers 1-3", "before all layers"),
    )


@silent("MG212")
def test_one_layer_that_reads_the_embedding_is_no_pattern() -> Pair:
    pair = qwen3(4).emit()
    for task in taking(pair, "input_layernorm", 2):
        reads(task, 0, "embed_out")
    return pair


@silent("MG212")
def test_two_layers_prove_nothing() -> Pair:
    pair = qwen3(2).emit()
    for task in taking(pair, "input_layernorm", 1):
        reads(task, 0, "embed_out")
    return pair
