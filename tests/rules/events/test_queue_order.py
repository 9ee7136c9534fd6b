"""MG408 queue-order."""

from __future__ import annotations

from mirage_gate import Options
from tests.emitter import Pair, qwen3
from tests.rules import Expect, fires, silent
from tests.rules.graphs import renumbered, small


def _with_embedding_last(pair: Pair) -> Pair:
    count = len(pair.graph["all_tasks"])
    return renumbered(pair, [0, 1, *range(3, count), 2])


@fires("MG408", once=True, says=("up to 144 workers", "TASK_EMBEDDING"))
def test_what_all_wait_for_has_the_last_id() -> Expect:
    pair = _with_embedding_last(qwen3(8).emit())
    assert len(pair.graph["all_tasks"]) > 144
    return Expect(pair, graph=("all_tasks", 2, "dependent_event"))


def _with_embedding_behind_the_norms() -> tuple[Pair, int]:
    """The embedding stands behind those that wait for it; and how many these are."""
    pair = small()
    (embedding,) = pair.graph["first_tasks"]
    count = sum(task["dependent_event"] == _fires(pair, embedding) for task in _tasks(pair))
    order = list(range(len(_tasks(pair))))
    order[2 : 3 + count] = [*order[3 : 3 + count], embedding]
    return renumbered(pair, order), count


def _tasks(pair: Pair) -> list[dict[str, int]]:
    tasks: list[dict[str, int]] = pair.graph["all_tasks"]
    return tasks


def _fires(pair: Pair, task: int) -> int:
    return _tasks(pair)[task]["trigger_event"]


@fires("MG408", once=True, says=("2 workers",), options=Options(workers=2))
def test_fewer_workers_wait_sooner() -> Expect:
    pair, count = _with_embedding_behind_the_norms()
    assert count >= 2
    return Expect(pair, graph=("all_tasks", 2, "dependent_event"))


@silent("MG408")
def test_a_producer_behind_few_of_its_consumers_is_reached() -> Pair:
    return _with_embedding_behind_the_norms()[0]


@silent("MG408", options=Options(workers=1))
def test_one_worker_can_run_what_is_in_order() -> Pair:
    return qwen3(2).emit()
