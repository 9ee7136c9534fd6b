"""What ``check`` and ``run`` ask of a graph: their common options, and what these come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from mirage_gate.commands import _common, _model, _run

if TYPE_CHECKING:
    from mirage_gate.agreed.memory import Memory
    from mirage_gate.artifacts.builder import Builder
    from mirage_gate.auditing.selection import Selection
    from mirage_gate.config import Config, Locate
    from mirage_gate.facts import Options
    from mirage_gate.findings import Severity
    from mirage_gate.report import FailOn, Report

_Command = TypeVar("_Command", bound=Callable[..., Any])


def options(command: _Command) -> _Command:
    """Add what can be asked of every graph, and how the answer is shown, as keywords."""
    return _run.options(_questions(_run.appearance(command)))


def questions(command: _Command) -> _Command:
    """Add what can be asked of every graph by a command that shows no report."""
    return _run.judged(_questions(_common.config_option(command)))


def _questions(command: _Command) -> _Command:
    decorators = (
        click.option(
            "--critical",
            metavar="NAMES",
            help="Critical tensors, comma-separated; +NAME adds to the built-in list.",
        ),
        click.option(
            "--plan",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="The plan that was agreed, to hold the model to.  [default: the lock's]",
        ),
        _common.ranks_option,
        click.option(
            "--builder",
            "builders",
            multiple=True,
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="Python that built the graph, to point findings at; read, never run; repeatable.",
        ),
        click.option(
            "--locate",
            "locate_at",
            type=click.Choice(["auto", "artifact", "builder"]),
            help="Where a finding lands. auto: the builder, if git does not track the artifact.",
        ),
        _model.options,
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="How many workers the kernel will run on: a queue that overflows is an error.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Audit ranks in N processes.  [default: one each where the files are big]",
        ),
        _common.header_option,
    )
    return reduce(lambda wrapped, option: option(wrapped), reversed(decorators), command)


class Asked(msgspec.Struct, frozen=True):
    """All of it, read; ``written`` are the outputs, ``builders`` paths that nobody read yet."""

    settings: Config
    written: tuple[tuple[str, str], ...]
    options: Options
    selection: Selection
    memory: Memory
    fail_on: FailOn
    lowest: Severity
    ranks: frozenset[int]
    builders: tuple[str, ...]
    locate: Locate
    jobs: int | None
    look: _run.Look
    read: tuple[str, ...]


def asked(values: Mapping[str, Any], *, unfinished: bool = False) -> Asked:
    """Read what the options and the configuration say, the options first.

    ``unfinished`` takes waivers without a reason as well.
    """
    from mirage_gate.agreed.memory import Memory
    from mirage_gate.facts import Options
    from mirage_gate.facts.critical import Critical

    look: _run.Look = values.get("look", _run.PLAIN)
    settings = _common.settings_from(values["config_file"])
    types = _common.task_types_from(settings, values["runtime_header"])
    written = _run.outputs_in(values.get("outputs") or settings.output or ["text"])
    selection = _run.selection_from(settings, values["select"], values["ignore"])
    held = (values["config_file"], values["lock"], values["baseline"])
    # What is set can be shown before it is finished.
    memory = (
        Memory() if look.show_settings else _run.memory_from(settings, *held, unfinished=unfinished)
    )
    known = Options(
        critical=Critical.of(_common.listed(values["critical"], settings.critical)),
        task_types=types,
        kernels=_common.kernels_from(settings),
        workers=values["workers"] or settings.workers or 0,
    )
    known = msgspec.structs.replace(known, plan=_run.plan_from(settings, values["plan"], memory))
    if not look.show_settings:
        known = _model.meant(
            settings, known, values["model_config"], values["weights"], values["layers"]
        )
    fail_on: FailOn = values["fail_on"] or settings.fail_on or "error"
    ranks = values["ranks"]
    builders = tuple(values["builders"] or settings.builder or ())
    return Asked(
        settings=settings,
        written=written,
        options=known,
        selection=selection,
        memory=memory,
        fail_on=fail_on,
        lowest=_run.shown_from(settings, values.get("min_severity"), fail_on),
        ranks=ranks if ranks is not None else frozenset(settings.ranks or ()),
        builders=builders,
        locate=values["locate_at"] or settings.locate or "auto",
        jobs=values["jobs"] or settings.jobs,
        look=look,
        read=(
            *builders,
            values["lock"] or settings.lock or "",
            values["plan"] or settings.plan or "",
        ),
    )


def show_settings(known: Asked, values: Mapping[str, Any], **more: Any) -> int:
    """Print what is set, and where; audit nothing."""
    from mirage_gate.commands import _settings

    given = {
        **more,
        "output": values["outputs"],
        "critical": _settings.words(values["critical"]),
        "ranks": values["ranks"],
        "select": _settings.words(values["select"]),
        "ignore": _settings.words(values["ignore"]),
        "fail-on": values["fail_on"],
        "min-severity": values["min_severity"],
        "lock": values["lock"],
        "plan": values["plan"],
        "baseline": values["baseline"],
        "builder": values["builders"],
        "locate": values["locate_at"],
        "model-config": values["model_config"],
        "weights": values["weights"],
        "layers": values["layers"],
        "runtime-header": values["runtime_header"],
        "workers": values["workers"],
        "jobs": values["jobs"],
    }
    return _settings.say(known.settings, values["config_file"], given)


def builders_in(paths: Sequence[str]) -> tuple[Builder, ...]:
    """Read the builders; one that is no Python is passed over."""
    if not paths:
        return ()
    from mirage_gate.artifacts import builder

    readable = []
    for path in paths:
        try:
            readable.append(builder.read(path))
        except builder.BuilderError as error:
            _run.warn(f"builder not used: {error}")
    return tuple(readable)


def located(report: Report, known: Asked) -> Report:
    """Point the findings at the lines that made what they are about."""
    import os

    if not report.findings and not known.builders:
        return report
    from mirage_gate.artifacts.provenance import beside

    # Only what `run` left beside a pair needs to be read, and most pairs have none.
    left = any(os.path.lexists(beside(rank.cuda_path)) for rank in report.ranks if rank.cuda_path)
    if not known.builders and not left:
        return report
    from mirage_gate.locate import locate, provenance_of

    told = provenance_of(report, _run.warn) if left else {}
    wants = None if known.ranks else known.selection.wants
    return locate(report, builders_in(known.builders), known.locate, told, _run.warn, wants)
