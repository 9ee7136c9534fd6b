"""``check``: audit artifacts and report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mirage_gate.commands import _common, _model, _run, _settings

if TYPE_CHECKING:
    from mirage_gate.config import Locate
    from mirage_gate.report import FailOn, Report


@click.command(cls=_run.Reporting, short_help="Audit artifacts and report.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=_common.AnyPath())
@_run.options
@click.option(
    "--critical",
    metavar="NAMES",
    help="Critical tensors, comma-separated; +NAME adds to the built-in list.",
)
@_common.ranks_option
@click.option(
    "--builder",
    "builders",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Python that built the graph, to point findings at; read, never run; repeatable.",
)
@click.option(
    "--locate",
    "locate_at",
    type=click.Choice(["auto", "artifact", "builder"]),
    help="Where a finding lands. auto: the builder, if git does not track the artifact.",
)
@_model.options
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many workers the kernel will run on: a queue that overflows is an error.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Audit ranks in N processes.  [default: one each where the files are big]",
)
@_common.header_option
@_run.appearance
def command(
    paths: tuple[str, ...],
    outputs: tuple[str, ...],
    critical: str | None,
    ranks: frozenset[int] | None,
    select: str | None,
    ignore: str | None,
    fail_on: FailOn | None,
    lock: str | None,
    baseline: str | None,
    builders: tuple[str, ...],
    locate_at: Locate | None,
    model_config: str | None,
    weights: str | None,
    layers: frozenset[int] | None,
    workers: int | None,
    jobs: int | None,
    runtime_header: str | None,
    config_file: str | None,
    look: _run.Look,
) -> int:
    """Audit the artifacts in each PATH: a folder, a file of a pair, or a glob.

    Exits 0 when the gate passes, 1 on findings or a rank that could not be audited, 2 when
    nothing was audited at all, 3 on an internal error.
    """
    from mirage_gate.artifacts import pairs
    from mirage_gate.auditing import ranks as all_ranks
    from mirage_gate.facts import Options
    from mirage_gate.facts.critical import Critical
    from mirage_gate.reports import shows_layers

    settings = _common.settings_from(config_file)
    types = _common.task_types_from(settings, runtime_header)
    written = _run.outputs_in(outputs or settings.output or ["text"])
    selection = _run.selection_from(settings, select, ignore)
    memory = _run.memory_from(settings, config_file, lock, baseline)
    if look.show_settings:
        given = {
            "paths": paths,
            "output": outputs,
            "critical": _settings.words(critical),
            "ranks": ranks,
            "select": _settings.words(select),
            "ignore": _settings.words(ignore),
            "fail-on": fail_on,
            "lock": lock,
            "baseline": baseline,
            "builder": builders,
            "locate": locate_at,
            "model-config": model_config,
            "weights": weights,
            "layers": layers,
            "runtime-header": runtime_header,
            "workers": workers,
            "jobs": jobs,
        }
        return _settings.say(settings, config_file, given)
    wanted = ranks if ranks is not None else frozenset(settings.ranks or ())
    try:
        found = pairs.find(paths or settings.paths or ["."], wanted, _run.warn)
    except pairs.NothingFound as error:
        raise _common.Refused(str(error)) from error
    python = builders or settings.builder or ()
    read = [path for pair in found for path in (pair.cuda, pair.graph)]
    _run.prepare(written, [*read, *python, lock or settings.lock or ""])
    options = Options(
        critical=Critical.of(_common.listed(critical, settings.critical)),
        task_types=types,
        workers=workers or settings.workers or 0,
    )
    options = _model.meant(settings, options, model_config, weights, layers)
    with _common.progress() as progress:
        report = all_ranks.check(
            found,
            options,
            selection,
            progress,
            memory=memory,
            jobs=jobs or settings.jobs or all_ranks.default_jobs(found),
            summarize=any(name == "summary" for name, _ in written),
            by_layer=any(shows_layers(name) for name, _ in written),
            # Files that are named are a choice too: a hook names the staged ones.
            chosen=bool(wanted) or any(map(os.path.isfile, paths)),
        )
    report = _located(report, python, locate_at or settings.locate)
    bar = fail_on or settings.fail_on or "error"
    return _run.give(report, written, bar, look)


def _located(report: Report, paths: Sequence[str], where: Locate | None) -> Report:
    """Point the findings at the builders' lines; a builder that is no Python is passed over."""
    if not paths:
        return report
    from mirage_gate.artifacts import builder
    from mirage_gate.locate import locate

    readable = []
    for path in paths:
        try:
            readable.append(builder.read(path))
        except builder.BuilderError as error:
            _run.warn(f"builder not used: {error}")
    return locate(report, readable, where or "auto")
