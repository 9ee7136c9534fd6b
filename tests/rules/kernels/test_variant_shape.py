"""MG508 variant-shape."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent, with_text
from tests.rules.kernels._shared import in_task

SILU = 118
LINEAR = 155


@fires(
    "MG508",
    Severity.WARNING,
    graph=in_task(LINEAR, "variant_id"),
    says=("variant 1 of TASK_LINEAR_SWAPAB_HOPPER runs on",),
)
def test_one_task_takes_the_variant_of_another_projection() -> Pair:
    pair = qwen3(2).emit()
    pair.tasks(LINEAR)[0]["variant_id"] = 1
    return pair


@fires("MG508", Severity.ERROR, graph=in_task(SILU, "variant_id"), says=("float32",))
def test_one_task_takes_another_data_type() -> Pair:
    pair = qwen3(2).emit()
    pair.tasks(SILU)[0]["outputs"][0]["data_type"] = 950
    return pair


@fires(
    "MG508",
    Severity.WARNING,
    graph=in_task(SILU, "variant_id"),
    says=("1 task", "run variant 1", "just like theirs, variant 0"),
)
def test_one_task_takes_a_twin_of_its_siblings_variant() -> Pair:
    pair = qwen3(2).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    pair.tasks(SILU)[0]["variant_id"] = 1
    return pair


@silent("MG508")
def test_every_other_layer_takes_a_twin_of_the_variant() -> Pair:
    pair = qwen3(4).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    silu = pair.tasks(SILU)
    tasks = len(silu) // 4
    for number, task in enumerate(silu):
        task["variant_id"] = number // tasks % 2
    return pair


@silent("MG508")
def test_a_variant_for_every_shape() -> Pair:
    return deepseek_v3(5).emit()


def _halves(*calls: str) -> Pair:
    """Every second SILU runs variant 1; the bodies of variants 0 and 1 make these calls."""
    pair = qwen3(1).emit()
    pair.branches.append(type(pair.branches[0])("TASK_SILU_MUL", 1, "i0 o0"))
    for number, task in enumerate(pair.tasks(SILU)):
        task["variant_id"] = number % 2
    text = pair.cuda_text()
    for variant, call in enumerate(calls):
        head = f"TASK_SILU_MUL && task_desc->variant_id == {variant}) {{"
        before, found, after = text.partition(head)
        assert found
        rest = after[after.index("\n  }") :]
        text = f"{before}{head}\n    {call}{rest}"
    return with_text(pair, text)


_CALL = "kernel::silu<bfloat16, {0}>(task_desc->input_ptrs[0], task_desc->output_ptrs[0], {1});"


@silent("MG508")
def test_variants_that_have_a_part_of_the_work_each() -> Pair:
    return _halves(_CALL.format(64, 0), _CALL.format(64, 64))


@fires("MG508", Severity.WARNING, once=True, graph=in_task(SILU, "variant_id", nth=1))
def test_variants_compiled_for_other_widths() -> Pair:
    return _halves(_CALL.format(64, 0), _CALL.format(128, 64))


@fires("MG508", Severity.WARNING, once=True, graph=in_task(SILU, "variant_id", nth=1))
def test_variants_that_differ_in_nothing() -> Pair:
    return _halves(_CALL.format(64, 0), _CALL.format(64, 0))
