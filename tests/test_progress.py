"""The bar that a long audit shows at a terminal, and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mirage_gate import steps
from mirage_gate.artifacts.pairs import find
from mirage_gate.auditing.ranks import check
from tests.command import gate
from tests.emitter import deepseek_v3, qwen3

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")

AT_ONCE = "import mirage_gate.commands._progress as p; p._PATIENCE = p._OFTEN = 0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gen")
    deepseek_v3(6).write(folder)
    qwen3(4, ranks=2).write(folder / "two")
    return folder


def at_terminal(*arguments: str, code: str = AT_ONCE, **env: str) -> tuple[str, str]:
    """What a terminal behind standard error is shown, and what goes to standard output."""
    ours, theirs = os.openpty()
    try:
        done = gate(
            *arguments,
            code=code,
            env={"TERM": "xterm", **env},
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:
                break
            if not part:
                break
            shown += part
    finally:
        os.close(ours)
    assert done.returncode == 0, shown
    return shown.decode(), done.stdout


def test_a_bar_says_rank_phase_bytes_and_seconds(folder: Path) -> None:
    shown, told = at_terminal("check", str(folder))
    assert re.search(r"auditing  \[#*-*\] +\d+%  rank 0: reading \d+ of \d+ MB, \d+ s", shown)
    assert re.search(r"rank 0: judging MG\d+, \d+ s", shown)
    assert "rank 0: placing" in shown
    assert re.search(r"100%  \d+\.\d s", shown)
    assert shown.endswith("\n")
    assert "mirage-gate: PASSED" in told
    assert "auditing" not in told
    numbers = [int(number) for number in re.findall(r"(\d+)%", shown)]
    assert numbers == sorted(numbers)


def test_ranks_in_processes_of_their_own_are_heard(folder: Path) -> None:
    shown, _ = at_terminal("check", str(folder / "two"), "--jobs", "2")
    for rank in (0, 1):
        assert f"rank {rank}: judging MG" in shown


def test_a_short_audit_shows_none(folder: Path) -> None:
    patient = "import mirage_gate.commands._progress as p; p._PATIENCE = 60"
    shown, _ = at_terminal("check", str(folder / "two"), code=patient)
    assert "auditing" not in shown


def test_none_where_it_is_not_wanted(folder: Path) -> None:
    two = str(folder / "two")
    for arguments, env in (
        (("check", two, "--no-progress"), {}),
        (("check", two), {"TERM": "dumb"}),
        (("lock", two, "-o", "-", "--no-progress"), {}),
        (("diff", two, two, "--no-progress"), {}),
    ):
        shown, _ = at_terminal(*arguments, **env)
        assert "auditing" not in shown, arguments
    done = gate("check", two, code=AT_ONCE)  # no terminal
    assert "auditing" not in done.stdout


def test_every_command_that_audits_shows_one(folder: Path) -> None:
    two = str(folder / "two")
    for arguments in (("lock", two, "-o", "-"), ("diff", two, two)):
        shown, _ = at_terminal(*arguments)
        assert "auditing" in shown


def test_steps_are_ordered_and_change_nothing(folder: Path) -> None:
    heard: list[steps.Step] = []
    pairs = find([str(folder / "two")])
    watched = check(pairs, watch=heard.append)
    assert watched.findings == check(pairs).findings
    assert not steps.watched()
    phases = [re.sub(r" MG\d+", "", step.phase) for step in heard if step.rank == 0]
    assert list(dict.fromkeys(phases)) == ["reading", "judging", "counting", "placing"]
    assert all(step.done <= step.total for step in heard)
