"""``lock``: write the wiring down, to be committed and held to."""

from __future__ import annotations

import click

from mirage_gate.commands import _common, _run


@click.command(short_help="Write the wiring down, to be held to.")
@click.argument("path", type=_common.AnyPath())
@click.option(
    "-o", "--output", "file", metavar="FILE", required=True, help="Where to; - for the terminal."
)
@click.option(
    "--critical",
    metavar="NAMES",
    help="Critical tensors, comma-separated; +NAME adds to the built-in list.",
)
@click.option("--force", is_flag=True, help="Write down a graph that fails, too.")
@_common.ranks_option
@_common.header_option
@_common.config_option
@_common.progress_option
def command(
    path: str,
    file: str,
    critical: str | None,
    force: bool,
    ranks: frozenset[int] | None,
    runtime_header: str | None,
    config_file: str | None,
) -> int:
    """Write down how every tensor in PATH is wired: a folder, a file of a pair, a summary.

    The file is small and has a line for each tensor. Commit it; `check --lock FILE` holds a
    new graph to it.
    """
    from mirage_gate.commands._sides import wiring_of

    settings = _common.settings_from(config_file)
    lock = wiring_of(path, settings, critical, ranks, runtime_header, passing=not force)
    if file == "-":
        click.echo(lock.text(), nl=False)
        return 0
    _common.write(file, lock.text())
    tensors = len(lock.tensors)
    _run.warn(f"{file}: {tensors:,} tensors of {len(lock.ranks)} rank{'s' * (len(lock.ranks) > 1)}")
    return 0
