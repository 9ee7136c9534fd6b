"""MG403 stall."""

from __future__ import annotations

import pytest

from tests.emitter import Pair
from tests.rules import Expect, fires, silent
from tests.rules.graphs import SOUND, join, small


@pytest.mark.parametrize("name", SOUND)
@fires("MG403", once=True)
def test_an_event_that_counts_on_one_trigger_too_many(name: str) -> Expect:
    pair = SOUND[name]()
    event = join(pair)
    pair.graph["all_events"][event]["num_triggers"] += 1
    return Expect(pair, graph=("all_events", event, "num_triggers"))


@fires("MG403", once=True, says=("every task starts and END never fires",))
def test_an_end_that_counts_on_one_trigger_too_many() -> Expect:
    pair = small()
    end = len(pair.graph["all_events"]) - 1
    pair.graph["all_events"][end]["num_triggers"] += 1
    return Expect(pair, graph=("all_events", end, "num_triggers"))


@fires("MG403", once=True)
def test_a_cycle() -> Expect:
    pair = small()
    task = pair.tasks(153)[1]
    trigger = task["trigger_event"]
    task["dependent_event"] = trigger + 1
    return Expect(
        pair,
        graph=("all_events", trigger, "num_triggers"),
        says=(f"event {trigger} waits for itself",),
    )


@fires("MG403", once=True)
def test_the_first_event_to_blame_and_the_way_to_the_end() -> Expect:
    pair = small()
    events = pair.graph["all_events"]
    early, late = join(pair), len(events) - 2
    events[early]["num_triggers"] += 2
    events[late]["num_triggers"] += 1
    tasks = len(pair.graph["all_tasks"])
    never = tasks - events[early]["first_task_id"]
    return Expect(
        pair,
        graph=("all_events", early, "num_triggers"),
        says=(f"event {early} needs", f"{never:,} tasks of {tasks:,} never start"),
        leads_to=f"END, event {len(events) - 1} needs 1 trigger",
    )


@silent("MG403")
def test_an_event_that_fires_too_early() -> Pair:
    pair = small()
    pair.graph["all_events"][join(pair)]["num_triggers"] -= 1
    return pair
