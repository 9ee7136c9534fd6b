"""MG301 read-without-order."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import Pair, qwen3_moe
from tests.rules import Expect, fires, report_of, silent, where
from tests.rules.graphs import position, recount, shift, small

from ._shared import (
    a_projection_leads_to_the_end_alone,
    gathers_lead_to_the_end_alone,
    waits_for_too_little,
)


@fires("MG301", tensor="attn_in")
def test_a_task_that_starts_with_those_that_write_what_it_reads() -> Expect:
    """The message names both tasks, their bytes and the event where they part."""
    pair, writer, reader, event = waits_for_too_little()
    return Expect(
        pair,
        graph=("all_tasks", reader, "dependent_event"),
        says=(
            f"task {reader} (TASK_PAGED_ATTENTION_HOPPER, layer 0, input 0) reads bytes ",
            f"of attn_in, which task {writer} (TASK_LINEAR_SWAPAB_HOPPER, layer 0",
            "nothing orders them: event ",
        ),
        hints=f"let task {writer} trigger event {event}",
        trace=[
            ("all_tasks", writer, "outputs", 0, "base_ptr"),
            ("all_tasks", writer, "trigger_event"),
            ("all_events", event - 1, "num_triggers"),
            ("all_tasks", reader, "dependent_event"),
        ],
    )


@fires(
    "MG301",
    tensor="contiguous_kv",
    says=("TASK_MLA_MTP_DECODE_SM100, layer 0, input 1) reads", "such pairs, in layers 0-4"),
    graph=lambda pair: where(pair, 269, "dependent_event"),
)
def test_a_gather_that_leads_to_the_end_alone() -> Pair:
    return gathers_lead_to_the_end_alone()


def test_a_gather_in_every_layer_is_few_findings() -> None:
    found = report_of(gathers_lead_to_the_end_alone()).findings
    assert sum(finding.rule.startswith("MG3") for finding in found) <= 8


@fires("MG301", tensor="attn_in", once=True)
def test_a_projection_that_leads_to_the_end_alone() -> Expect:
    pair = a_projection_leads_to_the_end_alone()
    return Expect(pair, graph=where(pair, 153, "dependent_event"))


@fires("MG301", tensor="silu_mul_out", once=True, alone=("MG3",))
def test_a_task_that_reads_its_neighbours_tile() -> Expect:
    pair = small()
    one, other = pair.tasks(118)[:2]
    other["inputs"] = one["outputs"]
    task = position(pair, other)
    return Expect(
        pair, graph=("all_tasks", task, "dependent_event"), says=(f"task {task} (TASK_SILU_MUL",)
    )


@pytest.mark.parametrize(
    ("nth", "severity", "says"),
    [(-1, Severity.WARNING, "picked at run time and may not meet"), (0, Severity.ERROR, "")],
    ids=["later layer", "first layer"],
)
@fires("MG301", tensor="silu_mul_out")
def test_rows_picked_at_run_time(nth: int, severity: Severity, says: str) -> Expect:
    """In a later layer an earlier one may have written them; in the first, nobody can have."""
    pair = qwen3_moe(3).emit()
    moved = shift(pair, pair.tasks(255)[nth]["dependent_event"] - 1)
    return Expect(pair, severity, graph=("all_tasks", moved, "dependent_event"), says=(says,))


@silent("MG301", alone=("MG3", "MG4"))
def test_what_it_reads_is_written_by_those_that_it_waits_for() -> Pair:
    """What the hint says was done: the writers trigger the event that the reader waits for."""
    pair, _, _, event = waits_for_too_little()
    for task in pair.graph["all_tasks"]:
        if task["trigger_event"] == event + 1:
            task["trigger_event"] = event
    recount(pair)
    return pair
