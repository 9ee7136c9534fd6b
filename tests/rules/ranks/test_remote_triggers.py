"""MG606 remote-triggers."""

from __future__ import annotations

import pytest

from tests.emitter import Pair
from tests.emitter.graph import NVSHMEM_TAG
from tests.rules import Expect, fires, report_of, silent

from ._shared import TP4

REDUCE, PUT = 107, 301


@fires("MG606", rank=2)
def test_too_few_remote_triggers() -> Expect:
    ranks = TP4.emit_all()
    put = next(t for t in ranks[1].tasks(PUT) if t["trigger_event"] >> 32 & 0xFFFF == 2)
    event = put["trigger_event"] & 0xFFFFFFFF
    put["trigger_event"] = ranks[1].tasks(PUT)[0]["trigger_event"]
    waits = ranks[2].graph["all_events"][event]["num_triggers"]
    waiting = ranks[2].graph["all_tasks"].index(ranks[2].tasks(REDUCE)[0])
    return Expect(
        ranks,
        graph=("all_tasks", waiting, "dependent_event"),
        says=(f"event {event} of rank 2 waits for {waits} triggers and gets {waits - 1}",),
    )


@fires("MG606", rank=0, once=True)
def test_a_count_that_no_rank_sends() -> Expect:
    ranks = TP4.emit_all()
    reduce = ranks[0].tasks(REDUCE)[0]
    ranks[0].graph["all_events"][reduce["dependent_event"] & 0xFFFFFFFF]["num_triggers"] += 1
    waiting = ranks[0].graph["all_tasks"].index(reduce)
    return Expect(ranks, graph=("all_tasks", waiting, "dependent_event"))


def _end_triggered_from_elsewhere(to: int) -> tuple[list[Pair], int]:
    """Each rank triggers the END of the next one instead of its own; rank 0 that of ``to``."""
    ranks = TP4.emit_all()
    for rank, pair in enumerate(ranks):
        end = len(pair.graph["all_events"]) - 1
        last = [t for t in pair.graph["all_tasks"] if t["trigger_event"] & 0xFFFFFFFF == end]
        assert last
        gpu = to if rank == 0 else (rank + 1) % 4
        for task in last:
            task["trigger_event"] = NVSHMEM_TAG << 48 | gpu << 32 | end
    return ranks, end


@pytest.mark.parametrize("rank", [1, 2])
@fires("MG606")
def test_an_end_that_two_ranks_trigger_and_one_that_none_does(rank: int) -> Expect:
    ranks, end = _end_triggered_from_elsewhere(to=2)
    return Expect(ranks, graph=("all_events", end, "num_triggers"), rank=rank)


def test_only_the_ranks_whose_end_it_is_are_spoken_of() -> None:
    found = report_of(_end_triggered_from_elsewhere(to=2)[0]).findings
    assert [f.rank for f in found if f.rule == "MG606"] == [1, 2]


@silent("MG606")
def test_other_ranks_may_trigger_what_nobody_here_waits_for() -> list[Pair]:
    return _end_triggered_from_elsewhere(to=1)[0]


@silent("MG606", alone=("MG6",), beside=("MG604",))
def test_remote_triggers_are_summed_over_all_ranks_or_not_at_all() -> list[Pair]:
    return [TP4.emit(0), TP4.emit(1)]
