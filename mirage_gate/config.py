"""The configuration: ``mirage-gate.toml``, or ``[tool.mirage-gate]`` in ``pyproject.toml``.

What the command line says wins over the file; the file wins over the defaults. Lists are
replaced, not merged.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from mirage_gate.artifacts.cuda import mask
from mirage_gate.facts.task_types import TaskType, built_in, slots, task_type
from mirage_gate.findings import Severity
from mirage_gate.report import FailOn

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the mend."""


class TaskTypeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fork's own task type, or another view of a known one.

    ``code`` may be left out where ``--runtime-header`` or the built-in table has the name.
    ``inputs`` and ``outputs`` are in the access table's notation, such as ``"r rw@ r?"``.
    """

    name: str
    code: int | None = None
    inputs: str | None = None
    outputs: str | None = None
    final: bool = False
    collective: bool = False


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Every option a file may set. None means: not set."""

    paths: list[str] | None = None
    critical: list[str] | None = None
    ranks: list[int] | None = None
    select: list[str] | None = None
    ignore: list[str] | None = None
    fail_on: FailOn | None = None
    severity: dict[str, Severity] = msgspec.field(default_factory=dict)
    runtime_header: str | None = None
    workers: int | None = None
    task_types: list[TaskTypeConfig] = msgspec.field(default_factory=list)


def find(start: Path) -> Path | None:
    """Find the nearest configuration at or above ``start``, not above the git root."""
    for folder in (start, *start.parents):
        own = folder / "mirage-gate.toml"
        if own.is_file():
            return own
        project = folder / "pyproject.toml"
        if project.is_file() and "mirage-gate" in _toml(project).get("tool", {}):
            return project
        if (folder / ".git").exists():
            return None
    return None


def load(path: Path) -> Config:
    """Read one configuration file. Raises :class:`ConfigError`."""
    table = _toml(path)
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("mirage-gate", {})
    try:
        return msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}{_suggestion(str(error))}") from error


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _suggestion(message: str) -> str:
    """Offer the key that was probably meant."""
    wrong = re.search(r"unknown field `([^`]*)`", message)
    if not wrong:
        return ""
    from difflib import get_close_matches

    structs = (TaskTypeConfig,) if "task-types" in message else (Config,)
    keys = [key for struct in structs for key in struct.__struct_encode_fields__]
    close = get_close_matches(wrong[1], keys, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; there are: {', '.join(keys)}"


_CONSTANT = re.compile(r"\b(TASK_\w+)\s*=\s*(\d{1,9})\b")


def header_codes(path: Path) -> dict[str, int]:
    """Read the ``TASK_… = N`` constants of a runtime header. Raises :class:`ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    codes = {name: int(code) for name, code in _CONSTANT.findall(mask(text))}
    if not codes:
        raise ConfigError(f"{path}: no TASK_… = N constant in it; is it the runtime header?")
    return codes


def task_types(config: Config, codes: dict[str, int] | None = None) -> dict[int, TaskType]:
    """Combine the built-in types, a runtime header's codes and the configured types.

    A header moves a known name to its own code. Raises :class:`ConfigError`.
    """
    types = dict(built_in())
    names = {kind.name: code for code, kind in types.items()}
    for name, code in (codes or {}).items():
        if name in names:
            types.pop(names[name], None)
        names[name] = code
    for name, code in (codes or {}).items():
        types[code] = task_type(code, name)
    for own in config.task_types:
        code = own.code if own.code is not None else names.get(own.name, -1)
        if code < 0:
            raise ConfigError(f"task type {own.name} has no code: give `code`, or --runtime-header")
        known = types.get(code) or task_type(code, own.name)
        try:
            types[code] = msgspec.structs.replace(
                known,
                name=own.name,
                inputs=known.inputs if own.inputs is None else slots(own.inputs),
                outputs=known.outputs if own.outputs is None else slots(own.outputs),
                final=own.final or known.final,
                collective=own.collective or known.collective,
            )
        except ValueError as error:
            raise ConfigError(f"task type {own.name}: {error}") from error
    return types
