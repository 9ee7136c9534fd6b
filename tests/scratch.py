"""Programs and git repositories that tests run and throw away."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What an installation of the package takes, and what its users' tools read.
_SOURCES = (
    ".pre-commit-hooks.yaml",
    "LICENSE",
    "README.md",
    "action.yml",
    "mirage_gate",
    "pyproject.toml",
    "schemas",
)


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without what would lead a test astray.

    No git settings of the user's, no repository that a git hook is running pytest for, no
    workflow that this is a job of, no Python path of this process.
    """
    astray = ("GH_", "GIT_", "GITHUB_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(astray)}
    return kept | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "test",
        "GIT_AUTHOR_EMAIL": "test@example.invalid",
        "GIT_COMMITTER_NAME": "test",
        "GIT_COMMITTER_EMAIL": "test@example.invalid",
        **extra,
    }


def run(
    *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its output is kept, its status is the caller's to judge."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=300,
    )


def succeed(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program that must not fail, and give what it printed."""
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Repository:
    """A scratch git repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        return succeed("git", *arguments, cwd=self.folder).strip()

    def commit(self) -> str:
        """Commit everything there, and give the commit's id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "test")
        return self.git("rev-parse", "HEAD")


class SourceTree(Repository):
    """A copy of this project's sources: a repository that a hook or an action installs."""

    commit_id: str

    @classmethod
    def copy_to(cls, folder: Path) -> SourceTree:
        tree = cls(folder)
        for name in _SOURCES:
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, folder / name, ignore=ignored)
            else:
                shutil.copy(ROOT / name, folder / name)
        tree.commit_id = tree.commit()
        return tree
