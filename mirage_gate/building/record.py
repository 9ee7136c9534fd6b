"""What a builder is seen to do to one graph, as it does it; written down at the end.

While the builder runs only code objects and offsets are kept: a line, a column and a path
are worked out once, when the graph has been emitted.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType

import msgspec

from mirage_gate.artifacts import provenance
from mirage_gate.artifacts.provenance import Frame, OperatorMade, Provenance, TensorMade
from mirage_gate.building.matching import Sized as _Sized
from mirage_gate.building.matching import placed

_DEEPEST = 24
"""Frames of one stack that are kept, those nearest to the call."""

_LAYER = re.compile(r"(?:^|[._])layers?[._](\d{1,4})(?:[._]|$)")
_PUTS = "nvshmem_allgather_strided_put"
"""The one task of which a block makes several: one for each other rank."""

_GATE = str(Path(__file__).resolve().parent.parent) + os.sep
_PYTHON = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib")
        if (path := sysconfig.get_path(name))
    }
)

_Call = tuple[CodeType, int, int]
"""A frame: its code, the offset of the instruction, its line."""


class _Operator(msgspec.Struct):
    call: str
    task: str
    stack: int
    grid: tuple[int, ...] | None
    tensors: tuple[str | None, ...]


def _tasks_of(operator: _Operator, world_size: int) -> int:
    count = math.prod(operator.grid) if operator.grid is not None else 0
    return count * max(world_size - 1, 0) if operator.task == _PUTS else count


class Record:
    """All that was done to one graph."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._stacks: dict[tuple[_Call, ...], int] = {}
        self._tensors: dict[str, tuple[str, int]] = {}
        self._names: dict[int, str] = {}
        self._kept: list[object] = []  # or another object would get the same id
        self._parts: dict[str, str] = {}  # of a tensor that exists only as its parts
        self._operands: tuple[str | None, ...] = ()
        self._operators: list[_Operator] = []

    def named(self, tensor: object, name: object, default: str) -> None:
        """Note that a tensor got its name; MPK may name one again with its dots replaced."""
        if not isinstance(name, str):
            return
        self._names[id(tensor)] = name
        self._kept.append(tensor)
        if name not in self._tensors:
            call, stack = self._stack(default)
            self._tensors[name] = (call, stack)

    def fused(self, parts: object, name: object) -> None:
        """Note which tensors stand for one that is in neither file."""
        if isinstance(name, str) and isinstance(parts, list | tuple):
            for part in parts:
                if known := self._names.get(id(part)):
                    self._parts[known] = name

    def given(self, tensors: object) -> None:
        """Note what the next operator is given."""
        if isinstance(tensors, list | tuple):
            self._operands = tuple(self._names.get(id(tensor)) for tensor in tensors)

    def registered(self, task: object, grid: tuple[int, ...] | None) -> None:
        """Note an operator."""
        call, stack = self._stack("register_task")
        self._operators.append(_Operator(call, str(task), stack, grid, self._operands))
        self._operands = ()

    def _stack(self, default: str) -> tuple[str, int]:
        """The call that the builder made, and the number of its stack."""
        frame: FrameType | None = sys._getframe(2)
        calls: list[_Call] = []
        call = default
        kind_of = self._machinery.kind
        while frame is not None and len(calls) < _DEEPEST:
            code = frame.f_code
            kind = kind_of(code.co_filename)
            if kind == "builder":
                calls.append((code, frame.f_lasti, frame.f_lineno))
            elif kind == "mpk" and not calls:
                call = code.co_name
            elif kind == "gate" and calls:
                break  # whoever runs the builder
            frame = frame.f_back
        while len(calls) > 1 and self._machinery.installed(calls[-1][0].co_filename):
            calls.pop()  # what runs the builder: a test runner, a launcher
        return call, self._stacks.setdefault(tuple(calls), len(self._stacks))

    def written(self, rank: int, world_size: int, cuda: bytes, graph: bytes) -> Provenance:
        """Give the provenance of the graph that was emitted from all this."""
        files: dict[str, int] = {}
        stacks = [tuple(_frames(calls, files)) for calls in self._stacks]
        # Who calls MPK from nowhere (an interpreter's prompt) has no place to tell.
        known = {number for number, stack in enumerate(stacks) if stack}
        numbers = {old: new for new, old in enumerate(sorted(known))}
        layers = _filled([_layer(names.tensors) for names in self._operators])
        places = placed(
            [_Sized(one.tensors, _tasks_of(one, world_size)) for one in self._operators],
            graph,
            self._parts,
        )
        operators = [
            OperatorMade(
                operator.call,
                operator.task,
                numbers[operator.stack],
                *place,
                layer,
                operator.tensors,
            )
            for operator, layer, place in zip(self._operators, layers, places, strict=True)
            if operator.stack in numbers
        ]
        return Provenance(
            version=provenance.VERSION,
            rank=rank,
            world_size=world_size,
            pair=provenance.of_pair(cuda, len(graph)),
            files=tuple(files),
            stacks=tuple(stack for stack in stacks if stack),
            tensors=tuple(
                TensorMade(name, call, numbers[stack], _layer((name,)))
                for name, (call, stack) in self._tensors.items()
                if stack in numbers
            ),
            operators=tuple(operators),
        )


class Machinery:
    """Tells the builder's own files from MPK's, the gate's and Python's."""

    def __init__(self) -> None:
        self._mpk: set[str] = set()
        self._kinds: dict[str, str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def add(self, file: str | None) -> None:
        """Note a file of MPK in which calls are passed on; its models are builders."""
        if file:
            self._mpk.add(file)
            self._kinds.clear()

    def kind(self, file: str) -> str:
        """``mpk``, ``gate``, ``python`` or ``builder``."""
        kind = self._kinds.get(file)
        if kind is None:
            kind = self._kinds[file] = self._judge(file)
        return kind

    def installed(self, file: str) -> bool:
        """Whether a file came with a package, and is no model of MPK's own."""
        parts = self._parts.get(file)
        if parts is None:
            parts = self._parts[file] = Path(file).parts
        return "site-packages" in parts and "mirage" not in parts

    def _judge(self, file: str) -> str:
        if file in self._mpk:
            return "mpk"
        if file.startswith("<"):
            return "python"
        real = os.path.realpath(file)
        if real.startswith(_GATE):
            return "gate"
        if any(Path(mpk).parent == Path(file).parent for mpk in self._mpk):
            return "mpk"
        if real.startswith(_PYTHON) and "site-packages" not in Path(real).parts:
            return "python"
        return "builder"


def _frames(calls: Iterable[_Call], files: dict[str, int]) -> Iterator[Frame]:
    for code, offset, line in calls:
        number = files.setdefault(_path(code.co_filename), len(files))
        yield Frame(number, max(line, 1), code.co_name, *_columns(code, offset, line))


@cache
def _columns(code: CodeType, offset: int, line: int) -> tuple[int, int, int]:
    """The call's first column, last line and the column behind it; 0 where not known."""
    positions = getattr(code, "co_positions", None)
    if positions is None:  # Python 3.10
        return 0, 0, 0
    found = next(itertools.islice(positions(), offset // 2, None), (None,) * 4)
    first, last, start, end = found
    if first != line or last is None or start is None or end is None:
        return 0, 0, 0
    text = _lines(code.co_filename)
    return _column(text, first, start), last, _column(text, last, end)


@lru_cache(maxsize=64)
def _lines(file: str) -> list[bytes]:
    try:
        return Path(file).read_bytes().split(b"\n")
    except (OSError, ValueError):
        return []


def _column(lines: list[bytes], line: int, offset: int) -> int:
    """The 1-based column in characters of an offset in bytes."""
    text = lines[line - 1] if 0 < line <= len(lines) else b""
    return len(text[:offset].decode("utf-8", "replace")) + 1 if text else offset + 1


@lru_cache(maxsize=256)
def _path(file: str) -> str:
    """A file relative to the repository that it is in, if that is where we are."""
    from mirage_gate.reports._paths import git_root, relative

    absolute = os.path.abspath(file)  # noqa: PTH100 - links stay links
    here = os.getcwd()  # noqa: PTH109
    inside = relative(absolute, git_root(here) or here)
    return absolute if inside is None else inside


def _layer(names: Iterable[str | None]) -> int | None:
    """The one layer that tensors are of, by their names."""
    layers = {int(found[1]) for name in names if name and (found := _LAYER.search(name))}
    return layers.pop() if len(layers) == 1 else None


def _filled(layers: list[int | None]) -> list[int | None]:
    """What stands between two operators of a layer is of it, whatever it carries."""
    filled = [*layers]
    before: int | None = None
    gap = 0
    for at, layer in enumerate(layers):
        if layer is None:
            continue
        if layer == before:
            filled[gap:at] = [layer] * (at - gap)
        before, gap = layer, at + 1
    return filled
