"""The command line as a process of its own, or in this one where a process is not the point."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from click.testing import CliRunner, Result

from mirage_gate.cli import cli, main
from tests.scratch import ROOT, clean_environment

__all__ = ["complete", "gate", "gate_here", "invoke", "program"]


def program(code: str = "") -> str:
    """The command as a program, with `code` before it."""
    lines = [f"import sys; sys.path.insert(0, {str(ROOT)!r})", code]
    return "\n".join([*lines, "from mirage_gate.cli import main", "sys.exit(main())"])


def gate(
    *arguments: str | Path,
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
    code: str = "",
    before: tuple[str, ...] = (),
    timeout: float = 60,
    **rest: object,
) -> subprocess.CompletedProcess[str]:
    """Run the command as a process; `code` is Python to run before it, in the same one.

    `before` are the words of a command that runs this one.
    """
    command = [*before, sys.executable, "-W", "error", "-c", program(code)]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*command, *map(str, arguments)],
        **{
            "cwd": cwd,
            "env": clean_environment() | (env or {}),
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "errors": "replace",
            "timeout": timeout,
            **rest,
        },
    )


def gate_here(
    *arguments: str | Path,
    cwd: Path | str | None = None,
    apart: bool = False,
    encoding: str = "utf-8",
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, to the same status and words, in a fraction of the time.

    Both streams are in `stdout`, unless they are wanted `apart`. `encoding` is the terminal's.
    """
    words = [str(argument) for argument in arguments]
    out = _stream(encoding)
    err = _stream(encoding) if apart else out
    with (
        mock.patch.dict(os.environ, clean_environment(**(env or {})), clear=True),
        mock.patch.multiple(sys, stdin=io.StringIO(), stdout=out, stderr=err),
        _working_in(cwd),
    ):
        try:
            status = main(words)
        except SystemExit as end:  # what a shell asks for completion is not asked of a command
            status = int(end.code or 0)
    said = [_text(stream) for stream in ((out, err) if apart else (out,))]
    return subprocess.CompletedProcess(words, status, *said)


def invoke(*arguments: str | Path) -> Result:
    """Run the command in this process, for what it gives or raises before it ends."""
    return CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)


def complete(*words: str, of: str = "zsh", cwd: Path = ROOT) -> list[str]:
    """What a shell is offered for the last of the words."""
    env = {
        "_MIRAGE_GATE_COMPLETE": f"{of}_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    lines = gate_here(cwd=cwd, env=env).stdout.splitlines()
    return lines[1::3] if of == "zsh" else [line.partition(",")[2] for line in lines]


def _stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding, write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    data = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return str(data, stream.encoding, "replace").replace(os.linesep, "\n")


@contextlib.contextmanager
def _working_in(folder: Path | str | None) -> Iterator[None]:
    before = os.getcwd()  # noqa: PTH109
    os.chdir(folder or before)
    try:
        yield
    finally:
        os.chdir(before)
