"""MG409 signal-tag."""

from __future__ import annotations

from tests.emitter import Pair
from tests.emitter.graph import NVSHMEM_TAG
from tests.rules import Expect, fires, silent, with_text
from tests.rules.graphs import allgather, position, small

ATTENTION, REDUCE = 153, 107
TAG = NVSHMEM_TAG << 48


@fires("MG409", once=True, says=("as for other ranks' signals",))
def test_a_tag_where_only_the_own_ranks_tasks_trigger() -> Expect:
    pair = small()
    task = pair.tasks(ATTENTION)[0]
    task["dependent_event"] |= TAG
    return Expect(pair, graph=("all_tasks", position(pair, task), "dependent_event"))


@fires("MG409", once=True, says=("other ranks' puts trigger it",))
def test_no_tag_where_other_ranks_signal() -> Expect:
    pair = allgather()
    task = pair.tasks(REDUCE)[2]
    task["dependent_event"] &= ~TAG
    return Expect(pair, graph=("all_tasks", position(pair, task), "dependent_event"))


@fires("MG409", once=True, says=("more tasks",))
def test_no_tag_at_all() -> Expect:
    pair = allgather()
    for task in pair.tasks(REDUCE):
        task["dependent_event"] &= ~TAG
    return Expect(
        pair, graph=("all_tasks", position(pair, pair.tasks(REDUCE)[0]), "dependent_event")
    )


@silent("MG409")
def test_a_tag_where_other_ranks_signal() -> Pair:
    return allgather()


@silent("MG409")
def test_a_loader_that_knows_no_tag_on_what_a_task_waits_for() -> Pair:
    pair = allgather()
    for task in pair.tasks(REDUCE):
        task["dependent_event"] &= ~TAG
    text = pair.cuda_text()
    for field in ("expert_offset", "kv_idx", "merge_task_offset", "task_offset"):
        text = text.replace(f'task.at("{field}")', "0")
    return with_text(pair, text)
