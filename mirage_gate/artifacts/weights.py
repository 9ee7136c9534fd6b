"""Reading what a checkpoint holds: names, shapes and data types, never the numbers.

Three forms, all of the safetensors library: ``model.safetensors.index.json`` (names and the
file of each), one ``.safetensors`` file (its header: eight bytes that give the length of a
JSON object, and that object), or a folder that has one or the other. The headers are read
here because they are that simple, and because nothing else of a file is wanted: a checkpoint
of 700 GB costs its headers. Files that an index names and that are beside it add shapes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.findings import Location

MOST_HEADER = 100_000_000
"""The library's own bound on a header, in bytes."""

MOST_FILES = 4096

_INDEXES = ("model.safetensors.index.json", "diffusion_pytorch_model.safetensors.index.json")
_SINGLE = ("model.safetensors", "consolidated.safetensors")


class WeightsError(Exception):
    """The checkpoint cannot be used; the message says why."""


class Weight(msgspec.Struct, frozen=True):
    """One tensor of the checkpoint. ``shape`` is None where only the name is known.

    ``dtype`` is the format's word, such as ``BF16``; empty where it is not known.
    """

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""


class Checkpoint(msgspec.Struct, frozen=True):
    """The tensors of one checkpoint, by name in order.

    ``path`` is the file that was read: the index, or the ``.safetensors`` file.
    """

    path: str
    weights: dict[str, Weight]

    def place(self) -> Location:
        """Point at the checkpoint."""
        return Location(self.path, 1, 1, 1, 1)

    @property
    def shaped(self) -> int:
        """How many have a shape."""
        return sum(weight.shape is not None for weight in self.weights.values())


def read(path: str) -> Checkpoint:
    """Read an index, a ``.safetensors`` file, or a folder. Raises :class:`WeightsError`."""
    place = Path(path)
    try:
        if place.is_dir():
            return _folder(place)
        if place.name.endswith(".json"):
            return _index(place)
        return _merged(place, [place])
    except OSError as error:
        raise WeightsError(f"{error.filename or path}: {error.strerror or error}") from error
    except MemoryError as error:
        raise WeightsError(f"{path}: too big to be read") from error


def _folder(folder: Path) -> Checkpoint:
    for name in _INDEXES:
        if (folder / name).is_file():
            return _index(folder / name)
    indexes = sorted(folder.glob("*.safetensors.index.json"))
    if len(indexes) == 1:
        return _index(indexes[0])
    for name in _SINGLE:
        if (folder / name).is_file():
            return _merged(folder / name, [folder / name])
    found = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    if not found:
        raise WeightsError(
            f"{folder}: no checkpoint: neither *.safetensors.index.json nor *.safetensors in it"
        )
    return _merged(folder, found)


def _merged(path: Path, found: list[Path]) -> Checkpoint:
    weights: dict[str, Weight] = {}
    for file in found[:MOST_FILES]:
        for weight in _header(file):
            weights[weight.name] = weight
    if not weights:
        raise WeightsError(f"{path}: no checkpoint: it holds no tensor")
    return Checkpoint(str(path), weights)


def _index(file: Path) -> Checkpoint:
    document = _object(file, files.read_bytes(str(file)))
    mapped = document.get("weight_map")
    if not isinstance(mapped, dict) or not mapped:
        raise WeightsError(f"{file}: no index of a checkpoint: it has no weight_map")
    weights = {name: Weight(name) for name in mapped}
    shards = {shard for shard in mapped.values() if isinstance(shard, str)}
    if not all(map(_plain, shards)):
        raise WeightsError(f"{file}: its weight_map names a file outside its folder")
    for shard in sorted(shards)[:MOST_FILES]:
        beside = file.parent / shard
        if beside.suffix == ".safetensors" and beside.is_file():
            for weight in _header(beside):
                if mapped.get(weight.name) == shard:
                    weights[weight.name] = weight
    return Checkpoint(str(file), weights)


def _plain(name: str) -> bool:
    """Whether a name is of a file in the same folder."""
    return bool(name) and "\0" not in name and Path(name).name == name and "\\" not in name


def _header(file: Path) -> Iterator[Weight]:
    """Read the header of one ``.safetensors`` file."""
    try:
        with files.open_regular(str(file)) as opened:
            size = file.stat().st_size
            start = _exactly(opened, 8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(MOST_HEADER, size - 8):
                raise WeightsError(f"{file}: no safetensors file: its header has no such length")
            text = _exactly(opened, length)
    except files.Unreadable as error:
        raise WeightsError(f"{file}: {error}") from error
    if len(text) < length:
        raise WeightsError(f"{file}: no safetensors file: its header is cut off")
    if not text.startswith(b"{"):
        raise WeightsError(f"{file}: no safetensors file: its header is no object")
    for name, entry in _object(file, text).items():
        if name == "__metadata__":
            continue
        yield _weight(file, name, entry)


def _exactly(opened: Any, length: int) -> bytes:
    """Read so many bytes from an unbuffered file, which may give fewer at a time."""
    parts: list[bytes] = []
    left = length
    while left:
        part = opened.read(left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _weight(file: Path, name: str, entry: Any) -> Weight:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    dtype = entry.get("dtype") if isinstance(entry, dict) else None
    if not isinstance(dtype, str) or not isinstance(shape, list) or not all(map(_extent, shape)):
        raise WeightsError(f"{file}: no safetensors file: {name!r} has no dtype and shape")
    return Weight(name, tuple(shape), dtype)


def _extent(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _object(file: Path, text: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WeightsError(f"{file}: no JSON: {error}") from error
    if not isinstance(document, dict):
        raise WeightsError(f"{file}: no checkpoint: an object is expected")
    return document
