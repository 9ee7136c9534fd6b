"""Why a graph was refused: jsonschema's word, with a pointer for each error.

jsonschema is the authority on ``schemas/task_graph.schema.json`` but would take half a
minute for a big graph. The schema is compositional, so only the elements that msgspec
refuses are shown to it: it says of them what it would say of the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from mirage_gate.artifacts.graph import (
    Count,
    Event,
    Graph,
    Malformed,
    RawTask,
    Refusal,
    SchemaError,
    Tensor,
    decode,
    without_collector,
)
from mirage_gate.schema_files import text as schema_text

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

COUNTED = 1000
"""After so many errors the rest is counted by element, not explained."""


class _Object(msgspec.Struct):
    all_events: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    all_tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    first_tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _StrictTask(RawTask):
    """A task whose tensors are decoded too."""

    inputs: Annotated[list[Tensor], msgspec.Meta(max_length=7)] | None  # type: ignore[assignment]
    outputs: Annotated[list[Tensor], msgspec.Meta(max_length=3)] | None  # type: ignore[assignment]


_ELEMENTS: tuple[tuple[str, str, Any], ...] = (
    ("all_events", "event", Event),
    ("all_tasks", "task", _StrictTask),
    ("first_tasks", "count", Count),
)


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text("task-graph"))
    return schema


@cache
def _validator(definition: str) -> Validator:
    from jsonschema import Draft202012Validator

    schema = {"$ref": f"#/$defs/{definition}", "$defs": _schema()["$defs"]}
    validator: Validator = Draft202012Validator(schema)
    return validator


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _integer(digits: str) -> int:
    """Read an integer, exactly up to 40 digits; a longer one only has to stay too large."""
    return int(digits[:41])


def plain(text: bytes) -> Any:
    """Decode JSON into plain Python values, as jsonschema wants them."""
    return json.loads(text.decode("utf-8"), parse_int=_integer, parse_constant=_no_constant)


def show(value: Any) -> str:
    """Say in a few words what stood there."""
    if isinstance(value, dict):
        return f"an object with {len(value)} members" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value)}" if value else "an empty array"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:40]}…{text[-10:]} ({len(text)} characters)"


def _expected(error: Any) -> str:
    """Say what the schema wanted, from one jsonschema error."""
    value = error.validator_value
    match error.validator:
        case "type":
            names = [value] if isinstance(value, str) else list(value)
            return " or ".join("null" if n == "null" else _article(n) for n in names)
        case "required":
            missing = next(n for n in value if n not in error.instance and repr(n) in error.message)
            return f"a member {json.dumps(missing)}"
        case "minimum":
            return f"a number not below {value}"
        case "maximum":
            return f"a number not above {value}"
        case "maxItems":
            return f"at most {value} elements"
    return str(error.message)


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeio" else f"a {name}"


def _errors(definition: str, text: bytes, prefix: tuple[str | int, ...]) -> Iterator[SchemaError]:
    for error in _validator(definition).iter_errors(plain(text)):
        yield SchemaError(
            pointer=(*prefix, *error.absolute_path),
            keyword=str(error.validator),
            expected=_expected(error),
            found=show(error.instance),
        )


@without_collector
def explain(data: bytes) -> Refusal:
    """List what the schema refuses in ``data``, which must be JSON.

    Raises :class:`Malformed` if it is not. An empty list means that the schema accepts it.
    """
    errors: list[SchemaError] = []
    more = 0
    try:
        whole = msgspec.json.decode(data, type=msgspec.Raw)
        top = msgspec.json.decode(data, type=_Object)
    except msgspec.ValidationError:
        return Refusal([SchemaError((), "type", "an object", show(plain(bytes(whole))))], 0)
    except msgspec.DecodeError as error:
        raise malformed(data, error) from error
    present = msgspec.structs.asdict(top)
    for name in sorted(_schema()["required"]):
        if present[name] is msgspec.UNSET:
            errors.append(SchemaError((), "required", f'a member "{name}"', "none of that name"))
    for name, definition, kind in _ELEMENTS:
        raw = present[name]
        if raw is msgspec.UNSET:
            continue
        try:
            elements = msgspec.json.decode(raw, type=list[msgspec.Raw])
        except msgspec.ValidationError:
            errors.append(SchemaError((name,), "type", "an array", show(plain(bytes(raw)))))
            continue
        accepts = msgspec.json.Decoder(kind).decode
        for index, element in enumerate(elements):
            try:
                accepts(element)
            except msgspec.ValidationError:
                if len(errors) >= COUNTED:
                    more += 1
                else:
                    errors.extend(_errors(definition, bytes(element), (name, index)))
    return Refusal(errors, more)


def malformed(data: bytes, error: Exception) -> Malformed:
    """Say where the text stops being JSON. ``error`` is msgspec's, for what only it refuses."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return Malformed(f"byte 0x{data[wrong.start]:02x} is not UTF-8", wrong.start)
    try:
        json.loads(text, parse_int=_integer, parse_constant=_no_constant)
    except json.JSONDecodeError as wrong:
        offset = len(text[: wrong.pos].encode("utf-8"))
        end = len(data.rstrip())
        if offset >= end:
            return Malformed("the text ends too early", end)
        return Malformed(wrong.msg, offset)
    except RecursionError:
        return Malformed("nested too deeply", 0)
    except ValueError as wrong:
        return Malformed(str(wrong), 0)
    return Malformed(str(error), 0)


def explain_or_convert(data: bytes, error: Exception) -> Graph | Refusal:
    """Say why ``data`` was refused with ``error``, or decode it the slow way after all."""
    try:
        if not isinstance(error, msgspec.ValidationError):
            raise malformed(data, error) from error
        refusal = explain(data)
        if refusal.errors:
            return refusal
        return decode(json.dumps(_integral(plain(data))).encode())
    except RecursionError as wrong:
        raise malformed(data, wrong) from wrong


def _integral(value: Any) -> Any:
    """Turn every float without a fraction into an int, throughout."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_integral(element) for element in value]
    if isinstance(value, dict):
        return {key: _integral(element) for key, element in value.items()}
    return value
