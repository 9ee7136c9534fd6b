"""Reading ``provenance_N.json``: the Python line of every tensor and operator of a rank.

``mirage-gate run`` and :func:`mirage_gate.guard` write it beside the pair, while the builder
runs. It is known to belong to a pair by the digest of the ``.cu`` and the size of the graph.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mirage_gate.artifacts import files, pairs
from mirage_gate.findings import Location

VERSION = 1


class NotAProvenance(Exception):
    """A file that cannot be used; the message goes on after its path."""


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call in the builder: ``file`` is an index into the files, columns count characters.

    A Python that does not tell columns (3.10) leaves them 0.
    """

    file: int
    line: int
    function: str
    column: int = 0
    end_line: int = 0
    end_column: int = 0


class TensorMade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor: its name in the ``.cu``, the call that named it, where, and in which layer."""

    name: str
    call: str
    stack: int
    layer: int | None = None


class OperatorMade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator: the builder's call, MPK's word for the task, the tensors it was given.

    Its tasks are ``first_task`` and the ``tasks`` - 1 after it; -1 where that is not known.
    """

    call: str
    task: str
    stack: int
    first_task: int = -1
    tasks: int = 0
    layer: int | None = None
    tensors: tuple[str | None, ...] = ()


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tells a pair from another build's: compared before a provenance is believed."""

    cuda_bytes: int
    cuda_sha256: str
    graph_bytes: int


class Assertion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An assert of MPK's generator that did not hold and that a Release build leaves out."""

    file: str
    line: int
    expression: str
    times: int = 1


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """All of one rank. A stack lists frames from the call itself to its outermost caller."""

    version: int
    rank: int
    world_size: int
    pair: Pair
    files: tuple[str, ...]
    stacks: tuple[tuple[Frame, ...], ...]
    tensors: tuple[TensorMade, ...]
    operators: tuple[OperatorMade, ...]
    asserts: tuple[Assertion, ...] = ()

    def tensor(self, name: str) -> TensorMade | None:
        """Who named a tensor: the first, where several calls did."""
        known: dict[str, TensorMade] | None = self.__dict__.get("_by_name")
        if known is None:
            known = {}
            for made in self.tensors:
                known.setdefault(made.name, made)
            self.__dict__["_by_name"] = known
        return known.get(name)

    def operator(self, task: int) -> OperatorMade | None:
        """Which operator a task is of, where that is known."""
        placed: list[OperatorMade] | None = self.__dict__.get("_by_task")
        if placed is None:
            placed = sorted(
                (made for made in self.operators if made.first_task >= 0 and made.tasks),
                key=lambda made: made.first_task,
            )
            self.__dict__["_by_task"] = placed
        at = bisect.bisect_right(placed, task, key=lambda made: made.first_task) - 1
        if at < 0 or task >= placed[at].first_task + placed[at].tasks:
            return None
        return placed[at]

    def places(self, stack: int, root: str = "") -> list[Location]:
        """Where the frames of a stack are, the call itself first; files below ``root``."""
        return [
            Location(
                os.path.join(root, self.files[frame.file]),  # noqa: PTH118 - a path as text
                frame.line,
                max(frame.column, 1),
                max(frame.end_line, frame.line),
                max(frame.end_column, 1),
            )
            for frame in self.stacks[stack]
        ]


def name(rank: int) -> str:
    """The file's name beside the pair, as MPK names a rank's files."""
    return f"provenance_{rank}.json"


def beside(cuda_path: str) -> str:
    """Where a pair's provenance would be: in its folder, whatever name family the pair has."""
    folder, file = os.path.split(cuda_path)
    found = pairs.match(file)
    return os.path.join(folder, name(found[2] if found else 0))  # noqa: PTH118


def of_pair(cuda: bytes, graph_bytes: int) -> Pair:
    """What tells this pair from others. ``compile`` adds code to the ``.cu`` it writes."""
    return Pair(len(cuda), _sha256(cuda), graph_bytes)


def _sha256(data: bytes) -> str:
    import hashlib  # loads OpenSSL, and most pairs have no provenance

    return hashlib.sha256(data).hexdigest()


def belongs(made: Provenance, cuda_path: str, graph_path: str) -> bool:
    """Whether the pair on disk is the one that was emitted with this provenance."""
    try:
        if os.stat(graph_path).st_size != made.pair.graph_bytes:  # noqa: PTH116
            return False
        text = files.read(cuda_path)
    except (OSError, ValueError, files.Unreadable):
        return False
    start = text[: made.pair.cuda_bytes]
    return _sha256(start) == made.pair.cuda_sha256


def decode(text: bytes) -> Provenance:
    """Read a provenance from its bytes. Raises :class:`NotAProvenance`."""
    try:
        made = msgspec.json.decode(text, type=Provenance)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotAProvenance(f"is no provenance: {error}") from error
    if made.version != VERSION:
        raise NotAProvenance(f"is of version {made.version}, and this gate reads {VERSION}")
    _check_indexes(made)
    return made


def _check_indexes(made: Provenance) -> None:
    for stack in made.stacks:
        if not stack:
            raise NotAProvenance("is no provenance: a stack is empty")
        for frame in stack:
            if not 0 <= frame.file < len(made.files) or frame.line < 1:
                raise NotAProvenance("is no provenance: a frame names no line of its files")
    stacks = {tensor.stack for tensor in made.tensors}
    stacks |= {operator.stack for operator in made.operators}
    for stack_number in stacks:
        if not 0 <= stack_number < len(made.stacks):
            raise NotAProvenance(f"is no provenance: it has no stack {stack_number}")


def read(path: str) -> Provenance:
    """Read one file. Raises :class:`NotAProvenance` and :class:`OSError`."""
    try:
        return decode(bytes(files.read(path)))
    except files.Unreadable as error:
        raise NotAProvenance(str(error)) from error


def encode(made: Provenance) -> bytes:
    """Give the file's bytes."""
    return msgspec.json.encode(made) + b"\n"


def root_of(made: Provenance, starts: Sequence[str]) -> str:
    """The first of some folders below which the builder's files are, else none.

    Paths are relative to the repository that the builder was run in.
    """
    inside = [file for file in made.files if not os.path.isabs(file)]  # noqa: PTH117
    for start in starts:
        if any((Path(start) / file).is_file() for file in inside):
            return start
    return ""
