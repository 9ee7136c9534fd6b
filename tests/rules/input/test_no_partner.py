"""MG903 no-partner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emitter import qwen3
from tests.rules import At, Expect, fires, report_of, silent

HALVES = ["kernel_1.cu", "task_graph_1.json"]


def _without(folder: Path, half: str) -> Path:
    qwen3(1, ranks=2).write(folder)
    (folder / half).unlink()
    return folder


@pytest.mark.parametrize(("gone", "left"), [HALVES[::-1], HALVES])
@fires("MG903", once=True)
def test_half_a_pair(tmp_path: Path, gone: str, left: str) -> Expect:
    return Expect(_without(tmp_path, gone), at=At(left, 1), says=(gone,))


def test_half_a_pair_fails_its_rank_and_no_other(tmp_path: Path) -> None:
    report = report_of(_without(tmp_path, "task_graph_1.json"))
    assert [rank.audited for rank in report.ranks] == [True, False]
    assert report.exit_status() == 1
    assert report.exit_status("never") == 1


@silent("MG903")
def test_halves_of_one_name_in_other_folders_and_a_file_of_another_kind(tmp_path: Path) -> Path:
    qwen3(1).write(tmp_path)
    qwen3(1).write(tmp_path / "older")
    (tmp_path / "kernel.cu").write_text("")
    return tmp_path
