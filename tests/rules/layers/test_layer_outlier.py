"""MG701 layer-outlier."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from mirage_gate.facts import Options
from mirage_gate.facts.critical import Critical
from mirage_gate.findings import Severity
from tests.emitter import (
    Declaration,
    Model,
    Pair,
    deepseek_v3,
    qwen3,
    qwen3_ampere,
    qwen3_moe,
    shared,
    with_step,
    without_block,
)
from tests.emitter.graph import Program, Slot, Tensor
from tests.emitter.operators import rms_norm
from tests.rules import Expect, Path, fires, silent, where
from tests.rules.layers._shared import add_of_the_first, aside, carrying, first_slot

SILU = 118


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "layer_2_k_cache", 5),
    says=("layer 2 runs without cos_position_embedding and sin_position_embedding", "inputs 5 and"),
)
def test_one_layer_of_four_has_no_tables() -> Pair:
    return qwen3(4).without_rope(layer=2).emit()


@fires("MG701", graph=lambda pair: first_slot(pair, "layer_0_k_cache", 5), says=("layer 0 runs",))
def test_the_first_layer_has_no_tables() -> Pair:
    return qwen3_moe(6).without_rope(layer=0).emit()


@fires(
    "MG701",
    says=("layer 1 runs without", "layer 0 has"),
    graph=lambda p: first_slot(p, "layer_1_k_cache", 5),
)
def test_one_layer_of_two_has_no_tables() -> Pair:
    return qwen3(2).without_rope(layer=1).emit()


@fires(
    "MG701",
    says=("layers 3-6 run without cos_position_embedding",),
    graph=lambda pair: first_slot(pair, "layer_3_k_cache", 5),
)
def test_four_layers_in_a_row_have_no_tables() -> Pair:
    return qwen3(12).without_rope(range(3, 7)).emit()


@silent("MG701")
def test_every_fourth_layer_has_no_tables() -> Pair:
    return qwen3(12).without_rope(range(3, 12, 4)).emit()


@silent("MG701")
def test_no_layer_has_tables() -> Pair:
    return qwen3(4).without_rope().emit()


@fires(
    "MG701",
    Severity.WARNING,
    says=("layer 1 runs without layer_N_q_norm and layer_N_k_norm", "inputs 3 and 4"),
    graph=lambda pair: first_slot(pair, "layer_1_k_cache", 3),
)
def test_one_layer_of_three_has_no_norms() -> Pair:
    return qwen3_ampere(3).without_qk_norm(layer=1).emit()


@silent("MG701")
def test_one_layer_of_two_has_no_norms() -> Pair:
    return qwen3(2).without_qk_norm(layer=1).emit()


@fires(
    "MG701",
    says=("layer 1 runs without rope_cos and rope_sin", "missing"),
    graph=lambda p: where(p, 278, "inputs", nth=1),
)
def test_a_dense_layer_of_deepseek_rotates_nothing() -> Pair:
    return deepseek_v3(5).without_rope(layer=1).emit()


@fires(
    "MG701",
    says=("layer 3 runs without", "not there"),
    graph=lambda pair: where(pair, 278, "inputs", nth=3),
)
def test_the_only_mixture_layer_rotates_nothing() -> Pair:
    return deepseek_v3(4).without_rope(layer=3).emit()


@fires(
    "MG701",
    says=("input 5", "not read by the kernel"),
    graph=lambda p: first_slot(p, "layer_2_k_cache", 5),
)
def test_the_kernel_of_one_layer_skips_a_table() -> Pair:
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
def test_one_layer_lacks_an_operator() -> Pair:
    return without(qwen3(5).emit(), 2, SILU)


@fires(
    "MG701",
    Severity.WARNING,
    graph=lambda pair: (*first_slot(pair, "layer_2_down_proj", 0)[:2], "task_type"),
    says=("layer 2 has TASK_SILU_MUL", "which layers 0-1, 3-4 do not", "one too many"),
)
def test_one_layer_has_an_operator_too_many() -> Pair:
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
def test_a_layer_has_not_its_own_tables() -> Pair:
    return with_tables_of_its_own(qwen3(4).without_rope(layer=2).emit())


@silent("MG701")
def test_every_layer_has_its_own_tables() -> Pair:
    return with_tables_of_its_own(qwen3(4).emit())


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "layer_1_k_cache", 3),
    says=("layer 1 runs without layer_N_q_norm and layer_N_k_norm",),
    options=Options(critical=Critical.of(("+*_norm",))),
)
def test_norms_are_critical_to_this_user() -> Pair:
    return qwen3(4).without_qk_norm(layer=1).emit()


@silent("MG701")
def test_dense_layers_before_mixture_layers() -> Pair:
    return deepseek_v3(9).emit()


@fires(
    "MG701",
    Severity.NOTE,
    says=("layer 3 has TASK_IDENTITY", "which layers 0-2, 4-7 do not"),
    graph=lambda pair: where(pair, 121, "task_type"),
)
def test_the_stream_is_copied_behind_one_layer() -> Pair:
    return with_step(qwen3(8), aside, [3]).emit()


@silent("MG701")
def test_the_stream_is_copied_behind_every_layer() -> Pair:
    return with_step(qwen3(8), aside, range(8)).emit()


@silent("MG701")
def test_the_last_layer_has_a_step_of_its_own() -> Pair:
    return with_step(qwen3(8), aside, [7]).emit()


@fires(
    "MG701",
    Severity.WARNING,
    graph=lambda pair: (*twice(pair), "task_type"),
    says=("layer 3 has TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER (layer_N_down_proj)", "too many"),
)
def test_a_projection_is_done_twice() -> Pair:
    def again(p: Program, layer: int, stream: Tensor) -> None:
        p.run(*_last(p))

    return with_step(qwen3(8), again, [3]).emit()


def _last(p: Program) -> tuple[str, Any, Any, Any]:
    """The last operator, as it was run, but into a buffer of its own."""
    op = p.ops[-1]
    (out,) = op.outputs
    assert isinstance(out, Slot)
    assert out.tensor is not None
    other = replace(out, tensor=p.scratch("twice", *out.tensor.shape))
    return op.kind.name, op.grid, op.inputs, [other]


def twice(pair: Pair) -> Path:
    """The first task that fills the buffer of the operator that is run again."""
    tasks = pair.graph["all_tasks"]
    return ("all_tasks", tasks.index(carrying(pair, "twice")[0]))


@silent("MG701")
def test_the_layers_add_what_the_first_one_kept() -> Pair:
    return with_step(qwen3(8), add_of_the_first, range(8)).emit()


EVERY_FOURTH = range(3, 32, 4)


@silent("MG701")
def test_every_fourth_of_many_layers_has_no_tables() -> Pair:
    return qwen3(32).without_rope(EVERY_FOURTH).emit()


@fires(
    "MG701",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_15_k_cache", 5),
    says=("layer 15 has cos_position_embedding and sin", "which layers 3, 7, 11, 19, 23, 27, 31"),
    once=True,
)
def test_every_fourth_layer_but_one_has_no_tables() -> Pair:
    return qwen3(32).without_rope([n for n in EVERY_FOURTH if n != 15]).emit()


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "layer_14_k_cache", 5),
    says=("layer 14 runs without cos_position_embedding and sin_position_embedding",),
    once=True,
)
def test_one_more_than_every_fourth_layer_has_no_tables() -> Pair:
    return qwen3(32).without_rope([*EVERY_FOURTH, 14]).emit()


INPUT_NORM, POST_NORM = "input_layernorm", "post_attn_layernorm"
FAMILIES = {
    "dense": qwen3(4),
    "ampere": qwen3(4, arch="ampere"),
    "split-kv": qwen3(16, split_kv=True),
    "two ranks": qwen3(16, ranks=2),
    "mixture": qwen3_moe(16),
    "fused": qwen3_ampere(16, shuffled=()),
}


@pytest.mark.parametrize("family", FAMILIES)
@fires("MG701", Severity.NOTE, says=("layer 2 runs without attention, which layers 0-1, 3",))
def test_one_layer_has_no_attention(family: str) -> Expect:
    pair = without_block(FAMILIES[family], [2], INPUT_NORM).emit()
    return Expect(
        pair, graph=(*first_slot(pair, "layer_2_post_attn_layernorm", 0)[:2], "task_type")
    )


@pytest.mark.parametrize("family", FAMILIES)
@fires("MG701", Severity.NOTE, says=("layer 2 runs without a feed-forward network, which layers",))
def test_one_layer_has_no_feed_forward_network(family: str) -> Expect:
    pair = without_block(FAMILIES[family], [2], POST_NORM).emit()
    last = pair.graph["all_tasks"].index(carrying(pair, "layer_3_input_layernorm")[0]) - 1
    operator = pair.graph["all_tasks"][last]["task_type"]
    first = next(
        n for n in range(last, 0, -1) if pair.graph["all_tasks"][n - 1]["task_type"] != operator
    )
    return Expect(pair, graph=("all_tasks", first, "task_type"))


@pytest.mark.parametrize("norm", [INPUT_NORM, POST_NORM])
@pytest.mark.parametrize("layers", [[5, 11], range(1, 16, 2), range(6), range(3, 16)])
@silent("MG701", notes=True, passes=True)
def test_a_searched_architecture(norm: str, layers: Collection[int]) -> Pair:
    return without_block(qwen3(16), list(layers), norm).emit()


def with_block_twice(model: Model, layer: int, norm: str) -> Pair:
    """Everything from a norm to the next one comes again, with the same weights."""
    build = model.build

    def twice(p: Program, m: Model) -> None:
        build(p, m)
        norms = [m.weight(n, part) for n in range(m.layers) for part in (INPUT_NORM, POST_NORM)]
        reads = [{t.name for slot in op.inputs for t in slot.tensors} for op in p.ops]
        begin = next(i for i, names in enumerate(reads) if m.weight(layer, norm) in names)
        end = next(
            i for i in range(begin + 1, len(reads)) if reads[i] & {*norms, "model_norm_weight"}
        )
        p.ops[end:end] = p.ops[begin:end]

    return replace(model, build=twice).emit()


@pytest.mark.parametrize(
    ("layers", "layer", "norm", "what"),
    [
        (4, 2, INPUT_NORM, "attention twice"),
        (16, 7, POST_NORM, "a feed-forward network twice"),
        (16, 0, INPUT_NORM, "attention twice"),
        (16, 15, POST_NORM, "a feed-forward network twice"),
    ],
)
@fires("MG701", Severity.WARNING)
def test_a_block_is_done_twice(layers: int, layer: int, norm: str, what: str) -> Expect:
    pair = with_block_twice(qwen3(layers), layer, norm)
    tasks = carrying(pair, f"layer_{layer}_{norm}")
    again = pair.graph["all_tasks"].index(tasks[len(tasks) // 2])
    says = (f"layer {layer} has {what}, which layer",)
    return Expect(pair, graph=("all_tasks", again, "task_type"), says=says)


def adapter(p: Program, layer: int, stream: Tensor) -> None:
    """Three operators with weights of their own."""
    normed = stream
    for part in "abc":
        before, normed = normed, shared(p, f"adapted_{part}", *stream.shape)
        weight = p.host(f"layer_{layer}_adapter_{part}", stream.shape[1])
        rms_norm(p, "RMS_NORM_HOPPER", before, weight, normed)
    rows = (stream.shape[0],)
    p.run("ELEMENTWISE_ADD_SM100", rows, [stream.cut(x=0), normed.cut(x=0)], [stream.cut(x=0)])


@fires(
    "MG701",
    Severity.NOTE,
    says=("layer 5 has a block more than they, which layers 0-4, 6-15 do not",),
    graph=lambda p: (*first_slot(p, "layer_5_adapter_a", 1)[:2], "task_type"),
)
def test_one_layer_has_an_adapter() -> Pair:
    return with_step(qwen3(16), adapter, [5]).emit()


@pytest.mark.parametrize("layers", [[0], [15], range(8, 16)])
@silent("MG701")
def test_the_first_or_last_layer_has_an_adapter(layers: Collection[int]) -> Pair:
    return with_step(qwen3(16), adapter, list(layers)).emit()


# -- Patterns with one hole --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "without", "odd"),
    [
        (13, [0, 4, 6, 8, 12], 6),  # every fourth, and 6
        (12, [3, 4, 7, 11], 4),
        (18, [2, 5, 11, 14, 17], 8),  # every third but 8
        (8, [1, 3, 5, 6, 7], 6),
    ],
)
@fires("MG701", beside=("MG701",))
def test_one_layer_is_off_a_short_pattern(layers: int, without: list[int], odd: int) -> Expect:
    """Few layers, but the finding accuses the one and not the others."""
    model = qwen3(layers)
    for layer in without:
        model = model.without_rope(layer=layer)
    severity = Severity.ERROR if odd in without else Severity.WARNING
    pair, says = model.emit(), (f"layer {odd} {'runs without' if odd in without else 'has'} cos",)
    at = first_slot(pair, f"layer_{odd}_k_cache", 5)
    return Expect(pair, graph=at, says=says, severity=severity, once=True)


@pytest.mark.parametrize(
    "without", [[3, 7, 11, 15], [0, 3, 7, 11, 15], [3, 7, 11], [0, 5, 10, 15], [5, 10, 15]]
)
@silent("MG701")
def test_a_pattern_whose_ends_differ(without: list[int]) -> Pair:
    return qwen3(16).without_rope(without).emit()


def scaled(p: Program, layer: int, stream: Tensor) -> None:
    """Two operators, one with a weight of its own."""
    weight = p.host(f"layer_{layer}_gamma", stream.shape[1])
    scale = shared(p, "scaled", *stream.shape)
    rms_norm(p, "RMS_NORM_HOPPER", stream, weight, scale)
    rows = (stream.shape[0],)
    p.run("ELEMENTWISE_ADD_SM100", rows, [stream.cut(x=0), scale.cut(x=0)], [stream.cut(x=0)])


def holed(layers: int, every: int, first: int, hole: int) -> list[int]:
    """Every so many layers from one on, but for one that has it not, or has it beside them."""
    return sorted(set(range(first, layers, every)) ^ {hole})


def opening(pair: Pair, tensor: str, behind: bool = False) -> Path:
    """The first task of the operator that carries a tensor, or of the one behind it."""
    tasks = pair.graph["all_tasks"]
    carriers = carrying(pair, tensor)
    task = tasks.index(carriers[-1]) + 1 if behind else tasks.index(carriers[0])
    return ("all_tasks", task, "task_type")


@pytest.mark.parametrize("step", [scaled, adapter])
@pytest.mark.parametrize(("every", "first"), [(2, 1), (3, 0), (4, 3)])
@silent("MG701", passes=True)
def test_a_step_in_every_nth_layer(step: Any, every: int, first: int) -> Pair:
    return with_step(qwen3(24), step, range(first, 24, every)).emit()


@pytest.mark.parametrize(("every", "first", "hole"), [(3, 0, 6), (4, 3, 15), (4, 0, 8), (5, 1, 11)])
@fires("MG701", Severity.WARNING, once=True)
def test_a_step_in_every_nth_layer_but_one(every: int, first: int, hole: int) -> Expect:
    pair = with_step(qwen3(36), scaled, holed(36, every, first, hole)).emit()
    says = (f"layer {hole} runs without", "layer_N_gamma")
    return Expect(pair, graph=opening(pair, f"layer_{hole}_down_proj"), says=says)


@pytest.mark.parametrize(("every", "first", "more"), [(4, 3, 16), (4, 0, 7), (5, 1, 12)])
@fires("MG701", Severity.WARNING, once=True)
def test_a_step_in_every_nth_layer_and_one_more(every: int, first: int, more: int) -> Expect:
    pair = with_step(qwen3(36), scaled, holed(36, every, first, more)).emit()
    says = (f"layer {more} has", "layer_N_gamma")
    return Expect(pair, graph=opening(pair, f"layer_{more}_gamma"), says=says)


@pytest.mark.parametrize(
    ("every", "first", "layer"), [(2, 1, 11), (3, 0, 6), (4, 3, 14), (6, 5, 17)]
)
@pytest.mark.parametrize("norm", [INPUT_NORM, POST_NORM])
@fires("MG701", Severity.WARNING, once=True)
def test_a_pattern_of_classes_with_one_hole(
    norm: str, every: int, first: int, layer: int
) -> Expect:
    without = holed(36, every, first, layer)
    pair = without_block(qwen3(36), without, norm).emit()
    name = f"layer_{layer}_"
    if norm == INPUT_NORM:
        has_not = opening(pair, f"{name}gatedup_proj", behind=True)
        at = has_not if layer in without else opening(pair, f"{name}v_cache")
    else:
        at = opening(pair, name + ("o_proj" if layer in without else POST_NORM))
    says = (f"layer {layer} runs without the operators of a dense", "its sequence of operators is")
    return Expect(pair, graph=at, says=says)
