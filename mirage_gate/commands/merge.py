"""``merge``: join ranks that were audited on different hosts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mirage_gate.commands import _common, _run, _settings

if TYPE_CHECKING:
    from mirage_gate.report import FailOn


@click.command(cls=_run.Reporting, short_help="Join ranks that were audited apart.")
@click.argument("summaries", nargs=-1, required=True, metavar="SUMMARY...", type=_common.AnyPath())
@click.option("--partial", is_flag=True, help="More ranks are to come: a missing one may be.")
@_run.options
@_run.appearance
def command(
    summaries: tuple[str, ...],
    partial: bool,
    outputs: tuple[str, ...],
    select: str | None,
    ignore: str | None,
    fail_on: FailOn | None,
    min_severity: str | None,
    lock: str | None,
    baseline: str | None,
    config_file: str | None,
    look: _run.Look,
) -> int:
    """Join the ranks in each SUMMARY, a file of `check -o summary=FILE`, into one run.

    Reports what was found on each rank, and what only the ranks together show. The files
    are of one run, whatever folders its artifacts were in.
    """
    from mirage_gate.agreed import summary
    from mirage_gate.auditing.counting import of_summary
    from mirage_gate.auditing.ranks import conclude

    started = time.perf_counter()
    settings = _common.settings_from(config_file)
    written = _run.outputs_in(outputs or settings.output or ["text"])
    bar = fail_on or settings.fail_on or "error"
    lowest = _run.shown_from(settings, min_severity, bar)
    selection = _run.selection_from(settings, select, ignore)
    if look.show_settings:
        given = {
            "paths": summaries,
            "output": outputs,
            "select": _settings.words(select),
            "ignore": _settings.words(ignore),
            "fail-on": fail_on,
            "min-severity": min_severity,
            "lock": lock,
            "baseline": baseline,
        }
        return _settings.say(settings, config_file, given)
    memory = _run.memory_from(settings, config_file, lock, baseline)
    ranks: list[summary.Summary] = []
    for file in summaries:
        if Path(file).is_dir():
            hint = f"mirage-gate check {file} -o summary=FILE"
            raise click.UsageError(f"{file} is a folder: first sum it up with `{hint}`")
        try:
            ranks.extend(summary.read(file))
        except summary.NotASummary as error:
            raise click.UsageError(f"{file} {error}") from error
        except OSError as error:
            raise click.UsageError(f"{file}: {error.strerror or error}") from error
    _run.prepare(written, summaries)
    ranks.sort(key=lambda rank: (rank.rank, rank.cuda_path))
    ranks = [
        msgspec.structs.replace(
            rank,
            findings=tuple(
                selection.weigh(finding)
                for finding in rank.findings
                if selection.wants(finding.rule)
            ),
        )
        for rank in ranks
    ]
    report = conclude(
        [of_summary(rank) for rank in ranks],
        ranks,
        selection,
        memory,
        one_run=True,
        partial=partial,
    )
    report = msgspec.structs.replace(report, seconds=time.perf_counter() - started)
    return _run.give(report.at_least(lowest), written, bar, look)
