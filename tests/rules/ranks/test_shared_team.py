"""MG611 shared-team."""

from __future__ import annotations

from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import Expect, fires, silent

ALLREDUCE = 302


@fires("MG611", says=("may run at once on team 0",))
def test_two_sums_that_wait_for_one_event() -> Expect:
    pair = qwen3(2, ranks=2).emit()
    tasks = pair.graph["all_tasks"]
    sums = [i for i, task in enumerate(tasks) if task["task_type"] == ALLREDUCE]
    tiles = len(sums) // 4
    for one, other in zip(sums[:tiles], sums[tiles : 2 * tiles], strict=True):
        tasks[other]["dependent_event"] = tasks[one]["dependent_event"]
    return Expect(pair, graph=("all_tasks", sums[tiles], "dependent_event"))


@silent("MG611")
def test_one_sum_behind_the_other() -> Pair:
    return qwen3(3, ranks=2).emit(1)


@silent("MG611")
def test_teams_of_their_own() -> Pair:
    pair = qwen3(1, ranks=2).emit()
    sums = pair.tasks(ALLREDUCE)
    tiles = len(sums) // 2
    for one, other in zip(sums[:tiles], sums[tiles:], strict=True):
        other["dependent_event"] = one["dependent_event"]
        for field in ("task_offset", "expert_offset", "request_id"):
            other[field] += tiles
    return pair


@silent("MG611")
def test_the_sums_of_a_mixture() -> Pair:
    return deepseek_v3(5, ranks=8).emit(2)
