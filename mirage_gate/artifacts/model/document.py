"""One ``config.json`` as a document: the part that describes the text model, and its keys."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.findings import Location
from mirage_gate.patterns import later

MOST_LAYERS = 10_000

_INNER = ("text_config", "language_config", "llm_config", "thinker_config", "decoder")
"""Where a configuration of several models keeps the language model's."""

_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


class ModelConfigError(Exception):
    """The file cannot be used; the message says why."""


class Keys:
    """The keys of one object, read by name; ``used`` are those that somebody asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self.used: set[str] = set()

    def __iter__(self) -> Any:
        return iter(self._values)

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._get(key) is not None

    def _get(self, key: str) -> Any:
        value = self._values.get(key)
        if value is not None:
            self.used.add(key)
        return value

    def text(self, key: str) -> str:
        """Give a string, empty if it is none."""
        value = self._get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool | None:
        """Give true or false, None if it is neither."""
        value = self._get(key)
        return value if isinstance(value, bool) else None

    def number(self, *keys: str) -> int | None:
        """Give the first positive whole number among some keys."""
        for key in keys:
            value = self._get(key)
            if _whole(value) and 0 < value < 1 << 40:
                return int(value)
        return None

    def counted(self, key: str) -> int | None:
        """Give a whole number from 0 on."""
        value = self._get(key)
        return int(value) if _whole(value) and 0 <= value < 1 << 40 else None

    def real(self, *keys: str) -> float | None:
        """Give the first positive number among some keys."""
        for key in keys:
            value = self._get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
                try:
                    return float(value)
                except OverflowError:
                    continue
        return None

    def numbers(self, key: str) -> list[int] | None:
        """Give a list of whole numbers; true and false count as 1 and 0."""
        value = self._get(key)
        if isinstance(value, list) and all(isinstance(entry, int) for entry in value):
            return [int(entry) for entry in value]
        return None

    def words(self, key: str) -> list[str] | None:
        """Give a list of strings."""
        value = self._get(key)
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return value
        return None

    def objects(self, key: str) -> list[Keys] | None:
        """Give a list of objects."""
        value = self._get(key)
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            return [Keys(entry) for entry in value]
        return None

    def inner(self, key: str) -> Keys:
        """Give an object; an empty one if it is none."""
        value = self._get(key)
        return Keys(value if isinstance(value, dict) else {})


class Document(msgspec.Struct, frozen=True):
    """A file that describes a model. ``keys`` are the text model's, ``outer`` the file's own."""

    path: str
    text: str
    keys: Keys
    outer: Keys
    layers: int


def load(path: str) -> Document:
    """Read one file. Raises :class:`ModelConfigError`."""
    try:
        text = files.read_bytes(path).decode("utf-8-sig")
        document = json.loads(text)
    except OSError as error:
        raise ModelConfigError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{path}: no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ModelConfigError(f"{path}: no config.json of a model: an object is expected")
    values = _text_model(document)
    keys = Keys(values)
    outer = keys if values is document else Keys(document)
    layers = keys.number(*_COUNTS) or _listed(keys)
    if layers is None or layers > MOST_LAYERS:
        raise ModelConfigError(f"{path}: no config.json of a model: it has no num_hidden_layers")
    return Document(path, text, keys, outer, layers)


def _listed(keys: Keys) -> int | None:
    """Count the layers of a configuration that spells them out instead (Nemotron-H)."""
    return len(keys.text("hybrid_override_pattern")) or None


def _text_model(document: dict[str, Any]) -> dict[str, Any]:
    """Find the object that describes the language model, at most three levels down."""
    values = document
    for _ in range(3):
        if any(_whole(values.get(key)) for key in _COUNTS):
            return values
        inner = next((values[key] for key in _INNER if isinstance(values.get(key), dict)), None)
        if inner is None:
            break
        values = inner
    return values if values is not document and any(values.get(k) for k in _COUNTS) else document


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KEY = later(r'"(?:[^"\\]|\\.)*"(?=\s*:)')


def places(document: Document) -> dict[str, Location]:
    """Give the place where each key stands first, in one pass over the text."""
    wanted = {json.dumps(key): key for key in (*document.outer, *document.keys)}
    inner = document.keys is not document.outer
    found: dict[str, Location] = {}
    line, start = 1, 0
    for match in _KEY.finditer(document.text):
        key = wanted.get(match[0])
        # Of a nested configuration the text model's own mention counts: it comes later or alone.
        if key is None or (key in found and not inner):
            continue
        line += document.text.count("\n", start, match.start())
        start = match.start()
        column = start - document.text.rfind("\n", 0, start)
        end = column + len(match[0])
        found.setdefault(
            key, Location(document.path, line, column, line, end, note=f"{key} stands here")
        )
    return found
