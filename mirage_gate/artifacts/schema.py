"""Why a graph was refused: jsonschema's word, with a pointer for each error.

jsonschema is the authority on ``schemas/task_graph.schema.json`` but would take half a
minute for a big graph. The schema is compositional, so only the elements that msgspec
refuses are shown to it: it says of them what it would say of the whole.

What it accepts after all is decoded after all. To JSON Schema ``1.0`` is an integer, and of
a repeated key only the last one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from mirage_gate.artifacts.decode import (
    MOST_INPUTS,
    MOST_OUTPUTS,
    EventObject,
    TaskOfOld,
    TaskText,
    decode,
)
from mirage_gate.artifacts.graph import (
    ABSENT,
    Count,
    Event,
    Graph,
    Malformed,
    Refusal,
    SchemaError,
    Tensor,
)
from mirage_gate.artifacts.positions import BRACKET_OR_STRING, Lines
from mirage_gate.schema_files import text as schema_text

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

COUNTED = 1000
"""After so many errors the rest is counted by element, not explained."""

MOST_BYTES = 1 << 20
"""An element longer than this is not explained. A task has some thousand bytes."""

DEEP = 100
"""A text that is nested too deeply for its reader is so at the first bracket below this many."""

DIGITS = 40


class _Object(msgspec.Struct):
    all_events: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    all_tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    first_tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_Inputs = Annotated[list[Tensor], msgspec.Meta(max_length=MOST_INPUTS)]
_Outputs = Annotated[list[Tensor], msgspec.Meta(max_length=MOST_OUTPUTS)]

_ELEMENTS: tuple[tuple[str, str, Any], ...] = (
    ("all_events", "event", Event),
    ("all_tasks", "task", TaskText[_Inputs | None, _Outputs | None]),
    ("first_tasks", "count", Count),
)


_accepts_old = msgspec.json.Decoder(TaskOfOld[_Inputs | None, _Outputs | None]).decode


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
    return int(digits[: DIGITS + 1])


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
    if isinstance(value, int) and len(text) > DIGITS:
        return f"{text[:20]}…"
    return text if len(text) <= 60 else f"{text[:40]}…{text[-10:]} ({len(text)} characters)"


def _expected(error: Any) -> str:
    """Say what the schema wanted, from one jsonschema error."""
    value = error.validator_value
    match error.validator:
        case "type":
            # Only emitters of old wrote an object where a number stands.
            names = [value] if isinstance(value, str) else [n for n in value if n != "object"]
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


def _errors(definition: str, value: Any, prefix: tuple[str | int, ...]) -> Iterator[SchemaError]:
    for error in _validator(definition).iter_errors(value):
        yield SchemaError(
            pointer=(*prefix, *error.absolute_path),
            keyword=str(error.validator),
            expected=_expected(error),
            found=show(error.instance),
        )


def _wrong_type(name: str, wanted: str, text: msgspec.Raw) -> SchemaError:
    """Say that a whole array, or the whole file, is something else."""
    opening = bytes(memoryview(text)[:1])
    shallow = {b"{": dict[str, msgspec.Raw], b"[": list[msgspec.Raw]}.get(opening)
    value = msgspec.json.decode(text, type=shallow) if shallow else plain(bytes(text))
    return SchemaError((name,) if name else (), "type", wanted, show(value))


def explain(data: bytes) -> Refusal | Graph:
    """List what the schema refuses in ``data``; if that is nothing, give the graph."""
    errors: list[SchemaError] = []
    more = 0
    relative = False
    whole = msgspec.json.decode(data, type=msgspec.Raw)
    try:
        top = msgspec.structs.asdict(msgspec.json.decode(data, type=_Object))
    except msgspec.ValidationError:
        return Refusal([_wrong_type("", "an object", whole)], 0)
    for name in sorted(_schema()["required"]):
        if top[name] is msgspec.UNSET:
            errors.append(SchemaError((), "required", f'a member "{name}"', "none of that name"))
    parts: list[bytes] = []
    for name, definition, kind in _ELEMENTS:
        if top[name] is msgspec.UNSET:
            continue
        try:
            elements = msgspec.json.decode(top[name], type=list[msgspec.Raw])
        except msgspec.ValidationError:
            errors.append(_wrong_type(name, "an array", top[name]))
            continue
        accepts = msgspec.json.Decoder(kind).decode
        for index, element in enumerate(elements):
            try:
                accepts(element)
                continue
            except msgspec.ValidationError:
                pass
            if name == "all_tasks" and (old := _of_old(element)):
                elements[index], relative = old, True
                continue
            if len(errors) >= COUNTED:
                more += 1
                continue
            size = memoryview(element).nbytes
            if size > MOST_BYTES:
                found = f"one of {size} bytes, which were not looked at"
                errors.append(SchemaError((name, index), definition, f"a {definition}", found))
                continue
            value = plain(bytes(element))
            before = len(errors)
            errors.extend(_errors(definition, value, (name, index)))
            if len(errors) == before:
                elements[index] = msgspec.Raw(json.dumps(_integral(value)).encode())
        if not errors:
            parts.append(b'"%b":[%b]' % (name.encode(), b",".join(elements)))
    if errors:
        return Refusal(errors, more)
    graph = decode(b"{%b}" % b",".join(parts))
    return msgspec.structs.replace(graph, relative=relative)


def _of_old(element: msgspec.Raw) -> msgspec.Raw | None:
    """Write the event ids of a task as numbers, if they are objects."""
    try:
        task = _accepts_old(element)
    except msgspec.ValidationError:
        return None
    for field in ("dependent_event", "trigger_event"):
        event = getattr(task, field)
        if isinstance(event, EventObject):
            setattr(task, field, event.number())
    fields = msgspec.structs.asdict(task)
    kept = {name: value for name, value in fields.items() if value != ABSENT}
    return msgspec.Raw(msgspec.json.encode(kept))


_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")


def malformed(path: str, data: bytes, error: Exception) -> Malformed:
    """Say where the text stops being JSON. ``error`` is what reading it raised."""
    message, at = str(error), 0
    end = len(data.rstrip(b" \t\r\n"))
    if isinstance(error, UnicodeDecodeError):
        message, at = f"byte 0x{data[error.start]:02x} is not UTF-8", error.start
    elif isinstance(error, RecursionError):
        message, at = "nested too deeply", _deep(data)
    elif found := _BYTE.match(message):
        message, at = found[1], int(found[2])
        if message == "trailing characters":
            at -= 1  # msgspec has gone past the first of them
        elif data[at - 2 : at - 1].isalpha() and data[at - 1 : at] == b"\n":
            at -= 1  # and past a word that is none, onto the next line
    else:
        at = end
    if at >= end:
        message, at = "the text ends too early", end
    return Malformed(message, at, Lines(path, data).location(at, at))


def _deep(data: bytes) -> int:
    depth = 0
    for token in BRACKET_OR_STRING.finditer(data):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        if depth > DEEP:
            return token.start()
    return 0


def explain_or_convert(path: str, data: bytes, error: Exception) -> Graph | Refusal:
    """Say why ``data`` was refused with ``error``, or decode it the slow way after all.

    Raises :class:`Malformed` if it is no JSON.
    """
    try:
        if isinstance(error, msgspec.ValidationError):
            return explain(data)
    except (msgspec.DecodeError, RecursionError) as worse:
        error = worse  # further down in the text it is no JSON either
    raise malformed(path, data, error) from error


def _integral(value: Any) -> Any:
    """Turn every float without a fraction into an int; the others are in fields nobody reads."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, list):
        return [_integral(element) for element in value]
    if isinstance(value, dict):
        return {key: _integral(element) for key, element in value.items()}
    return value
