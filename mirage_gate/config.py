"""The configuration: ``mirage-gate.toml``, or ``[tool.mirage-gate]`` in ``pyproject.toml``.

What the command line says wins over the file; the file wins over the defaults. Lists are
replaced, not merged. A path in the file is relative to the file. ``schemas/config.schema.json``
says the same to editors, and a test holds the two together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.artifacts.cuda.text import mask
from mirage_gate.facts.task_types import TaskType, built_in, slots, task_type
from mirage_gate.findings import Location, Severity
from mirage_gate.patterns import later
from mirage_gate.report import FailOn

if TYPE_CHECKING:
    from mirage_gate.agreed.waivers import Waiver
    from mirage_gate.facts.signatures.notation import Kernel

_Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Locate = Literal["auto", "artifact", "builder"]
MinSeverity = Literal["error", "warning", "note"]
Weight = Literal["error", "warning", "note", "off"]


_DEEP_KEY = re.compile(
    r"""^[ \t]*\[{0,2}(?:[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.){99}""", re.MULTILINE
)
"""A key of a hundred parts: the parser takes the square of their number."""


class ConfigError(Exception):
    """The configuration cannot be used; the message names the file and the mend."""


class TaskTypeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fork's own task type, or another view of a known one.

    ``code`` may be left out where ``--runtime-header`` or the built-in table has the name.
    ``inputs`` and ``outputs`` are in the access table's notation, such as ``"r rw@ r?"``.
    ``operator`` says what the slots are to each other, such as ``"x[b,k] w[n,k] -> y[b,n]"``.
    """

    name: str
    code: int | None = None
    inputs: str | None = None
    outputs: str | None = None
    operator: str | None = None
    final: bool = False
    collective: bool = False


class KernelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fork's own device function, or another view of a known one.

    ``template`` and ``call`` are its parameters, in order, each a name alone or with what it is of
    the operator's slots, such as ``"T BATCH=b OUT=n STRIDE=y.b"`` and ``"in=x out=y"``;
    ``where`` are equations between them.
    """

    function: str
    template: str = ""
    call: str = ""
    where: str = ""


class WaiverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Findings that are known and accepted, for a reason and perhaps only until a day.

    ``rule`` is an id or a name, ``tensor`` a name or a pattern; the waiver is stale after
    ``expires``.
    """

    rule: str
    reason: str
    tensor: str = "*"
    expires: date | None = None


class WeightsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The checkpoint, and the names that cannot be matched by their words.

    ``names``: a graph's name to the checkpoint's, one or several; ``{layer}`` stands for a
    layer's number in both. ``absent`` are patterns of the checkpoint's names that are not loaded
    on purpose, such as what was multiplied into another weight.
    """

    path: str | None = None
    names: dict[str, str | list[str]] = msgspec.field(default_factory=dict)
    absent: list[str] = msgspec.field(default_factory=list)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Every option a file may set. None means: not set."""

    paths: list[str] | None = None
    output: list[str] | None = None
    critical: list[str] | None = None
    ranks: list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    select: list[str] | None = None
    ignore: list[str] | None = None
    fail_on: FailOn | None = None
    min_severity: MinSeverity | None = None
    severity: dict[str, Weight] = msgspec.field(default_factory=dict)
    lock: str | None = None
    plan: str | None = None
    baseline: str | None = None
    builder: list[str] | None = None
    locate: Locate | None = None
    model_config: str | None = None
    weights: WeightsConfig = WeightsConfig()
    layers: _Count | list[Annotated[int, msgspec.Meta(ge=0, lt=10_000)]] | None = None
    runtime_header: str | None = None
    workers: Annotated[int, msgspec.Meta(ge=1)] | None = None
    jobs: Annotated[int, msgspec.Meta(ge=1)] | None = None
    waivers: list[WaiverConfig] = msgspec.field(default_factory=list)
    task_types: list[TaskTypeConfig] = msgspec.field(default_factory=list)
    kernels: list[KernelConfig] = msgspec.field(default_factory=list)


_PATHS = ("lock", "plan", "baseline", "model_config", "runtime_header")
_PATH_LISTS = ("paths", "builder")


def find(start: Path) -> Path | None:
    """Find the nearest configuration at or above ``start``, not above the git root."""
    for folder in (start, *start.parents):
        own = folder / "mirage-gate.toml"
        if own.is_file():
            return own
        project = folder / "pyproject.toml"
        if project.is_file() and _section(_toml(project)) is not None:
            return project
        if (folder / ".git").exists():
            return None
    return None


def load(path: Path) -> Config:
    """Read one configuration file. Raises :class:`ConfigError`."""
    table = _toml(path)
    if path.name == "pyproject.toml":
        table = _section(table) or {}
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}{_suggestion(str(error))}") from error
    return _anchored(config, path.parent)


def _anchored(config: Config, folder: Path) -> Config:
    """Give every path as seen from the working directory, not from the file that names it."""
    if folder.resolve() == Path.cwd():
        return config

    def anchor(path: str) -> str:
        return str(folder / path)

    changes: dict[str, Any] = {}
    for key in _PATHS:
        if (value := getattr(config, key)) is not None:
            changes[key] = anchor(value)
    for key in _PATH_LISTS:
        if (values := getattr(config, key)) is not None:
            changes[key] = [anchor(value) for value in values]
    if config.weights.path is not None:
        path = anchor(config.weights.path)
        changes["weights"] = msgspec.structs.replace(config.weights, path=path)
    if config.output is not None:
        named = [output.partition("=") for output in config.output]
        changes["output"] = [
            f"{name}={file if file == '-' else anchor(file)}" if file else f"{name}{equals}"
            for name, equals, file in named
        ]
    return msgspec.structs.replace(config, **changes)


def severities(config: Config) -> tuple[dict[str, Severity], tuple[str, ...]]:
    """Give (severity by rule id, ids of the rules that are off). Raises :class:`ConfigError`."""
    from mirage_gate.rules import all_rules, rule_by_id

    weights: dict[str, Severity] = {}
    off: list[str] = []
    for key, weight in config.severity.items():
        rule = rule_by_id(key)
        if rule is None:
            names = [name for known in all_rules() for name in (known.id, known.name)]
            likely = _did_you_mean(key, names) or "; `mirage-gate explain` lists the rules"
            raise ConfigError(f"severity: {key!r} is no rule{likely}")
        if weight == "off":
            off.append(rule.id)
        else:
            weights[rule.id] = Severity(weight)
    return weights, tuple(off)


def _toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        text = files.read_bytes(str(path)).decode("utf-8")
        if _DEEP_KEY.search(text):
            raise ConfigError(f"{path}: nested too deeply")
        return tomllib.loads(text)
    except (OSError, ValueError) as error:  # no TOML, no UTF-8, a number of 5,000 digits
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error


def _section(project: dict[str, Any]) -> Any:
    """Our part of a ``pyproject.toml``; None if it has none."""
    tools = project.get("tool")
    return tools.get("mirage-gate") if isinstance(tools, dict) else None


def _suggestion(message: str) -> str:
    """Offer the key or the word that was probably meant."""
    if key := re.search(r"unknown field `([^`]*)`", message):
        parts = {
            "$.task-types": TaskTypeConfig,
            "$.kernels": KernelConfig,
            "$.waivers": WaiverConfig,
            "$.weights": WeightsConfig,
        }
        struct = next((kind for at, kind in parts.items() if at in message), Config)
        keys = struct.__struct_encode_fields__
        return _did_you_mean(key[1], keys) or f"; there are: {', '.join(keys)}"
    if word := re.search(r"Invalid enum value '([^']*)' - at `\$\.([\w-]+)", message):
        choices = {
            "fail-on": FailOn,
            "min-severity": MinSeverity,
            "locate": Locate,
            "severity": Weight,
        }.get(word[2])
        return f"; it is one of {', '.join(get_args(choices))}"
    return ""


def _did_you_mean(word: str, words: Iterable[str]) -> str:
    from difflib import get_close_matches

    by_lower = {known.lower(): known for known in words}
    close = get_close_matches(word.lower(), list(by_lower), n=1)
    return f"; did you mean `{by_lower[close[0]]}`?" if close else ""


_CONSTANT = later(r"\b(TASK_\w+)\s*=\s*(\d{1,9})\b")


def header_codes(path: Path) -> dict[str, int]:
    """Read the ``TASK_… = N`` constants of a runtime header. Raises :class:`ConfigError`."""
    try:
        text = files.read_bytes(str(path)).decode("utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    codes = {name: int(code) for name, code in _CONSTANT.findall(mask(text))}
    if not codes:
        raise ConfigError(f"{path}: no TASK_… = N constant in it; is it the runtime header?")
    return codes


def _operator(text: str) -> str:
    """Check an operator's notation. Raises :class:`ValueError`."""
    from mirage_gate.facts.signatures.notation import signatures

    signatures(text)
    return text


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
        types[code] = msgspec.structs.replace(task_type(code, name), given=True)
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
                words=known.words if own.name == known.name and own.inputs is None else (),
                operator=known.operator if own.operator is None else _operator(own.operator),
                final=own.final or known.final,
                collective=own.collective or known.collective,
                given=True,
                known=True,
            )
        except ValueError as error:
            raise ConfigError(f"task type {own.name}: {error}") from error
    return types


def kernels(config: Config) -> dict[str, Kernel]:
    """Give the configured device functions, by name. Raises :class:`ConfigError`."""
    if not config.kernels:
        return {}
    from mirage_gate.facts.signatures.notation import kernel

    found = {}
    for own in config.kernels:
        try:
            found[own.function] = kernel(own.template, own.call, own.where)
        except ValueError as error:
            raise ConfigError(f"kernel {own.function}: {error}") from error
    return found


_WAIVERS_TABLE = later(r"^[ \t]*\[\[[ \t]*(?:tool\.mirage-gate\.)?waivers[ \t]*\]\]", re.MULTILINE)
_WAIVERS_KEY = later(r"^[ \t]*(?:waivers)[ \t]*=", re.MULTILINE)


def waivers(
    config: Config, path: str, rules: Sequence[str], *, unfinished: bool = False
) -> list[Waiver]:
    """Give the waivers, each with its place in the file. ``rules`` are their ids, in order.

    One without a reason, as ``waive`` writes it, is not finished. Raises :class:`ConfigError`
    for those, unless they are asked for too.
    """
    configured = config.waivers
    if not configured:
        return []
    from mirage_gate.agreed.waivers import Waiver

    try:
        text = files.read_bytes(path).decode("utf-8", errors="replace")
    except OSError:
        text = ""
    places = [match.span() for match in _WAIVERS_TABLE.finditer(text)]
    if len(places) != len(configured):
        key = _WAIVERS_KEY.search(text)
        places = [key.span() if key else (0, 0)] * len(configured)
    found = []
    for waiver, rule, (start, end) in zip(configured, rules, places, strict=True):
        start += len(text[start:end]) - len(text[start:end].lstrip())
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        at = Location(path, line, column, line, column + max(1, end - start))
        found.append(Waiver(rule, waiver.tensor, waiver.reason, at, waiver.expires))
    if not unfinished and (without := [waiver for waiver in found if not waiver.reason.strip()]):
        raise ConfigError(lacks_reason(without))
    return found


def lacks_reason(waivers: Sequence[Waiver]) -> str:
    """Say of waivers that they are not finished: where, and how to finish them."""
    first = waivers[0]
    more = f", nor do {len(waivers) - 1} more in that file" if len(waivers) > 1 else ""
    place = f"{first.location.path}:{first.location.line}:{first.location.column}"
    return (
        f"{place}: the waiver of {first.rule} for {first.tensor} gives no reason{more}: write "
        'into its `reason = ""` why the finding is accepted, or delete the waiver'
    )
