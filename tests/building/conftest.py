"""What the tests of watched builders share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import gate_here
from tests.scratch import ROOT, clean_environment, run

HERE = Path(__file__).resolve().parent
BUILDER = HERE / "dense_builder.py"

Gate = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(**extra: str) -> dict[str, str]:
    """One in which `import mirage` finds the package that stands for MPK."""
    path = os.pathsep.join((str(HERE / "like_mpk"), str(ROOT)))
    return clean_environment(PYTHONPATH=path, **extra)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of its own, with the builder in it."""
    assert run("git", "init", "-q", cwd=tmp_path).returncode == 0
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "builder.py").write_text(BUILDER.read_text())
    return tmp_path


@pytest.fixture
def gate(folder: Path) -> Gate:
    """Run the command line there; the output holds both streams.

    What runs nobody's code needs no process of its own.
    """

    def gate(*args: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
        if args[0] != "run":
            return gate_here(*args, cwd=folder, env=extra)
        command = (sys.executable, "-m", "mirage_gate", *args)
        return run(*command, cwd=folder, env=environment(**extra))

    return gate


def line_of(text: str, needle: str) -> int:
    """The number of the one line that holds something."""
    found = [number for number, line in enumerate(text.split("\n"), 1) if needle in line]
    assert len(found) == 1, (needle, found)
    return found[0]
