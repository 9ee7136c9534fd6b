"""MG501 no-kernel."""

from __future__ import annotations

import re

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, silent, with_text
from tests.rules.kernels._shared import in_task

SILU = 118


@fires("MG501", graph=in_task(SILU, "variant_id"), says=("do nothing", "it has none"))
def test_a_branch_is_gone() -> Pair:
    pair = qwen3(1).emit()
    pair.branches = [b for b in pair.branches if b.task != "TASK_SILU_MUL"]
    return pair


@fires("MG501", graph=in_task(SILU, "variant_id"), says=("it has variants 0",))
def test_a_variant_that_was_never_generated() -> Pair:
    pair = qwen3(1).emit()
    for task in pair.tasks(SILU):
        task["variant_id"] = 7
    return pair


@fires("MG501", Severity.WARNING, says=("no dispatch table",))
def test_a_kernel_file_without_its_second_half() -> Pair:
    pair = qwen3(1).emit()
    text = pair.cuda_text()
    return with_text(pair, text[: text.index("void _execute_task")])


@fires("MG501", graph=in_task(296, "task_type"), says=("2 unknown task types", "only 1 type"))
def test_two_unknown_types_and_one_branch_that_may_be_theirs() -> Pair:
    pair = deepseek_v3(2).emit()
    pair.tasks(296)[-1]["task_type"] = 297
    return pair


@fires("MG501", graph=in_task(296, "variant_id"))
def test_a_variant_that_no_unknown_branch_has() -> Pair:
    pair = deepseek_v3(1).emit()
    for task in pair.tasks(296):
        task["variant_id"] = 5
    return pair


@silent("MG501")
def test_a_type_that_no_table_knows_and_a_branch_that_may_be_its_own() -> Pair:
    return deepseek_v3(1).emit()


def _respelled(pair: Pair, every: bool) -> Pair:
    """Conditions in a way that nobody reads: all, or that of one branch."""
    text = pair.cuda_text()
    name = r"TASK_\w+" if every else r"TASK_SILU_MUL\b"
    old = rf"task_desc->task_type == ({name})"
    return with_text(pair, re.sub(old, r"\1 == task_desc->task_type", text))


@fires(
    "MG501",
    Severity.WARNING,
    once=True,
    graph=in_task(SILU, "variant_id"),
    says=("could not be understood",),
)
def test_a_branch_that_may_be_the_one_that_is_not_understood() -> Pair:
    return _respelled(qwen3(2).emit(), every=False)


@fires("MG501", once=True, cuda="== task_desc->task_type", says=("were not checked",))
def test_a_dispatch_of_which_nothing_is_understood() -> Pair:
    return _respelled(qwen3(2).emit(), every=True)
