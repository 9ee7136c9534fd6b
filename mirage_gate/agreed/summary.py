"""What is kept of a rank once its graph is gone: enough to compare it with others.

A rank's facts are big and stay where they were derived. Its summary is small, says the same
on every host, and is all that the rules across ranks, the lock and the diff look at. So one
run over eight ranks, eight processes and eight files from eight hosts are the same thing.
:mod:`mirage_gate.agreed.summarizing` makes one of facts, :mod:`mirage_gate.agreed.joining`
puts those of one run together.

``mirage-gate schema summary`` prints the schema of the file. Within a version, fields may be
added and none is changed or taken away.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import msgspec

from mirage_gate import __version__
from mirage_gate.artifacts import files
from mirage_gate.findings import Finding, Location

VERSION = 1
_MOST_EVENTS = 1 << 22

Tasks = dict[int, int]
"""Task type code to how many."""


class Wired(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How one declared tensor is wired, by task type.

    ``inputs`` and ``outputs`` count the slots that carry it. ``read`` and ``written`` count
    the tasks that really do; None where that is the same. ``at`` is the declaration's line,
    column, end line and end column. ``layers`` are those that read a critical tensor.
    """

    name: str
    kind: str
    at: tuple[int, int, int, int]
    nbytes: int | None = None
    critical: bool = False
    inputs: Tasks = {}
    outputs: Tasks = {}
    read: Tasks | None = None
    written: Tasks | None = None
    layers: str = ""

    @property
    def readers(self) -> Tasks:
        """The tasks that really read it."""
        return self.inputs if self.read is None else self.read

    @property
    def writers(self) -> Tasks:
        """The tasks that really write it."""
        return self.outputs if self.written is None else self.written


class Put(msgspec.Struct, frozen=True, array_like=True):
    """What an operator puts into a buffer of rank ``gpu``: ranges of bytes [low, high), merged.

    ``ranges`` are those, ``tasks`` how many tasks put there.
    """

    gpu: int
    tensor: str
    ranges: tuple[tuple[int, int], ...]
    tasks: int


class Collective(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operator that talks to other ranks. ``tiles`` are (data type, dims) of its slots.

    ``puts`` are what it sends, by rank; ``reads`` the ranges of bytes that it reads of what
    other ranks have put into a buffer here.
    """

    task_type: int
    layer: int | None
    tasks: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tiles: tuple[tuple[int, tuple[int, ...]], ...]
    at: Location
    puts: tuple[Put, ...] = ()
    reads: dict[str, tuple[tuple[int, int], ...]] = {}


class Residual(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a linear operator adds to its product. ``weight`` names the operator on every rank.

    ``reads``: this rank's body reads the residual; ``guarded``: it asks for the rank first.
    ``whole``: the residual is the same on every rank; ``summed``: what the operator makes goes
    into a sum over the ranks. ``at`` is the slot, ``body`` where the body names it, or the body.
    """

    weight: str
    tensor: str
    task_type: int
    layer: int | None
    at: Location
    body: Location
    reads: bool = False
    guarded: bool = False
    whole: bool = False
    summed: bool = False


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """Events ``first`` to ``last`` of rank ``gpu`` are each triggered ``count`` times."""

    gpu: int
    first: int
    last: int
    count: int


class Awaited(msgspec.Struct, frozen=True):
    """Events ``first`` to ``last`` wait for ``triggers``, of which ``local`` come from here."""

    first: int
    last: int
    triggers: int
    local: int
    at: Location


class LayerShape(msgspec.Struct, frozen=True):
    """One layer: its kind, how many operators and tasks, and a hash of how events join them.

    ``layer`` is None for what is outside of the layers.
    """

    layer: int | None
    kind: str
    operators: int
    tasks: int
    events: str


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rank.

    ``world_size`` is the number of ranks that the kernel was made for, None where the CUDA
    file does not say. ``gpu`` is the rank that the event ids say, and ``gpu_at`` where, if it
    is another one; ``named`` tells whether the files' names say one too. ``findings`` are
    those of this rank alone. ``plan`` is the model that it computes, as text.
    """

    rank: int
    cuda_path: str
    graph_path: str
    audited: bool
    failure: str = ""
    world_size: int | None = None
    gpu: int | None = None
    gpu_at: Location | None = None
    named: bool = True
    tasks: int = 0
    events: int = 0
    task_types: dict[int, str] = {}
    tensors: tuple[Wired, ...] = ()
    layers: tuple[LayerShape, ...] = ()
    events_at: Location | None = None
    collectives: tuple[Collective, ...] = ()
    residuals: tuple[Residual, ...] = ()
    sent: tuple[Sent, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    plan: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def family(self) -> tuple[str, str]:
        """The folder and the name's pattern: what files of one run have in common."""
        from mirage_gate.artifacts.pairs import match

        path = self.graph_path or self.cuda_path
        found = match(PurePath(path).name)
        return str(PurePath(path).parent), found[0].graph if found else ""

    def tensor(self, name: str) -> Wired | None:
        """Give one tensor, or None if it is not declared."""
        return next((wired for wired in self.tensors if wired.name == name), None)

    def declared_at(self, wired: Wired, note: str = "") -> Location:
        """Point at a tensor's declaration."""
        return Location(self.cuda_path, *wired.at, note=note)

    def start(self, note: str = "") -> Location:
        """Point at the beginning of the CUDA file."""
        return Location(self.cuda_path or self.graph_path, 1, 1, 1, 1, note=note)

    def type_name(self, code: int) -> str:
        """Name a task type."""
        return self.task_types.get(code, f"task type {code}")


class Document(msgspec.Struct, frozen=True):
    """The file: the summaries of one run."""

    version: int
    tool: str
    ranks: tuple[Summary, ...]


class NotASummary(Exception):
    """A file that is no summary; the message says why."""


def encode(summaries: Iterable[Summary]) -> str:
    """Write summaries as a file's text."""
    document = Document(VERSION, f"mirage-gate {__version__}", tuple(summaries))
    return msgspec.json.encode(document).decode() + "\n"


def decode(data: bytes) -> tuple[Summary, ...]:
    """Read a file's bytes. Raises :class:`NotASummary`."""
    try:
        version = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("version")
        if version is not None and bytes(version) != b"%d" % VERSION:
            raise NotASummary(f"is version {bytes(version).decode()}, and {VERSION} is known here")
        ranks = msgspec.json.decode(data, type=Document).ranks
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotASummary(f"is no summary: {error}") from error
    named = [(sent.first, sent.last) for rank in ranks for sent in rank.sent]
    named += [(awaited.first, awaited.last) for rank in ranks for awaited in rank.awaited]
    sound = all(0 <= first <= last < _MOST_EVENTS for first, last in named)
    if not sound or sum(last - first for first, last in named) > _MOST_EVENTS * len(ranks):
        raise NotASummary("is no summary: it names events that no graph can have")
    return ranks


def read(path: str) -> tuple[Summary, ...]:
    """Read one file. Raises :class:`NotASummary` and :class:`OSError`."""
    return decode(files.read_bytes(path))
