"""What git is asked, whoever owns the repository and wherever in it the artifacts lie."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mirage_gate import repository
from mirage_gate.locate import tracked_by_git
from mirage_gate.reports._paths import report_root
from tests.command import gate, gate_here
from tests.emitter import qwen3
from tests.scratch import Repository

BUILDER = "mpk.attach_input(\n    cos, name='cos_position_embedding')\n"


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="gives files away")
def test_a_repository_of_another_user_is_asked_too(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo")
    qwen3(2).without_rope().write(repo.folder / "gen")
    (repo.folder / "demo.py").write_text(BUILDER)
    repo.git("add", "demo.py")
    repo.git("commit", "--quiet", "--message", "test")
    for path in (repo.folder, *repo.folder.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    done = gate_here("check", "gen", "--builder", "demo.py", cwd=repo.folder)
    assert "demo.py:1:" in done.stdout
    assert "git does not say" not in done.stdout


def test_where_git_does_not_answer_it_is_said(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo")
    qwen3(2).without_rope().write(repo.folder / "gen")
    (repo.folder / "demo.py").write_text(BUILDER)
    (repo.folder / ".git" / "config").write_text("[core\n")
    done = gate_here("check", "gen", "--builder", "demo.py", cwd=repo.folder)
    assert "gen/kernel_0.cu:" in done.stdout
    assert done.stdout.count("git does not say which files of ") == 1
    assert "--locate builder would move them" in done.stdout
    done = gate("check", "gen", "--builder=demo.py", env={"PATH": "/nowhere"}, cwd=repo.folder)
    assert "(No such file or directory): findings stay on the artifacts" in done.stdout


def test_nothing_of_the_repository_is_run(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo")
    qwen3(1).write(repo.folder / "gen")
    repo.commit()
    trap = f"!touch {tmp_path}/pwned; false"
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "alias.ls-files"):
        repo.git("config", key, trap.removeprefix("!") if key != "alias.ls-files" else trap)
    hooks = repo.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("fsmonitor-watchman", "post-index-change", "query-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
        (hooks / name).chmod(0o755)
    folder = repo.folder / "gen"
    assert repository.listed(str(folder), ["kernel_0.cu", "x"]) >= {"kernel_0.cu"}
    assert len(repository.commit(str(folder))) == 12
    assert not (tmp_path / "pwned").exists()


def test_paths_in_a_submodule_are_those_of_the_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Repository(tmp_path / "inner")
    qwen3(2).without_rope().write(inner.folder / "gen")
    inner.commit()
    outer = Repository(tmp_path / "outer")
    (outer.folder / "demo.py").write_text(BUILDER)
    outer.commit()
    allow = ("-c", "protocol.file.allow=always")
    outer.git(*allow, "submodule", "--quiet", "add", str(inner.folder), "sub")
    outer.commit()
    folder = outer.folder / "sub"
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        arguments = ("check", "gen", "-o", "github", "-o", "sarif=x.sarif")
        env = {variable: str(outer.folder)}
        done = gate_here(*arguments, cwd=folder, env=env)
        assert "::error file=sub/gen/kernel_0.cu,line=" in done.stdout
        assert '"uri": "sub/gen/kernel_0.cu"' in (folder / "x.sarif").read_text()
        # What the submodule tracks is in no pull request of the repository around it.
        builder = ("--builder", "../demo.py")
        done = gate_here(*arguments, *builder, cwd=folder, env=env)
        assert "::error file=demo.py,line=1" in done.stdout
    done = gate_here("check", "gen", "-q", cwd=folder)
    assert done.stdout.startswith("gen/kernel_0.cu:")
    monkeypatch.chdir(outer.folder)
    assert tracked_by_git([str(folder / "gen" / "kernel_0.cu")]) == {
        str(folder / "gen" / "kernel_0.cu"): False
    }
    # Where the job's folder holds the checkout below it, the checkout is the repository.
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert report_root(outer.folder) == str(outer.folder)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "inner"))
    assert report_root(outer.folder) == str(outer.folder)
