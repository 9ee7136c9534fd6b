"""MG610 slots-overlap."""

from __future__ import annotations

from tests.emitter import Pair
from tests.rules import Expect, fires, silent

from ._shared import TP4

PUT, REDUCE = 301, 107


def _slice(pair: Pair) -> int:
    """How many bytes a rank's slot has."""
    buffer = pair.tasks(REDUCE)[0]["inputs"][1]
    return int(buffer["strides"][0] * 2)


def _first_put(ranks: list[Pair], rank: int) -> tuple[str | int, ...]:
    tasks = ranks[rank].graph["all_tasks"]
    return ("all_tasks", next(i for i, t in enumerate(tasks) if t["task_type"] == PUT), "task_type")


@fires(
    "MG610", rank=1, once=True, says=("rank 1 puts", "outside of its slot 1", "what rank 0 puts")
)
def test_puts_into_another_ranks_slot() -> Expect:
    ranks = TP4.emit_all()
    for task in ranks[1].tasks(PUT):
        task["outputs"][0]["offset"] -= _slice(ranks[1])
    return Expect(ranks, graph=_first_put(ranks, 1))


@fires("MG610", rank=0, once=True, says=("rank 0 puts nothing", "on ranks 1, 3", "to rank 2"))
def test_all_puts_of_a_rank_go_to_one_peer() -> Expect:
    ranks = TP4.emit_all()
    for task in ranks[0].tasks(PUT):
        task["trigger_event"] = task["trigger_event"] & ~(0xFFFF << 32) | 2 << 32
    return Expect(ranks, graph=_first_put(ranks, 0))


@fires("MG610", rank=3, says=("rank 3 puts", "outside of its slot 3"))
def test_two_ranks_are_enough_to_see_a_wrong_slot() -> Expect:
    ranks = [TP4.emit(2), TP4.emit(3)]
    for task in ranks[1].tasks(PUT):
        task["outputs"][0]["offset"] -= _slice(ranks[1])
    return Expect(ranks, graph=_first_put(ranks, 1))


@silent("MG610", alone=("MG6",))
def test_each_ranks_puts_lie_in_its_slot() -> list[Pair]:
    return TP4.emit_all()


@silent("MG610")
def test_the_order_of_the_peers_does_not_matter() -> list[Pair]:
    ranks = TP4.emit_all()
    puts = ranks[0].tasks(PUT)
    first, second = puts[0], next(t for t in puts if t["trigger_event"] != puts[0]["trigger_event"])
    first["trigger_event"], second["trigger_event"] = (
        second["trigger_event"] & 0xFFFF << 32 | first["trigger_event"] & ~(0xFFFF << 32),
        first["trigger_event"] & 0xFFFF << 32 | second["trigger_event"] & ~(0xFFFF << 32),
    )
    return ranks


@silent("MG610")
def test_ranks_that_are_not_here_may_have_filled_the_rest() -> list[Pair]:
    return [TP4.emit(0), TP4.emit(1)]
