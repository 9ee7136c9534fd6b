"""``check``: audit artifacts and report."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage_gate.commands import _common

if TYPE_CHECKING:
    from mirage_gate.report import FailOn


def _outputs(
    _: click.Context, __: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Split each FORMAT[=FILE]; an empty file is standard output."""
    from mirage_gate.reports import format_names

    outputs = []
    for value in values or ("text",):
        name, equals, file = value.partition("=")
        if name not in format_names():
            raise click.BadParameter(f"{name!r} is no format: {', '.join(format_names())}")
        if equals and not file:
            raise click.BadParameter(f"{value!r} names no file")
        outputs.append((name, "" if file == "-" else file))
    if sum(not file for _name, file in outputs) > 1:
        raise click.BadParameter("only one format can go to standard output: use FORMAT=FILE")
    return tuple(outputs)


def _color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FORMAT[=FILE]",
    callback=_outputs,
    help="Report as FORMAT, to FILE or standard output; repeatable. [default: text]",
)
@click.option(
    "--critical",
    metavar="NAMES",
    help="Critical tensors, comma-separated; +NAME adds to the built-in list.",
)
@_common.ranks_option
@click.option("--select", metavar="RULES", help="Only these rules: ids, families or globs.")
@click.option("--ignore", metavar="RULES", help="Not these rules.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    help="Lowest severity that fails.  [default: error]",
)
@_common.header_option
@_common.config_option
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto")
@click.option("-q", "--quiet", is_flag=True, help="Findings that fail, and the verdict.")
@click.option("-v", "--verbose", is_flag=True, help="Every tensor and every place.")
def command(
    paths: tuple[str, ...],
    outputs: tuple[tuple[str, str], ...],
    critical: str | None,
    ranks: frozenset[int] | None,
    select: str | None,
    ignore: str | None,
    fail_on: FailOn | None,
    runtime_header: str | None,
    config_file: str | None,
    color: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Audit the artifacts in each PATH: a folder, a file of a pair, or a glob.

    Exits 0 when the gate passes, 1 on findings or a rank that could not be audited, 2 when
    nothing was audited at all, 3 on an internal error.
    """
    from mirage_gate import audit
    from mirage_gate.artifacts import pairs
    from mirage_gate.facts import Options
    from mirage_gate.facts.critical import Critical
    from mirage_gate.reports import Context, load
    from mirage_gate.reports._paths import git_root

    settings = _common.settings_from(config_file)
    types = _common.task_types_from(settings, runtime_header)
    critical_words = settings.critical or () if critical is None else _common.words(critical)
    selection = audit.Selection(
        select=_common.rules_in(
            (settings.select or ()) if select is None else _common.words(select)
        ),
        ignore=_common.rules_in(
            (settings.ignore or ()) if ignore is None else _common.words(ignore)
        ),
        severities=settings.severity,
    )
    wanted = ranks if ranks is not None else frozenset(settings.ranks or ())
    try:
        found = pairs.find(paths or settings.paths or ["."], wanted)
    except pairs.NothingFound as error:
        raise click.UsageError(str(error)) from error
    options = Options(
        critical=Critical.of(_common.listed(critical, settings.critical)),
        task_types=types,
        workers=settings.workers or 0,
    )
    with _common.progress() as progress:
        report = audit.check(found, options, selection, progress)
    bar = fail_on or settings.fail_on or "error"
    context = Context(
        root=git_root(Path.cwd()) or str(Path.cwd()),
        fail_on=bar,
        color=_color(color),
        verbosity=int(verbose) - int(quiet),
    )
    for name, file in outputs:
        text = load(name).render(report, context)
        if file:
            _common.write(file, text)
        else:
            click.echo(text, nl=not text.endswith("\n"), color=context.color)
    return report.exit_status(bar)
