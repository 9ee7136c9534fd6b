"""Where a JSON pointer stands in its text.

Only findings need positions, so this runs once, over the few pointers wanted. Big arrays
are split by msgspec at the speed of the disk and walked element by element; only the way
down to a wanted value is looked at token by token. Everything is a loop, nothing recurses:
deep nesting is no danger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mirage_gate.findings import Location

_BLANK = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]+")
BRACKET_OR_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_as_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_as_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_as_text = msgspec.json.Decoder(str).decode

Pointer = tuple[str, ...]
Tree = dict[str, Any]


def pointer_text(parts: Iterable[str | int]) -> str:
    """Write a pointer as RFC 6901 has it: ``/all_tasks/17/inputs``."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def pointer_parts(pointer: str) -> Pointer:
    """Read an RFC 6901 pointer."""
    if not pointer:
        return ()
    return tuple(p.replace("~1", "/").replace("~0", "~") for p in pointer[1:].split("/"))


class _Walker:
    """Walks one well-formed JSON text. Offsets are bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def blank(self, at: int) -> int:
        match = _BLANK.match(self.data, at)
        return match.end() if match else at

    def value_end(self, at: int) -> int:
        """One past the value that starts at ``at``."""
        first = self.data[at : at + 1]
        if first == b'"':
            string = _STRING.match(self.data, at)
            return string.end() if string else len(self.data)
        if first not in (b"{", b"["):
            scalar = _SCALAR.match(self.data, at)
            return scalar.end() if scalar else at
        depth = 0
        for token in BRACKET_OR_STRING.finditer(self.data, at):
            bracket = token[0]
            if bracket in (b"{", b"["):
                depth += 1
            elif bracket in (b"}", b"]"):
                depth -= 1
                if not depth:
                    return token.end()
        return len(self.data)

    def members(self, at: int, end: int) -> list[tuple[str, int, int, int]]:
        """List (key, key offset, value offset, value end) of the object from ``at`` to ``end``.

        msgspec measures the values; where a key is repeated it keeps one value only, the
        walk does not come out at the end, and the values are measured token by token.
        """
        lengths = {
            key: memoryview(value).nbytes
            for key, value in _as_members(memoryview(self.data)[at:end]).items()
        }
        members, came_out = self._walk_members(at, end, lengths)
        if not came_out:
            members, _ = self._walk_members(at, end, {})
        return members

    def _walk_members(
        self, at: int, end: int, lengths: dict[str, int]
    ) -> tuple[list[tuple[str, int, int, int]], bool]:
        members: list[tuple[str, int, int, int]] = []
        at = self.blank(at + 1)
        while at < end and self.data[at : at + 1] == b'"':
            key_end = self.value_end(at)
            key = _as_text(self.data[at:key_end])
            value = self.blank(self.blank(key_end) + 1)
            if lengths:
                if key not in lengths:
                    return members, False
                stop = value + lengths[key]
            else:
                stop = self.value_end(value)
            members.append((key, at, value, stop))
            separator = self.blank(stop)
            if self.data[separator : separator + 1] != b",":
                at = separator
                break
            at = self.blank(separator + 1)
        return members, at == end - 1 and len(members) == len(lengths)

    def elements(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """Give (offset, end) of each element of the array from ``at`` to ``end``."""
        elements = _as_elements(memoryview(self.data)[at:end])
        at = self.blank(at + 1)
        for element in elements:
            stop = at + memoryview(element).nbytes
            yield at, stop
            at = self.blank(self.blank(stop) + 1)


def _tree(pointers: Iterable[Pointer]) -> Tree:
    root: Tree = {}
    for pointer in pointers:
        node = root
        for part in pointer:
            node = node.setdefault(part, {})
    return root


def find(data: bytes, pointers: Iterable[Pointer]) -> dict[Pointer, tuple[int, int]]:
    """Give the span (start, end) in bytes of each pointer's value.

    A member's span starts at its key; that of an object or array ends after its opening
    bracket, so a span never covers a page. Of a repeated key the last counts, as for every
    JSON reader. A pointer to nothing is left out. ``data`` must be well-formed JSON.
    """
    walker = _Walker(data)
    spans: dict[Pointer, tuple[int, int]] = {}
    start = walker.blank(0)
    end = len(data.rstrip(b" \t\r\n"))
    queue: list[tuple[Pointer, Tree, int, int, int]] = [((), _tree(pointers), start, start, end)]
    while queue:
        pointer, wanted, key, value, end = queue.pop()
        opening = data[value : value + 1]
        nested = opening in (b"{", b"[")
        spans[pointer] = (key, value + 1 if nested else end)
        if not wanted:
            continue
        if opening == b"{":
            found = {}
            for name, key_at, value_at, stop in walker.members(value, end):
                if name in wanted:
                    found[name] = ((*pointer, name), wanted[name], key_at, value_at, stop)
            queue.extend(found.values())
        elif opening == b"[":
            indices = {int(part): part for part in wanted if part.isdecimal()}
            last = max(indices, default=-1)
            for index, (first, stop) in enumerate(walker.elements(value, end)):
                if index in indices:
                    part = indices[index]
                    queue.append(((*pointer, part), wanted[part], first, first, stop))
                if index >= last:
                    break
    return spans


class Lines:
    """Turns byte offsets, asked for in ascending order, into lines and columns."""

    def __init__(self, path: str, data: bytes, line: int = 1) -> None:
        """``line`` is the number of the line with which ``data`` begins."""
        self.path = path
        self.data = data
        self._at = 0
        self._line = line

    def location(self, start: int, end: int) -> Location:
        """Place the bytes ``start`` to ``end``. ``start`` must not lie before the last one's."""
        data = self.data
        self._line += data.count(b"\n", self._at, start)
        self._at = start
        line_start = data.rfind(b"\n", 0, start) + 1
        last = self._line + data.count(b"\n", start, end)
        last_start = max(line_start, data.rfind(b"\n", start, end) + 1)
        return Location(
            self.path,
            line=self._line,
            column=_characters(data, line_start, start) + 1,
            end_line=last,
            end_column=_characters(data, last_start, end) + 1,
        )


def _characters(data: bytes, start: int, end: int) -> int:
    return len(data[start:end].decode("utf-8", errors="replace"))


def place(path: str, data: bytes, pointers: Iterable[str], line: int = 1) -> dict[str, Location]:
    """Give the place of each JSON pointer in ``data``, the file at ``path`` from a line on.

    A pointer to nothing gets the place of its nearest ancestor that exists.
    """
    wanted = set(pointers)
    parts = {pointer: pointer_parts(pointer) for pointer in wanted}
    spans = find(data, parts.values())

    def span(pointer: Pointer) -> tuple[int, int]:
        while pointer not in spans:
            pointer = pointer[:-1]
        return spans[pointer]

    lines = Lines(path, data, line)
    places: dict[str, Location] = {}
    for (start, end), pointer in sorted((span(parts[pointer]), pointer) for pointer in wanted):
        location = lines.location(start, end)
        places[pointer] = msgspec.structs.replace(location, pointer=pointer)
    return places
