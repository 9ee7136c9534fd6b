"""Which ranks are of one run: wherever they lie, and whoever is missing."""

from __future__ import annotations

from pathlib import Path

from mirage_gate.agreed.joining import runs
from mirage_gate.agreed.summary import Summary
from tests.command import invoke
from tests.emitter import qwen3

TP4 = qwen3(2, ranks=4, collective="allgather")
TP2 = qwen3(2, ranks=2, collective="tile")


def summary(rank: int, folder: str, world: int = 4) -> Summary:
    return Summary(
        rank,
        f"{folder}/kernel_{rank}.cu",
        f"{folder}/task_graph_{rank}.json",
        audited=True,
        world_size=world,
    )


def numbers(*summaries: Summary) -> list[list[int]]:
    return [[one.rank for one in run.summaries] for run in runs(summaries)]


def test_a_folder_for_each_rank_is_one_run() -> None:
    assert numbers(*(summary(rank, f"rank{rank}") for rank in range(4))) == [[0, 1, 2, 3]]


def test_two_whole_builds_are_two_runs() -> None:
    both = [summary(rank, build, world=2) for build in ("a", "b") for rank in range(2)]
    assert numbers(*both) == [[0, 1], [0, 1]]


def test_the_same_rank_twice_is_of_two_runs() -> None:
    assert numbers(summary(0, "a"), summary(1, "b"), summary(0, "c")) == [[0, 1], [0]]


def test_kernels_for_other_numbers_of_ranks_are_other_runs() -> None:
    assert numbers(summary(0, "a", world=2), summary(1, "b", world=4)) == [[0], [1]]


def test_ranks_in_folders_of_their_own_are_compared(tmp_path: Path) -> None:
    for pair in TP4.emit_all():
        if pair.rank == 1:
            pair.declarations[0].name += "_renamed"
        pair.write(tmp_path / f"rank{pair.rank}")
    done = invoke("check", *(tmp_path / f"rank{rank}" for rank in range(4)))
    assert "MG601" in done.output
    assert "compared: ranks 0-3" in done.output
    assert "are not here" not in done.output


def test_merge_fails_while_a_host_is_missing_unless_it_is_to_come(tmp_path: Path) -> None:
    folder = tmp_path / "gen"
    TP2.write(folder)
    host = tmp_path / "host0.json"
    assert invoke("check", folder, "--ranks", "0", "-o", f"summary={host}").return_value == 0
    done = invoke("merge", host)
    assert done.return_value == 1
    assert "rank 1 of 2 is not here" in done.output
    partial = invoke("merge", host, "--partial")
    assert partial.return_value == 0
    assert "rank 1 of 2 is not here" in partial.output
