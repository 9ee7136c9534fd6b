"""What a run is set to, printed as a configuration that sets it so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec

from mirage_gate.commands import _common
from mirage_gate.config import Config, KernelConfig, TaskTypeConfig, WaiverConfig, WeightsConfig

_DEFAULTS = {
    "paths": ["."],
    "output": ["text"],
    "fail-on": "error",
    "locate": "auto",
    "min-severity": "note",
}
_TABLES = ("severity", "waivers", "task-types", "kernels", "weights")


def shown(settings: Config, config_file: str | None, given: Mapping[str, Any]) -> str:
    """Give every setting as a line of TOML, and where it is set.

    ``given`` is what the command line says, by the configuration's keys.
    """
    path = _common.config_path(config_file)
    return "\n".join([f"# configuration: {path or 'none'}", *_lines(settings, given, str(path))])


def _lines(settings: Config, given: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, key in zip(Config.__struct_fields__, Config.__struct_encode_fields__, strict=True):
        if key in _TABLES:
            continue
        value, source = getattr(settings, name), path
        if given.get(key):
            value, source = given[key], "the command line"
        elif value is None:
            value, source = _DEFAULTS.get(key), "by default"
        yield f"# {key}: not set" if value is None else f"{key} = {_value(value)}  # {source}"
    if settings.severity:
        yield "\n[severity]"
        yield from (
            f"{_value(rule)} = {_value(weight)}" for rule, weight in settings.severity.items()
        )
    weights = settings.weights
    if given.get("weights"):
        weights = msgspec.structs.replace(weights, path=given["weights"])
    if weights != WeightsConfig():
        yield "\n[weights]"
        yield from _table(weights)
    for waiver in settings.waivers:
        yield "\n[[waivers]]"
        yield from _table(waiver)
    for kind in settings.task_types:
        yield "\n[[task-types]]"
        yield from _table(kind)
    for kernel in settings.kernels:
        yield "\n[[kernels]]"
        yield from _table(kernel)


def _table(
    struct: WaiverConfig | TaskTypeConfig | KernelConfig | WeightsConfig,
) -> Iterator[str]:
    for key, value in msgspec.structs.asdict(struct).items():
        if value is not None:
            yield f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    """A value of TOML: its strings, numbers and lists are JSON's, its dates stand bare."""
    if isinstance(value, frozenset):
        return json.dumps(sorted(value))
    if isinstance(value, dict):
        inner = (f"{_value(key)} = {_value(entry)}" for key, entry in value.items())
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, (str, bool, int, list, tuple)):
        # Bytes of a path that are no characters have no name in TOML.
        return json.dumps(value).encode("ascii", "backslashreplace").decode()
    return str(value)


def words(value: str | None) -> list[str] | None:
    """Give an option's words as the configuration has them."""
    return None if value is None else list(_common.words(value))


def say(settings: Config, config_file: str | None, given: Mapping[str, Any]) -> int:
    """Print the settings of a run."""
    click.echo(shown(settings, config_file, given))
    return 0
