"""The text of a graph, read a piece at a time: a graph of a gigabyte needs no gigabyte.

MPK writes one layout, and in it a line says where one task ends and the next begins. The
text is cut at such lines, and each piece decoded and dropped. Nothing is taken on trust.
By JSON's grammar elements, a comma and more elements are elements; so if every piece is an
array of tasks once it has brackets, and the text around them a graph without tasks, then
the whole is a graph with all those tasks. If anything is not so, :class:`UncutError` sends
the reader to the whole text.

Where the pieces were is kept. A place in one is found by reading that piece again.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, TypeVar

import msgspec

from mirage_gate import steps
from mirage_gate.artifacts import files
from mirage_gate.findings import Location

_BLOCK = 1 << 18
"""Bytes read at a time: so many that a block costs nothing, so few that it stays in cache."""
_MOST_HEAD = 1 << 24
_MOST_TASK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_OPEN = b'\n  "all_tasks": [\n'
_TASK_END = b"\n    }"
_BETWEEN = _TASK_END + b",\n    {"
_CLOSE = b"\n  ]"
_TASKS = "/all_tasks/"

_Task = TypeVar("_Task")


class UncutError(Exception):
    """The text has another layout than MPK's, or is no graph: read it whole."""


class _Piece(msgspec.Struct, frozen=True, gc=False):
    """Some tasks in a row: the bytes ``start`` to ``end``, from the task ``first`` on."""

    first: int
    start: int
    end: int


class GraphText:
    """A graph's file, opened for reading, or a text that is no file yet."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        """``path`` is only shown."""
        self.path = path
        self.rest = b""
        self.marks: tuple[tuple[int, int], ...] = ()
        """Some lines, in order, and an offset on each, once places were asked for."""
        self._file = file
        self._pieces: list[_Piece] = []
        self._count = 0
        self._tail = 0
        self._state = self._changes()

    @classmethod
    def open(cls, path: str) -> GraphText:
        """Open a regular file; raises :class:`files.Unreadable` for anything else."""
        return cls(path, files.open_regular(path))

    @classmethod
    def of(cls, path: str, data: bytes) -> GraphText:
        """Take a text as it is."""
        return cls(path, io.BytesIO(data))

    def __enter__(self) -> GraphText:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def whole(self) -> bytes:
        """Read all of it, without a byte order mark. Places are then looked for in all of it."""
        self._pieces = []
        self._file.seek(0)
        return self._read(-1).removeprefix(_BOM)

    def tasks(self, decode: Callable[[memoryview], list[_Task]]) -> Iterator[list[_Task]]:
        """Give all tasks, decoded by ``decode``, in lists of some hundred.

        A list is good until the next one is asked for: then what it was read from is
        overwritten. At the end ``rest`` is the text with an empty ``all_tasks``. Raises
        :class:`UncutError`, or what msgspec raises, where that cannot be done.
        """
        self._pieces, self._count = [], 0
        size = self._state[0] if self._state else 0
        for start, text in self._cut():
            tasks = decode(text)
            self._pieces.append(_Piece(self._count, start, start + len(text) - 2))
            self._count += len(tasks)
            steps.say("reading", start, size)
            yield tasks
        # Without escapes this is the only key of that name, and what was cut was its value.
        if b"\\" in self.rest or self.rest.count(b'"all_tasks"') != 1 or not self.rest.isascii():
            raise UncutError

    def _cut(self) -> Iterator[tuple[int, memoryview]]:
        """Give each run of tasks that commas outside of it part: its offset, and it in brackets.

        All of them stand in one buffer, one after the other.
        """
        head, text = self._head()
        start = len(head)
        buffer = bytearray(_MOST_TASK + _BLOCK)
        view = memoryview(buffer)
        buffer[0:1] = b"["
        view[1 : 1 + len(text)] = text
        end = 1 + len(text)  # of what has been read
        while True:
            if not buffer.isascii():
                raise UncutError
            cut = buffer.rfind(_BETWEEN, 0, end)
            if cut >= 0:
                comma = cut + len(_TASK_END)
                buffer[comma : comma + 1] = b"]"
                yield start, view[: comma + 1]
                start += comma
                left = end - comma - 1
                view[1 : 1 + left] = bytes(view[comma + 1 : end])
                end = 1 + left
            if end > _MOST_TASK:
                raise UncutError
            count = self._read_into(view[end : end + _BLOCK])
            if not count:
                break
            end += count
        close = buffer.find(_CLOSE, 0, end)
        if close < 0:
            raise UncutError
        self.rest = head + bytes(view[close:end])
        self._tail = start - 1 + close
        buffer[close : close + 1] = b"]"
        yield start, view[: close + 1]

    def _head(self) -> tuple[bytes, bytes]:
        """Read the text before the tasks, and what of them came with it."""
        self._file.seek(0)
        head = b""
        start = -1
        while start < 0:
            block = self._read(_BLOCK)
            if not block or len(head) > _MOST_HEAD:
                raise UncutError
            seen = max(len(head) - len(_OPEN), 0)
            head += block
            start = head.find(_OPEN, seen)
        start += len(_OPEN) - 1
        return head[:start], head[start:]

    def place(self, pointers: Iterable[str]) -> dict[str, Location]:
        """Give the place of each JSON pointer; one to nothing gets its nearest ancestor's.

        The text must have been well-formed. Raises :class:`files.Unreadable` if the file is
        not any more what was read.
        """
        changed = files.Unreadable("changed while it was audited", Location(self.path, 1))
        if self._changes() != self._state:
            raise changed
        try:
            return self._place(pointers)
        except msgspec.DecodeError as error:
            raise changed from error

    def placer(self, locations: Iterable[Location]) -> Callable[[Location], Location]:
        """Give a function that turns each of some places in this text into a line.

        All of them are looked for at once, and the file is not read again if each is a line
        already. Raises what :meth:`place` raises.
        """
        wanted = {location.pointer for location in locations if not location.placed}
        places = self.place(wanted) if wanted else {}
        return lambda location: (
            location if location.placed else places[location.pointer].saying(location.note)
        )

    def _place(self, pointers: Iterable[str]) -> dict[str, Location]:
        if not self._pieces:
            from mirage_gate.artifacts import positions

            return positions.place(self.path, self.whole(), pointers)
        wanted: dict[_Piece | None, dict[str, str]] = defaultdict(dict)
        for pointer in pointers:
            piece, local = self._within(pointer)
            wanted[piece][pointer] = local
        lines = self._lines({piece.start if piece else self._tail for piece in wanted})
        places: dict[str, Location] = {}
        for piece, locals_ in wanted.items():
            found = self._place_in(piece, locals_.values(), lines)
            for pointer, local in locals_.items():
                places[pointer] = msgspec.structs.replace(found[local], pointer=pointer)
        return places

    def _lines(self, offsets: set[int]) -> dict[int, int]:
        """Give the number of the line that each of some offsets stands on."""
        lines: dict[int, int] = {}
        line, at = 1, 0
        self._file.seek(0)
        for offset in sorted(offsets):
            while at < offset:
                block = self._read(min(_BLOCK, offset - at))
                if not block:
                    break
                line += block.count(b"\n")
                at += len(block)
            lines[offset] = line
        self.marks = tuple((line, offset) for offset, line in lines.items())
        return lines

    def _within(self, pointer: str) -> tuple[_Piece | None, str]:
        """Give the piece that a pointer leads into, and the pointer from there."""
        number, slash, rest = pointer.removeprefix(_TASKS).partition("/")
        if pointer.startswith(_TASKS) and number.isdecimal() and int(number) < self._count:
            at = bisect_right(self._pieces, int(number), key=lambda piece: piece.first) - 1
            piece = self._pieces[at]
            return piece, f"/{int(number) - piece.first}{slash}{rest}"
        return None, pointer

    def _place_in(
        self, piece: _Piece | None, pointers: Iterable[str], lines: dict[int, int]
    ) -> dict[str, Location]:
        from mirage_gate.artifacts import positions

        if piece is not None:
            self._file.seek(piece.start)
            text = b"[%b]" % self._read(piece.end - piece.start)
            return positions.place(self.path, text, pointers, lines[piece.start])
        opening = self.rest.count(b"\n", 0, self._pieces[0].start) + 1
        return {
            pointer: place if place.line <= opening else _lower(place, lines[self._tail] - opening)
            for pointer, place in positions.place(self.path, self.rest, pointers).items()
        }

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (OSError, MemoryError) as error:
            raise files.unreadable(self.path, error) from error

    def _read_into(self, part: memoryview) -> int:
        try:
            return self._file.readinto(part) or 0  # type: ignore[attr-defined]
        except OSError as error:
            raise files.unreadable(self.path, error) from error

    def _changes(self) -> tuple[int, int] | None:
        """What of a file changes when somebody writes to it."""
        try:
            status = os.fstat(self._file.fileno())
        except (OSError, ValueError):
            return None  # no file
        return status.st_size, status.st_mtime_ns


def _lower(place: Location, lines: int) -> Location:
    return msgspec.structs.replace(place, line=place.line + lines, end_line=place.end_line + lines)
