"""Lines of the files that findings point into, with the lines around them.

A graph can have ten million lines and a finding needs five of them: each file is read once,
no further than the last line wanted, and nothing of it is kept but those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import BinaryIO

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.escaping import visible
from mirage_gate.findings import Location

_CHUNK = 1 << 20
_WIDEST = 200
_LEAD = 60


class Line(msgspec.Struct, frozen=True):
    """One line of code. ``mark`` is what the finding is about, between the other two."""

    number: int
    before: str
    mark: str = ""
    after: str = ""


class Excerpts:
    """The lines around some places. A file that cannot be read has none."""

    def __init__(self, places: Collection[Location], around: int = 2) -> None:
        self._around = around
        wanted: dict[str, set[int]] = {}
        for place in places:
            if place.placed:
                first = max(1, place.line - around)
                lines = range(first, place.line + around + 1)
                wanted.setdefault(place.path, set()).update(lines)
        self._starts = {path: _line_starts(path, lines) for path, lines in wanted.items()}

    def of(self, place: Location, around: int | None = None) -> list[Line]:
        """Give the lines around a place, in order, the place itself marked."""
        around = self._around if around is None else around
        starts = self._starts.get(place.path, {})
        numbers = range(max(1, place.line - around), place.line + around + 1)
        if not place.placed or place.line not in starts:
            return []
        try:
            with files.open_regular(place.path) as file:
                return [
                    _line(file, starts[number], number, place)
                    for number in numbers
                    if number in starts
                ]
        except (files.Unreadable, OSError):
            return []


def _line(file: BinaryIO, start: int, number: int, place: Location) -> Line:
    column = place.column - 1 if number == place.line else 0
    # Of a very long line, what stands around the column.
    skipped = max(0, column - _LEAD) if column > _WIDEST - _LEAD else 0
    file.seek(start + skipped)
    data = file.read(_WIDEST * 4).split(b"\n", 1)[0]
    text = data.decode("utf-8", errors="replace").rstrip("\r")
    text = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
    text = f"…{text}" if skipped else text
    if number != place.line:
        return Line(number, _shown(text))
    column += (1 if skipped else 0) - skipped
    end = place.end_column - 1 - skipped + (1 if skipped else 0)
    if place.end_line > place.line:
        end = len(text)
    end = max(column + 1, end)
    return Line(number, _shown(text[:column]), _shown(text[column:end]), _shown(text[end:]))


def _shown(text: str) -> str:
    return visible(text.replace("\t", "    "))


def _line_starts(path: str, lines: Collection[int]) -> dict[int, int]:
    """Where each of the lines starts, in bytes; lines that the file lacks are left out."""
    try:
        with files.open_regular(path) as file:
            return dict(_starts(file, sorted(lines)))
    except (files.Unreadable, OSError):
        return {}


def _starts(file: BinaryIO, wanted: list[int]) -> Iterator[tuple[int, int]]:
    left = wanted[::-1]
    line, offset = 1, 0
    if left and left[-1] == 1:
        yield left.pop(), 0
    while left and (chunk := file.read(_CHUNK)):
        newlines = chunk.count(b"\n")
        at = -1
        while left and left[-1] <= line + newlines:
            # A chunk in which no wanted line starts is counted, the others are walked.
            at = chunk.find(b"\n", at + 1)
            line, newlines = line + 1, newlines - 1
            if line == left[-1]:
                yield left.pop(), offset + at + 1
        line += newlines
        offset += len(chunk)
