"""The command line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage_gate import __version__

if TYPE_CHECKING:
    from mirage_gate.config import Config
    from mirage_gate.report import FailOn

_FAIL_ON = click.Choice(["error", "warning", "note", "never"])
Progress = Callable[[str], None]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mirage-gate")
def cli() -> None:
    """Prove the wiring of Mirage Persistent Kernel megakernels, before nvcc runs.

    Reads the pairs kernel_N.cu and task_graph_N.json that MPK emits; changes nothing.
    """


def _words(text: str) -> tuple[str, ...]:
    """Split a comma-separated value."""
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def _ranks(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[int] | None:
    if value is None:
        return None
    words = _words(value)
    if not words or not all(word.isdecimal() and len(word) < 7 for word in words):
        raise click.BadParameter(f"{value!r} is no list of ranks such as 0,1,3")
    return frozenset(map(int, words))


def _outputs(
    _: click.Context, __: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Split each FORMAT[=FILE]; an empty file is standard output."""
    from mirage_gate.reports import format_names

    outputs = []
    for value in values or ("text",):
        name, _equals, file = value.partition("=")
        if name not in format_names():
            raise click.BadParameter(f"{name!r} is no format: {', '.join(format_names())}")
        if _equals and not file:
            raise click.BadParameter(f"{value!r} names no file")
        outputs.append((name, "" if file == "-" else file))
    if sum(not file for _name, file in outputs) > 1:
        raise click.BadParameter("only one format can go to standard output: use FORMAT=FILE")
    return tuple(outputs)


def _color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """Give a function that shows what is going on: on a terminal, on standard error."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return

    def show(text: str) -> None:
        click.echo(f"\r\x1b[K{text} …", nl=False, err=True)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


@cli.command()
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
@click.option("--ranks", metavar="LIST", callback=_ranks, help="Audit these ranks only: 0,1,3.")
@click.option("--select", metavar="RULES", help="Only these rules: ids, families or globs.")
@click.option("--ignore", metavar="RULES", help="Not these rules.")
@click.option("--fail-on", type=_FAIL_ON, help="Lowest severity that fails.  [default: error]")
@click.option(
    "--runtime-header",
    type=click.Path(exists=True, dir_okay=False),
    help="A fork's runtime_header.h: its task type codes.",
)
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), help="Configuration."
)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto")
@click.option("-q", "--quiet", is_flag=True, help="Findings that fail, and the verdict.")
@click.option("-v", "--verbose", is_flag=True, help="Every tensor and every place.")
def check(
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
    from mirage_gate import audit, config
    from mirage_gate.artifacts import pairs
    from mirage_gate.facts import Options
    from mirage_gate.facts.critical import Critical
    from mirage_gate.reports import Context, load
    from mirage_gate.reports._paths import git_root

    settings = _settings(config_file)
    header = runtime_header or settings.runtime_header
    try:
        codes = config.header_codes(Path(header)) if header else None
        types = config.task_types(settings, codes)
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from error
    words = _words(critical) if critical is not None else tuple(settings.critical or ())
    selection = audit.Selection(
        select=_rules(_words(select) if select is not None else settings.select or ()),
        ignore=_rules(_words(ignore) if ignore is not None else settings.ignore or ()),
        severities=settings.severity,
    )
    wanted = ranks if ranks is not None else frozenset(settings.ranks or ())
    try:
        found = pairs.find(paths or settings.paths or ["."], wanted)
    except pairs.NothingFound as error:
        raise click.UsageError(str(error)) from error
    options = Options(critical=Critical.of(words), task_types=types, workers=settings.workers or 0)
    with _progress() as progress:
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
            _write(file, text)
        else:
            click.echo(text, nl=not text.endswith("\n"), color=context.color)
    return report.exit_status(bar)


def _settings(config_file: str | None) -> Config:
    from mirage_gate import config

    try:
        path = Path(config_file) if config_file else config.find(Path.cwd())
        return config.load(path) if path else config.Config()
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from error


def _rules(words: Sequence[str]) -> tuple[str, ...]:
    """Check that each word names at least one rule: a mistyped one must not switch all off."""
    from mirage_gate.audit import names
    from mirage_gate.rules import all_rules, rule_by_id

    checked = []
    for word in words:
        rule = rule_by_id(word)
        known = rule.id if rule else word.upper()
        if not any(names(known, rule.id) for rule in all_rules()):
            raise click.UsageError(f"{word!r} names no rule; `mirage-gate explain` lists them")
        checked.append(known)
    return tuple(checked)


def _write(file: str, text: str) -> None:
    from mirage_gate.output import write

    try:
        write(Path(file), text)
    except OSError as error:
        raise click.FileError(file, error.strerror or str(error)) from error


@cli.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> int:
    """Say what RULE proves, with an example and how to fix it; without RULE, list all."""
    from mirage_gate.explain import catalogue, page
    from mirage_gate.rules import rule_by_id

    if rule is None:
        click.echo(catalogue())
        return 0
    found = rule_by_id(rule)
    if found is None:
        raise click.UsageError(f"{rule!r} is no rule; `mirage-gate explain` lists them")
    click.echo(page(found))
    return 0


@cli.command()
@click.argument("name")
def schema(name: str) -> int:
    """Print the JSON Schema NAME, such as task-graph."""
    from mirage_gate import schema_files

    try:
        click.echo(schema_files.text(name), nl=False)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    return 0


@cli.command()
@click.argument("path")
@click.argument("tensor")
@click.option("--ranks", metavar="LIST", callback=_ranks, help="These ranks only: 0,1,3.")
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), help="Configuration."
)
def show(path: str, tensor: str, ranks: frozenset[int] | None, config_file: str | None) -> int:
    """Show who writes and who reads TENSOR, by layer and task type."""
    from mirage_gate import config
    from mirage_gate.artifacts import pairs
    from mirage_gate.facts import Options
    from mirage_gate.show import show_tensor

    try:
        found = pairs.find([path], ranks or frozenset())
        options = Options(task_types=config.task_types(_settings(config_file)))
    except (pairs.NothingFound, config.ConfigError) as error:
        raise click.UsageError(str(error)) from error
    text, status = show_tensor(found, tensor, options)
    click.echo(text)
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit status. Whatever breaks, it is never 0."""
    run: Callable[..., int | None] = cli.main
    try:
        status = run(args=argv, prog_name="mirage-gate", standalone_mode=False)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except click.ClickException as error:
        error.show()
        status = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("mirage-gate: interrupted, nothing is proven", err=True)
        status = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 3
    except Exception as error:
        # The last resort: say it, and fail closed.
        click.echo(f"mirage-gate: internal error: {type(error).__name__}: {error}", err=True)
        status = 3
    return 0 if status is None else int(status)
