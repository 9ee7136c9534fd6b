"""``check``: audit artifacts and report."""

from __future__ import annotations

import os
from typing import Any

import click

from mirage_gate.commands import _asked, _common, _run
from mirage_gate.commands._progress import progress


@click.command(cls=_run.Reporting, short_help="Audit artifacts and report.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=_common.AnyPath())
@_asked.options
def command(paths: tuple[str, ...], **values: Any) -> int:
    """Audit the artifacts in each PATH: a folder, a file of a pair, or a glob.

    Reads files and runs nothing: not the builder, nor what the artifacts hold. (`run` does.)

    Exits 0 when the gate passes, 1 on findings or a rank that could not be audited, 2 when
    nothing was audited at all, 3 on an internal error.
    """
    from mirage_gate.artifacts import pairs
    from mirage_gate.auditing import ranks as all_ranks
    from mirage_gate.reports import shows_layers

    asked = _asked.asked(values)
    if asked.look.show_settings:
        return _asked.show_settings(asked, values, paths=paths)
    try:
        found = pairs.find(paths or asked.settings.paths or ["."], asked.ranks, _run.warn)
    except pairs.NothingFound as error:
        raise _common.Refused(str(error)) from error
    read = [path for pair in found for path in (pair.cuda, pair.graph)]
    _run.prepare(asked.written, [*read, *asked.read])
    with progress(found) as watch:
        report = all_ranks.check(
            found,
            asked.options,
            asked.selection,
            watch,
            memory=asked.memory,
            jobs=asked.jobs or all_ranks.default_jobs(found),
            summarize=any(name == "summary" for name, _ in asked.written),
            by_layer=any(shows_layers(name) for name, _ in asked.written),
            # Files that are named are a choice too: a hook names the staged ones.
            chosen=bool(asked.ranks) or any(map(os.path.isfile, paths)),
        )
    report = _asked.located(report, asked)
    return _run.give(report.at_least(asked.lowest), asked.written, asked.fail_on, asked.look)
