"""What the commands that end in a verdict share: their options, and how a report is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
import msgspec
from click.shell_completion import CompletionItem

from mirage_gate import output
from mirage_gate.commands import _common
from mirage_gate.escaping import plain

if TYPE_CHECKING:
    from mirage_gate.agreed.baseline import Baseline
    from mirage_gate.agreed.lock import Locked
    from mirage_gate.agreed.memory import Memory
    from mirage_gate.auditing.selection import Selection
    from mirage_gate.config import Config
    from mirage_gate.facts.plan.comparing import Planned
    from mirage_gate.findings import Severity
    from mirage_gate.report import FailOn, Report

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.Path(exists=True, dir_okay=False)


class Reporting(click.Command):
    """A command whose help lists the report formats."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from mirage_gate.reports import format_names, load

        super().format_epilog(ctx, formatter)
        with formatter.section("Formats"):
            formatter.write_dl([(name, load(name).DESCRIPTION) for name in format_names()])


def _outputs(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ``--output``: a format's name, and behind an equals sign a file's."""
    from mirage_gate.reports import format_names

    name, equals, file = incomplete.partition("=")
    if equals:
        return _common.complete_files(f"{name}=", file)
    return [CompletionItem(known) for known in format_names() if known.startswith(name)]


_OUTPUT = click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FORMAT[=FILE]",
    shell_complete=_outputs,
    help="Report as FORMAT, to FILE or standard output; repeatable. [default: text]",
)
_RULES = (
    click.option(
        "--select",
        metavar="RULES",
        shell_complete=_common.complete_rules,
        help="Only these rules: ids, families or globs.",
    ),
    click.option(
        "--ignore",
        metavar="RULES",
        shell_complete=_common.complete_rules,
        help="Not these rules.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note", "never"]),
        help="Lowest severity that fails.  [default: error]",
    ),
)
_MIN_SEVERITY = click.option(
    "--min-severity",
    type=click.Choice(["error", "warning", "note"]),
    help="Lowest severity that is reported; not above --fail-on.  [default: note]",
)
_HELD_TO = (
    click.option(
        "--lock", metavar="FILE", type=_FILE, help="The wiring that was agreed, to hold it to."
    ),
    click.option(
        "--baseline",
        metavar="FILE",
        type=_FILE,
        help="An earlier JSON or SARIF report: its findings are known, and left out.",
    ),
)


def options(command: _Command) -> _Command:
    """Add what is asked of every run that reports: outputs, rules, what it is held to."""
    return _with(command, (_OUTPUT, *_RULES, _MIN_SEVERITY, *_HELD_TO))


def judged(command: _Command) -> _Command:
    """Add what decides which findings there are: rules, and what a graph is held to."""
    return _with(command, (*_RULES, *_HELD_TO))


def _with(command: _Command, decorators: Sequence[Callable[[_Command], _Command]]) -> _Command:
    return reduce(lambda wrapped, option: option(wrapped), reversed(decorators), command)


class Look(msgspec.Struct, frozen=True):
    """How a run shows itself: what it prints, not what it finds."""

    color: str
    verbosity: int
    show_settings: bool
    statistics: bool
    show_hidden: bool


PLAIN = Look("never", 0, show_settings=False, statistics=False, show_hidden=False)
"""How a command looks that can be given no such options."""


def appearance(command: _Command) -> _Command:
    """Add how a run shows itself: the command gets it as ``look``."""

    @wraps(command)
    def looking(
        *,
        color: str,
        quiet: bool,
        verbose: bool,
        show_settings: bool,
        statistics: bool,
        show_hidden: bool,
        **rest: object,
    ) -> object:
        loud = int(verbose) - int(quiet)
        look = Look(color, loud, show_settings, statistics, show_hidden)
        return command(look=look, **rest)

    decorators = (
        _common.config_option,
        click.option(
            "--show-settings",
            is_flag=True,
            help="Print what is set, and where, as a configuration; audit nothing.",
        ),
        click.option("--statistics", is_flag=True, help="Count the findings, by rule and by role."),
        click.option(
            "--show-hidden",
            is_flag=True,
            help="List what waivers and the baseline hide (SARIF: as suppressed).",
        ),
        _common.progress_option,
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto"),
        click.option("-q", "--quiet", is_flag=True, help="Findings that fail, and the verdict."),
        click.option("-v", "--verbose", is_flag=True, help="Every tensor and every place."),
    )
    return cast(
        "_Command", reduce(lambda wrapped, option: option(wrapped), reversed(decorators), looking)
    )


def outputs_in(values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Split each FORMAT[=FILE]; an empty file is standard output."""
    from mirage_gate.reports import format_names

    outputs = []
    for value in values:
        name, equals, file = value.partition("=")
        if name not in format_names():
            hint = "" if equals or "." not in name else f" (a file is FORMAT={name})"
            raise click.UsageError(f"{name!r} is no format{hint}: {', '.join(format_names())}")
        if equals and not file:
            raise click.UsageError(f"--output: {value!r} names no file")
        outputs.append((name, "" if file == "-" else file))
    if sum(not file for _name, file in outputs) > 1:
        raise click.UsageError("only one format can go to standard output: use FORMAT=FILE")
    return tuple(outputs)


def prepare(outputs: Sequence[tuple[str, str]], inputs: Iterable[str]) -> None:
    """See to it, before an audit that may take long, that its reports can be written.

    Folders are made. Two reports cannot go to one file, nor one to a file that is read.
    """
    taken = {os.path.realpath(file): "" for file in inputs if file}
    for name, file in outputs:
        if not file:
            if sys.stdout is None:
                raise click.UsageError("standard output is closed: use FORMAT=FILE")
            continue
        try:
            real = os.path.realpath(file)
            if other := taken.get(real):
                raise click.UsageError(f"--output: {other} and {name} would both go to {file}")
            if real in taken:
                raise click.UsageError(f"--output: {file} is read by this run, and not written")
            regular = output.writable(Path(file))
        except OSError as error:
            raise click.FileError(file, error.strerror or str(error)) from error
        except ValueError as error:
            raise click.FileError(file, "its path holds a zero byte") from error
        if regular:
            taken[real] = name


def selection_from(settings: Config, select: str | None, ignore: str | None) -> Selection:
    """Give the rules that are on, and how loud: the command line's word, else the file's."""
    from mirage_gate.auditing.selection import Selection
    from mirage_gate.findings import INPUT
    from mirage_gate.rules import all_rules

    severities, off = _common.severities_from(settings)
    selected = (settings.select or ()) if select is None else _common.words(select)
    ignored = (settings.ignore or ()) if ignore is None else _common.words(ignore)
    selection = Selection(
        select=_common.rules_in(selected),
        ignore=(*_common.rules_in(ignored), *off),
        severities=severities,
    )
    asked_for_input = any(word.startswith(INPUT) for word in selection.select)
    left = any(selection.wants(rule.id) for rule in all_rules() if rule.family != INPUT)
    if not left and not asked_for_input:
        raise click.UsageError("every rule that is selected is ignored as well: nothing is left")
    return selection


def memory_from(
    settings: Config,
    config_file: str | None,
    lock: str | None,
    baseline: str | None,
    *,
    unfinished: bool = False,
) -> Memory:
    """Read what the run is held to: a lock, waivers, a baseline.

    A waiver without a reason is refused, unless those that are unfinished are wanted too.
    """
    from mirage_gate import config
    from mirage_gate.agreed.memory import Memory
    from mirage_gate.rules import rule_by_id

    rules = []
    for waiver in settings.waivers:
        rule = rule_by_id(waiver.rule)
        if rule is None:
            raise click.UsageError(f"waivers: {waiver.rule!r} is no rule's id or name")
        rules.append(rule.id)
    path = _common.config_path(config_file) or "mirage-gate.toml"
    lock_file = lock or settings.lock
    baseline_file = baseline or settings.baseline
    try:
        return Memory(
            lock=_lock(lock_file) if lock_file else None,
            waivers=tuple(config.waivers(settings, str(path), rules, unfinished=unfinished)),
            baseline=_baseline(baseline_file) if baseline_file else None,
        )
    except config.ConfigError as error:
        raise _common.Refused(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror or error}") from error


def _lock(file: str) -> Locked:
    from mirage_gate.agreed import lock

    try:
        return lock.read(file)
    except lock.NotALock as error:
        raise click.UsageError(f"{file} {error}") from error


def _baseline(file: str) -> Baseline:
    from mirage_gate.agreed import baseline

    try:
        return baseline.read(file)
    except baseline.NotAReport as error:
        raise click.UsageError(f"{file} {error}") from error


def plan_from(settings: Config, plan: str | None, memory: Memory) -> Planned | None:
    """Read the plan that a model is held to: one that is named, else the lock's."""
    file = plan or settings.plan
    if not file and memory.lock is None:
        return None
    from mirage_gate.agreed import plans

    try:
        return plans.read(file)[1] if file else memory.lock.planned() if memory.lock else None
    except plans.NotAPlan as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror or error}") from error


def shown_from(settings: Config, min_severity: str | None, fail_on: FailOn) -> Severity:
    """Give the lowest severity to report. What fails the gate cannot be hidden."""
    from mirage_gate.findings import Severity

    lowest = Severity(min_severity or settings.min_severity or "note")
    if fail_on != "never" and lowest.weight > Severity(fail_on).weight:
        raise click.UsageError(
            f"--min-severity {lowest} would hide what --fail-on {fail_on} fails on"
        )
    return lowest


def give(report: Report, outputs: Sequence[tuple[str, str]], fail_on: FailOn, look: Look) -> int:
    """Write every report that was asked for, and give the exit status.

    A report that cannot be written is said, and keeps no other from being written.
    """
    from mirage_gate.reports import Context, load
    from mirage_gate.reports._paths import report_root

    root = report_root(Path.cwd())
    context = Context(
        root=root,
        fail_on=fail_on,
        color=_color(look.color),
        verbosity=look.verbosity,
        statistics=look.statistics,
        hidden=look.show_hidden,
        commit=_commit(root) if any(name == "html" for name, _ in outputs) else "",
    )
    failures: list[click.ClickException] = []
    for name, file in sorted(outputs, key=lambda output: not output[1]):
        text = load(name).render(report, context)
        if file:
            try:
                _common.write(file, text)
            except click.FileError as error:
                failures.append(error)
        elif name == "text":
            click.echo(text, nl=not text.endswith("\n"), color=context.color)
        else:
            # The other formats are UTF-8 whatever the terminal is.
            click.echo(text.encode("utf-8", errors="backslashreplace"), nl=False)
    for failure in failures:
        failure.show()
    if sys.stderr.isatty():
        warn(f"took {report.seconds:.2f} s")
    return 2 if failures else report.exit_status(fail_on)


def _commit(root: str) -> str:
    from mirage_gate import repository

    return repository.commit(root)


def _color(choice: str) -> bool:
    """Whether to colour: NO_COLOR and FORCE_COLOR as at no-color.org and force-color.org."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def warn(text: str) -> None:
    """Say something on standard error that is no finding."""
    click.echo(f"mirage-gate: {plain(text)}", err=True)
