"""The terms of audits that are asked for from Python: a configuration, and what is said over it.

What the command line does with its words, :func:`terms` does with keyword arguments; what
cannot be used is a :class:`ValueError` that says so in a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from mirage_gate import config as configs
from mirage_gate.agreed.memory import Memory
from mirage_gate.auditing.selection import Selection
from mirage_gate.config import Config, Locate
from mirage_gate.facts import Options
from mirage_gate.facts.critical import Critical
from mirage_gate.report import FailOn

if TYPE_CHECKING:
    from mirage_gate.agreed.baseline import Baseline
    from mirage_gate.agreed.lock import Locked
    from mirage_gate.agreed.waivers import Waiver
    from mirage_gate.artifacts.builder import Builder

AnyPath: TypeAlias = "str | os.PathLike[str] | None"
Strings: TypeAlias = "str | Sequence[str] | None"
Builders: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
Waivers: TypeAlias = "Iterable[Waiver | Mapping[str, Any]]"
"""Each as in a configuration: ``rule``, ``reason`` and, if wanted, ``tensor`` and ``expires``."""


class Terms(msgspec.Struct, frozen=True):
    """What graphs are held to."""

    options: Options
    selection: Selection
    memory: Memory
    fail_on: FailOn
    builders: tuple[Builder, ...]
    locate: Locate


def terms(
    *,
    critical: Strings = None,
    select: Strings = None,
    ignore: Strings = None,
    fail_on: FailOn | None = None,
    lock: AnyPath = None,
    baseline: AnyPath = None,
    waivers: Waivers = (),
    builder: Builders = (),
    locate: Locate | None = None,
    model_config: AnyPath = None,
    weights: AnyPath = None,
    runtime_header: AnyPath = None,
    workers: int | None = None,
    config: AnyPath = None,
    nearest: bool = False,
) -> Terms:
    """Read what is named, and give the terms. ``nearest``: look for a configuration if none is.

    Raises :class:`ValueError`.
    """
    try:
        path = Path(config) if config else configs.find(Path.cwd()) if nearest else None
        settings = configs.load(path) if path else Config()
        header = runtime_header or settings.runtime_header
        codes = configs.header_codes(Path(header)) if header else None
        types = configs.task_types(settings, codes)
        severities, off = configs.severities(settings)
    except configs.ConfigError as error:
        raise ValueError(str(error)) from error
    chosen = words(select) if select is not None else tuple(settings.select or ())
    ignored = words(ignore) if ignore is not None else tuple(settings.ignore or ())
    names = words(critical) if critical is not None else tuple(settings.critical or ())
    bar = fail_on or settings.fail_on or "error"
    if bar not in ("error", "warning", "note", "never"):
        raise ValueError(f"fail_on={bar!r} is none of error, warning, note, never")
    return Terms(
        options=Options(
            critical=Critical.of(names),
            task_types=types,
            kernels=configs.kernels(settings),
            workers=workers or settings.workers or 0,
            **_meant(settings, model_config, weights),
        ),
        selection=_selection(_ids(chosen), (*_ids(ignored), *off), severities),
        memory=Memory(
            lock=_lock(lock or settings.lock),
            waivers=(*_configured(settings, path), *map(_waiver, waivers)),
            baseline=_baseline(baseline or settings.baseline),
        ),
        fail_on=bar,
        builders=_builders(builder or settings.builder or ()),
        locate=locate or settings.locate or "auto",
    )


def words(value: Strings) -> tuple[str, ...]:
    """Take a list, or one text with commas as on the command line."""
    if value is None:
        return ()
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(word for word in (part.strip() for part in parts) if word)


def _ids(listed: Sequence[str]) -> tuple[str, ...]:
    from mirage_gate.rules import rule_by_id

    return tuple(rule.id if (rule := rule_by_id(word)) else word.upper() for word in listed)


def _selection(
    select: tuple[str, ...], ignore: tuple[str, ...], severities: Mapping[str, Any]
) -> Selection:
    from mirage_gate.findings import INPUT
    from mirage_gate.rules import all_rules

    selection = Selection(select, ignore, dict(severities))
    left = any(selection.wants(rule.id) for rule in all_rules() if rule.family != INPUT)
    if not left and not any(word.startswith(INPUT) for word in select):
        raise ValueError("every rule that is selected is ignored as well: nothing is left")
    return selection


def _lock(path: AnyPath) -> Locked | None:
    if not path:
        return None
    from mirage_gate.agreed import lock

    try:
        return lock.read(os.fspath(path))
    except lock.NotALock as error:
        raise ValueError(f"{path} {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error


def _baseline(path: AnyPath) -> Baseline | None:
    if not path:
        return None
    from mirage_gate.agreed import baseline

    try:
        return baseline.read(os.fspath(path))
    except baseline.NotAReport as error:
        raise ValueError(f"{path} {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error


def _meant(settings: Config, model_config: AnyPath, weights: AnyPath) -> dict[str, Any]:
    """What is said of the model, as the options have it."""
    from mirage_gate.artifacts import model
    from mirage_gate.artifacts import weights as checkpoints

    config_path = model_config or settings.model_config
    weights_path = weights or settings.weights.path
    listed = settings.layers
    layers = (
        None if listed is None else frozenset(range(listed) if isinstance(listed, int) else listed)
    )
    try:
        config = model.read(os.fspath(config_path)) if config_path else None
        checkpoint = checkpoints.read(os.fspath(weights_path)) if weights_path else None
    except (model.ModelConfigError, checkpoints.WeightsError) as error:
        raise ValueError(str(error)) from error
    if layers is not None and (config is None or max(layers, default=0) >= config.layers):
        raise ValueError("layers: says which of the model's, and the model config has no such")
    return {
        "model": config,
        "checkpoint": checkpoint,
        "layers": layers,
        "weight_names": {
            graph: (names,) if isinstance(names, str) else tuple(names)
            for graph, names in settings.weights.names.items()
        },
        "weights_absent": tuple(settings.weights.absent),
    }


def _builders(paths: Builders) -> tuple[Builder, ...]:
    if not paths:
        return ()
    from mirage_gate.artifacts import builder

    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    try:
        return tuple(builder.read(os.fspath(path)) for path in named)
    except builder.BuilderError as error:
        raise ValueError(str(error)) from error


def _configured(settings: Config, path: Path | None) -> list[Waiver]:
    rules = [_rule(waiver.rule) for waiver in settings.waivers]
    try:
        return configs.waivers(settings, str(path or ""), rules)
    except configs.ConfigError as error:
        raise ValueError(str(error)) from error


def _waiver(given: Waiver | Mapping[str, Any]) -> Waiver:
    """Read a waiver that Python gives; it stands in no file that a report could point at."""
    from mirage_gate.agreed.waivers import Waiver
    from mirage_gate.findings import Location

    if isinstance(given, Waiver):
        return given
    try:
        read = msgspec.convert(dict(given), configs.WaiverConfig)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise ValueError(f"waivers: {given!r} is no waiver: {error}") from error
    rule = _rule(read.rule)
    if not read.reason.strip():
        raise ValueError(f"waivers: the waiver of {rule} for {read.tensor} gives no reason")
    expires: date | None = read.expires
    at = Location("waivers", 1, 1, 1, 1)
    return Waiver(rule, read.tensor, read.reason, at, expires)


def _rule(word: str) -> str:
    from mirage_gate.rules import rule_by_id

    rule = rule_by_id(word)
    if rule is None:
        raise ValueError(f"waivers: {word!r} is no rule's id or name")
    return rule.id
