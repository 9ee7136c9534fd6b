"""MG402 event-cycle."""

from __future__ import annotations

from tests.emitter import Pair
from tests.rules import Expect, fires, silent
from tests.rules.graphs import position, small


@fires("MG402", once=True)
def test_a_task_that_waits_for_its_own_future() -> Expect:
    pair = small()
    task = position(pair, pair.tasks(153)[1])
    trigger = pair.graph["all_tasks"][task]["trigger_event"]
    pair.graph["all_tasks"][task]["dependent_event"] = trigger + 1
    follower = next(
        i for i, t in enumerate(pair.graph["all_tasks"]) if t["dependent_event"] == trigger
    )
    return Expect(
        pair,
        graph=("all_tasks", task, "dependent_event"),
        says=(f"events {trigger} → {trigger + 1} → {trigger} wait for each other",),
        trace=[
            ("all_tasks", follower, "trigger_event"),
            ("all_tasks", task, "trigger_event"),
        ],
    )


@fires("MG402", once=True)
def test_a_task_that_waits_for_what_it_triggers() -> Expect:
    pair = small()
    task = pair.tasks(153)[0]
    task["dependent_event"] = task["trigger_event"]
    number = position(pair, task)
    return Expect(
        pair,
        graph=("all_tasks", number, "dependent_event"),
        says=(f"event {task['trigger_event']} waits for itself: task {number} ",),
    )


@silent("MG402")
def test_a_task_that_waits_for_a_past_event() -> Pair:
    pair = small()
    pair.tasks(153)[1]["dependent_event"] -= 1
    return pair
