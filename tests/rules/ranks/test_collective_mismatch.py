"""MG603 collective-mismatch."""

from __future__ import annotations

from tests.emitter import Pair
from tests.rules import At, Expect, fires, graph_line, silent

from ._shared import TP2, starts_of, without_collective

ALLREDUCE = 302


@fires(
    "MG603",
    rank=1,
    says=(
        "(5 collectives on rank 1, 6 on rank 0)",
        "collective 2 of rank 1 is TASK_NVSHMEM_TILE_ALLREDUCE of mlp_out",
    ),
    once=True,
)
def test_an_allreduce_missing_on_one_rank() -> Expect:
    ranks = TP2.emit_all()
    without_collective(ranks[1], ALLREDUCE, 2)
    start = starts_of(ranks[1], ALLREDUCE)[2]
    line = graph_line(ranks[1], ("all_tasks", start, "task_type"))
    return Expect(ranks, at=At("task_graph_1.json", line))


@fires("MG603", rank=1, says=("collective 5 of rank 1 is none",), once=True)
def test_the_last_collective_missing_is_found_on_the_one_before() -> Expect:
    ranks = TP2.emit_all()
    without_collective(ranks[1], ALLREDUCE, 5)
    start = starts_of(ranks[1], ALLREDUCE)[4]
    return Expect(ranks, graph=("all_tasks", start, "task_type"))


@silent("MG603")
def test_an_allreduce_missing_on_every_rank() -> list[Pair]:
    return [without_collective(pair, ALLREDUCE, 2) for pair in TP2.emit_all()]
