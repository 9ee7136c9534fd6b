"""What the commands share: how a value on the command line is read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from mirage_gate.config import Config
    from mirage_gate.facts.signatures.notation import Kernel
    from mirage_gate.facts.task_types import TaskType
    from mirage_gate.findings import Severity

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Refused(click.ClickException):
    """What was asked for makes sense, and there is nothing to do it with: exit status 2."""

    exit_code = 2


def words(text: str) -> tuple[str, ...]:
    """Split a comma-separated value."""
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    _Text = click.ParamType  # not generic before click 8.2


class AnyPath(_Text):
    """A path as it was typed. The shell completes it; whoever opens it says what is wrong."""

    name = "path"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's interface
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def complete_rules(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last of some rules between commas: ids, families, names."""
    from mirage_gate.rules import all_rules

    before, comma, word = incomplete.rpartition(",")
    rules = all_rules()
    families = sorted({rule.family for rule in rules})
    words = {family: "" for family in families if len(word) < len(family)}
    if len(word) > 2:
        words |= {rule.id: rule.claim for rule in rules}
        words |= {rule.name: rule.claim for rule in rules}
    return [
        CompletionItem(f"{before}{comma}{name}", help=claim or None)
        for name, claim in words.items()
        if name.lower().startswith(word.lower())
    ]


def complete_files(before: str, path: str) -> list[CompletionItem]:
    """Complete a path that stands behind something else in one word, as in ``sarif=out/x``."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:  # noqa: PTH111
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError:
        return []
    return [
        CompletionItem(f"{before}{os.path.join(folder, entry)}{'/' if is_folder else ''}")  # noqa: PTH118
        for entry, is_folder in found
        if entry.startswith(name) and (name or not entry.startswith("."))
    ]


def listed(value: str | None, configured: Sequence[str] | None) -> tuple[str, ...]:
    """Give an option's words: the command line's, else the configuration's, else none."""
    return tuple(configured or ()) if value is None else words(value)


_MOST_RANKS = 1_000_000


def _ranks(_: click.Context, __: click.Parameter, value: str | None) -> frozenset[int] | None:
    if value is None:
        return None
    numbers: set[int] = set()
    for word in words(value):
        first, dash, last = (part.strip() for part in word.partition("-"))
        last = last if dash else first
        if not all(part.isdecimal() and int(part) < _MOST_RANKS for part in (first, last)):
            raise click.BadParameter(f"{value!r} is no list of ranks such as 0,1,3 or 0-3")
        if int(first) > int(last):
            raise click.BadParameter(f"{word!r} ends before it begins")
        numbers.update(range(int(first), int(last) + 1))
    if not numbers:
        raise click.BadParameter(f"{value!r} is no list of ranks such as 0,1,3 or 0-3")
    return frozenset(numbers)


def ranks_option(command: _Command) -> _Command:
    """Add ``--ranks``: a frozenset of numbers, or None."""
    option = click.option(
        "--ranks", metavar="LIST", callback=_ranks, help="Audit these ranks only: 0,1,3 or 0-3."
    )
    return option(command)


_NO_CONFIG = "mirage-gate.no-config"


def _without_config(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_NO_CONFIG] = value


def config_option(command: _Command) -> _Command:
    """Add ``--config`` as ``config_file``, and ``--no-config``."""
    named = click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="Configuration; by default mirage-gate.toml or pyproject.toml is looked for.",
    )
    none = click.option(
        "--no-config",
        is_flag=True,
        expose_value=False,
        callback=_without_config,
        help="Look for no configuration.",
    )
    return named(none(command))


_NO_PROGRESS = "mirage-gate.no-progress"


def _without_progress(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_NO_PROGRESS] = value


def progress_option(command: _Command) -> _Command:
    """Add ``--no-progress``."""
    option = click.option(
        "--no-progress",
        is_flag=True,
        expose_value=False,
        callback=_without_progress,
        help="Show no bar while a long audit goes on at a terminal.",
    )
    return option(command)


def wants_progress() -> bool:
    """Whether a bar may be shown: to somebody at a terminal that can draw one."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_NO_PROGRESS):
        return False
    stream = sys.stderr
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def header_option(command: _Command) -> _Command:
    """Add ``--runtime-header``."""
    option = click.option(
        "--runtime-header",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="A fork's runtime_header.h: its task type codes.",
    )
    return option(command)


def config_path(config_file: str | None) -> Path | None:
    """Give the configuration that was named, or the nearest one, or none."""
    from mirage_gate import config

    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_NO_CONFIG):
        if config_file:
            raise click.UsageError("--config and --no-config exclude each other")
        return None
    try:
        return Path(config_file) if config_file else config.find(Path.cwd())
    except config.ConfigError as error:
        raise Refused(str(error)) from error


def settings_from(config_file: str | None) -> Config:
    """Read the configuration that was named, or the nearest one."""
    from mirage_gate import config

    path = config_path(config_file)
    try:
        return config.load(path) if path else config.Config()
    except config.ConfigError as error:
        raise Refused(str(error)) from error


def severities_from(settings: Config) -> tuple[dict[str, Severity], tuple[str, ...]]:
    """Give the severity of each rule that was set, and the rules that are off."""
    from mirage_gate import config

    try:
        return config.severities(settings)
    except config.ConfigError as error:
        raise Refused(str(error)) from error


def task_types_from(settings: Config, runtime_header: str | None) -> dict[int, TaskType]:
    """Give every known task type: built in, from the header, from the configuration."""
    from mirage_gate import config

    header = runtime_header or settings.runtime_header
    try:
        codes = config.header_codes(Path(header)) if header else None
        return config.task_types(settings, codes)
    except config.ConfigError as error:
        raise Refused(str(error)) from error


def kernels_from(settings: Config) -> dict[str, Kernel]:
    """Give the configured device functions."""
    from mirage_gate import config

    try:
        return config.kernels(settings)
    except config.ConfigError as error:
        raise Refused(str(error)) from error


def rules_in(listed: Sequence[str]) -> tuple[str, ...]:
    """Check that each word names at least one rule: a mistyped one must not switch all off."""
    from mirage_gate.auditing.selection import names
    from mirage_gate.rules import all_rules, rule_by_id

    checked = []
    for word in listed:
        rule = rule_by_id(word)
        known = rule.id if rule else word.upper()
        if not any(names(known, rule.id) for rule in all_rules()):
            raise click.UsageError(f"{word!r} names no rule; `mirage-gate explain` lists them")
        checked.append(known)
    return tuple(checked)


def write(file: str, text: str) -> None:
    """Write a report; what goes wrong is said in a sentence."""
    from mirage_gate.output import write as write_file

    try:
        write_file(Path(file), text)
    except OSError as error:
        raise click.FileError(file, error.strerror or str(error)) from error
    except ValueError as error:
        raise click.FileError(file, "its path holds a zero byte") from error
