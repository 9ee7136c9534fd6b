"""What differs on macOS and Windows, as far as it can be tried anywhere."""

from __future__ import annotations

import ast
import ntpath
import os
import re
import sys
from pathlib import Path, PureWindowsPath

import msgspec
import pytest

from mirage_gate.artifacts import pairs
from mirage_gate.auditing import ranks, workers
from mirage_gate.output import write
from mirage_gate.reports._paths import _below, relative_uri
from tests.emitter import qwen3
from tests.scratch import ROOT

POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}


def test_no_module_that_windows_lacks_is_imported() -> None:
    for path in (ROOT / "mirage_gate").rglob("*.py"):
        if "no_gpu" in path.parts:
            continue  # MPK's generator is built on Linux; `run --no-gpu` alone imports this
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not POSIX_ONLY & {name.split(".")[0] for name in names}, path


def test_processes_are_started_afresh_where_none_can_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qwen3(2, ranks=2).without_rope().write(tmp_path)
    found = pairs.find([str(tmp_path)])
    alone = ranks.check(found)
    monkeypatch.setattr(workers, "can_fork", lambda: False)
    heard: list[object] = []
    afresh = ranks.check(found, jobs=2, watch=heard.append)
    assert heard
    assert msgspec.structs.replace(afresh, seconds=0) == msgspec.structs.replace(alone, seconds=0)


def test_the_jobs_on_other_systems_name_tests_that_are_there() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    named = re.findall(r"\btests/[\w/.]+", workflow)
    assert "tests/test_platforms.py" in named
    for path in named:
        assert (ROOT / path).exists(), path


def test_what_an_operating_system_may_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sched_getaffinity", "O_NONBLOCK"):
        monkeypatch.delattr(os, name, raising=False)
    qwen3(1).write(tmp_path)
    found = pairs.find([str(tmp_path)])
    assert ranks.default_jobs(found) == 1
    assert not ranks.check(found).failed_ranks


def test_windows_paths_become_those_of_a_repository() -> None:
    root = PureWindowsPath(r"C:\\build\\repo")
    inside = PureWindowsPath(r"c:\\Build\\repo\\gen\\kernel_0.cu")
    assert _below(inside, root) == "gen/kernel_0.cu"  # type: ignore[arg-type]
    assert _below(PureWindowsPath(r"D:\\kernel_0.cu"), root) is None  # type: ignore[arg-type]


def test_windows_paths_find_their_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "path", ntpath)
    found = pairs._key(r"C:\\gen\\task_graph_3.json")
    assert found
    assert found[0] == r"C:\\gen"
    assert found[2] == 3


def test_lines_that_end_as_on_windows(tmp_path: Path) -> None:
    """Git may write a text file's lines so when it checks it out."""
    qwen3(2).without_rope().write(tmp_path / "unix")
    (tmp_path / "windows").mkdir()
    for path in (tmp_path / "unix").iterdir():
        text = path.read_bytes().replace(b"\n", b"\r\n")
        (tmp_path / "windows" / path.name).write_bytes(text)
    one, other = (
        [
            (f.rule, f.severity, f.message, f.location.line, f.location.column)
            for f in ranks.check(pairs.find([str(tmp_path / name)])).findings
        ]
        for name in ("unix", "windows")
    )
    assert one == other


def test_a_report_has_the_same_bytes_everywhere(tmp_path: Path) -> None:
    write(tmp_path / "x", "a\nb\n")
    write(tmp_path / "x", "c\n")  # over what is there
    assert (tmp_path / "x").read_bytes() == b"c\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a name that Windows does not allow")
def test_a_colon_is_no_scheme(tmp_path: Path) -> None:
    assert relative_uri(str(tmp_path / "c:x" / "k.cu"), str(tmp_path)) == "c%3Ax/k.cu"
