"""MG604 rank-set."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage_gate import Severity
from tests.emitter import Pair, qwen3
from tests.rules import At, Expect, Ranks, fires, graph_line, silent

from ._shared import TP2, TP4


@fires(
    "MG604",
    whole="the files are named for rank 1, and their event ids are those of rank 0",
    once=True,
)
def test_a_ranks_files_under_another_name() -> Expect:
    first, again = TP2.emit(0), TP2.emit(0)
    again.rank = 1
    line = graph_line(first, ("all_tasks", 1, "trigger_event"))
    return Expect([first, again], at=At("task_graph_1.json", line))


@fires("MG604", once=True)
def test_one_ranks_files_alone_under_another_name(tmp_path: Path) -> Expect:
    pair = qwen3(2).emit()
    line = graph_line(pair, ("all_tasks", 1, "trigger_event"))
    cuda, graph = pair.write(tmp_path)
    cuda.rename(tmp_path / "kernel_1.cu")
    graph.rename(tmp_path / "task_graph_1.json")
    return Expect(tmp_path, at=At("task_graph_1.json", line))


@silent("MG604", alone=("MG6",))
def test_names_without_a_rank_say_none(tmp_path: Path) -> Path:
    TP2.write(tmp_path, "plain", ranks=[1])
    return tmp_path / "rank1"


@pytest.mark.parametrize(
    ("kept", "severity", "says"),
    [
        ([0, 1, 3], Severity.ERROR, "rank 2 of ranks 0 to 3 is not here"),
        ([0, 1, 2], Severity.ERROR, "rank 3 of 4 is not here"),
        ([1, 2, 3], Severity.ERROR, "rank 0 of 4 is not here"),
        ([1, 2], Severity.ERROR, "ranks 0, 3 of 4 are not here"),
        ([0, 1], Severity.NOTE, "ranks 2-3 of 4 are not here"),
        ([2, 3], Severity.NOTE, "ranks 0-1 of 4 are not here"),
        ([3], Severity.NOTE, "ranks 0-2 of 4 are not here"),
    ],
)
@fires("MG604", once=True)
def test_missing_ranks(kept: list[int], severity: Severity, says: str) -> Expect:
    ranks = [TP4.emit(rank) for rank in kept]
    return Expect(ranks, severity, at=At(f"kernel_{kept[0]}.cu", 1), says=(says,), rank=kept[0])


@silent("MG604", alone=("MG6",))
def test_ranks_that_were_asked_for_are_enough() -> Ranks:
    return Ranks(TP4.emit_all(), chosen={0, 1, 3})


@fires("MG604", says=("rank 0 was made for 2 ranks, rank 1 for 4",), once=True)
def test_kernels_made_for_different_numbers_of_ranks() -> list[Pair]:
    return [qwen3(2, ranks=2).emit(0), qwen3(2, ranks=4).emit(1)]
