"""What the gate writes and reads again, made by the gate itself: seeds for the readers of it."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from mirage_gate.cli import cli
from tests.emitter import qwen3

__all__ = ["sample"]

_COMMANDS = {
    "lock": ("lock", "{folder}", "-o", "{out}"),
    "summary": ("check", "{folder}", "-o", "summary={out}"),
    "report": ("check", "{folder}", "-o", "json={out}"),
    "sarif": ("check", "{folder}", "-o", "sarif={out}"),
}


@cache
def sample(kind: str) -> bytes:
    """A good document of a kind; empty where this version has no such command."""
    with tempfile.TemporaryDirectory() as folder:
        qwen3(2, ranks=2).write(folder)
        out = Path(folder, "out")
        command = [part.format(folder=folder, out=out) for part in _COMMANDS[kind]]
        CliRunner().invoke(cli, command, standalone_mode=False)
        return out.read_bytes() if out.exists() else b"{}"
