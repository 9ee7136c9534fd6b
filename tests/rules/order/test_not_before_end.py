"""MG304 not-before-end."""

from __future__ import annotations

import pytest

from tests.emitter import Pair
from tests.emitter.graph import INVALID_EVENT
from tests.rules import Expect, fires, silent
from tests.rules.graphs import allgather, position, recount, small

from ._shared import waits_for_too_little


@fires("MG304", once=True)
def test_a_task_that_triggers_what_nobody_waits_for() -> Expect:
    pair, writer, _, event = waits_for_too_little()
    return Expect(
        pair,
        graph=("all_tasks", writer, "trigger_event"),
        says=(f"trigger event {event + 1}, which nobody waits for",),
    )


@fires("MG304", once=True)
def test_a_task_that_triggers_nothing_may_outlive_the_iteration() -> Expect:
    pair = small()
    one = pair.tasks(tensor="argmax_part_value")[0]
    one["trigger_event"] = INVALID_EVENT
    recount(pair)
    task = position(pair, one)
    return Expect(
        pair,
        graph=("all_tasks", task, "trigger_event"),
        says=(
            f"task {task} (TASK_ARGMAX_PARTIAL_SM100) ",
            "triggers no event: END does not wait for it",
        ),
    )


@pytest.mark.parametrize("rank", range(4))
@silent("MG304", alone=("MG3",))
def test_what_leads_to_the_end_over_a_remote_event(rank: int) -> Pair:
    return allgather(rank)
