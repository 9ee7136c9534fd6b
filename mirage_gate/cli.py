"""The command line: finds the commands, and turns whatever happens into an exit status."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from mirage_gate import __version__, commands


class _Unread(Exception):
    """Who was to read our output has gone."""


class _Commands(click.Group):
    """The modules of :mod:`mirage_gate.commands`, each imported when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return sorted(
            module.name
            for module in pkgutil.iter_modules(commands.__path__)
            if not module.name.startswith("_")
        )

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Click's own answer to it is status 1, which here means findings.
            raise _Unread from error

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"mirage_gate.commands.{name}").command
        command.name = name
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mirage-gate")
def cli() -> None:
    """Prove the wiring of Mirage Persistent Kernel megakernels, before nvcc runs.

    Reads the pairs kernel_N.cu and task_graph_N.json that MPK emits; changes nothing.
    """


def run() -> NoReturn:
    """Be the program: run the command line and end the process.

    A process that ends need not free its objects one by one, nor look for circles among them.
    """
    gc.disable()
    status = main()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # it was closed before we began
                stream.flush()
    except BrokenPipeError:
        status = status or 2  # nobody got to read the verdict
    except OSError as error:
        status = _refused(error)
    os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit status. Whatever breaks, it is never 0."""
    for stream in (sys.stdout, sys.stderr):
        # A tensor's name may hold what the terminal's encoding cannot say.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        click.echo("mirage-gate: the working directory is not there any more", err=True)
        return 2
    try:
        status = cli.main(args=argv, prog_name="mirage-gate", standalone_mode=False)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except click.ClickException as error:
        error.show()
        status = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("mirage-gate: interrupted, nothing is proven", err=True)
        status = 130
    except _Unread:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 2
    except OSError as error:
        status = _refused(error)
    except Exception as error:
        # The last resort: say it, and fail closed.
        click.echo(f"mirage-gate: internal error: {type(error).__name__}: {error}", err=True)
        status = 3
    return 0 if status is None else int(status)


def _refused(error: OSError) -> int:
    """Say what the operating system would not do: no mistake of ours, and no verdict."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    name = error.filename or ("standard output" if full else "")
    where = f"{name}: " if name else ""
    with contextlib.suppress(OSError):
        reason = error.strerror or error
        click.echo(f"mirage-gate: {where}{reason}; there is no verdict", err=True)
    return 2
