"""Programs for Node.js that tests run; what they need comes from npm (``package.json``)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def need(condition: object, reason: str) -> None:
    """Skip the test without something it needs; in CI, fail it."""
    if not condition:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def node(script: str, *arguments: str, package: str, stdin: str = "") -> str:
    """Run a script of this folder, and give what it printed."""
    program = shutil.which("node")
    need(program, "Node.js is not installed")
    need((ROOT / "node_modules" / package).is_dir(), f"{package} is not installed: npm ci")
    done = subprocess.run(
        [str(program), f"tests/{script}", *arguments],
        cwd=ROOT,
        input=stdin.encode("utf-8", "backslashreplace"),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
