"""Reading a file whole, safely, and turning offsets into lines."""

from __future__ import annotations

import errno
import os
import stat
from functools import cached_property
from typing import BinaryIO

from mirage_gate.findings import Location

LARGEST = 1 << 27
"""Bytes of the largest file that is read whole: a graph, which is not, may have any number."""


class Unreadable(Exception):
    """A file that cannot be taken in. ``location`` is where; the message says why."""

    def __init__(self, message: str, location: Location) -> None:
        super().__init__(message)
        self.location = location


def unreadable(path: str, error: Exception) -> Unreadable:
    """Say in a sentence why the operating system refused."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Unreadable(f"cannot be read: {reason}", Location(path, 1))


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading, without a buffer; raises :class:`Unreadable`."""
    try:
        return _open(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def read(path: str) -> bytes:
    """Read a regular file whole; raises :class:`Unreadable` if that cannot be."""
    try:
        return read_bytes(path)
    except (OSError, ValueError, MemoryError) as error:
        raise unreadable(path, error) from error


def read_bytes(path: str) -> bytes:
    """Read a regular file whole, one that is no artifact; raises :class:`OSError`."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            reason = f"it has {size:,} bytes, and no more than {LARGEST:,} are read"
            raise OSError(errno.EFBIG, reason, path)
        return file.read()


def _open(path: str) -> BinaryIO:
    """Open a regular file, and nothing else.

    A folder or a device may have an artifact's name, a pipe would block for ever, and a link
    in a pull request may lead to ``/dev/zero``.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except ValueError as error:
        raise OSError(errno.EINVAL, "its path holds a zero byte", path) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return open(descriptor, "rb", buffering=0)  # noqa: PTH123 - a descriptor


_STRETCH = 1 << 12


class Text:
    r"""A decoded file: characters, and where each stands.

    Bytes that are not UTF-8 become U+FFFD, one character each run that Python replaces; a
    byte order mark is dropped and does not count as a column. Lines end at ``\n`` alone, so
    CRLF files have the line numbers their editors show.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text.removeprefix("\ufeff")

    @classmethod
    def of(cls, path: str, data: bytes) -> Text:
        """Decode a file's bytes."""
        return cls(path, data.decode("utf-8", errors="replace"))

    @cached_property
    def _marks(self) -> list[tuple[int, int]]:
        """For every ``_STRETCH`` characters the lines that end before, and where the last did."""
        marks = []
        count = start = 0
        for at in range(0, len(self.text) + 1, _STRETCH):
            marks.append((count, start))
            count += self.text.count("\n", at, at + _STRETCH)
            start = self.text.rfind("\n", at, at + _STRETCH) + 1 or start
        return marks

    def _line(self, at: int) -> tuple[int, int]:
        """The line (from 0) that a character is on, and where that starts."""
        stretch = min(at // _STRETCH, len(self._marks) - 1)
        count, start = self._marks[stretch]
        count += self.text.count("\n", stretch * _STRETCH, at)
        return count, self.text.rfind("\n", stretch * _STRETCH, at) + 1 or start

    def location(self, start: int, end: int, note: str = "") -> Location:
        """Place the characters ``start`` to ``end`` (exclusive)."""
        first, first_start = self._line(start)
        if "\n" in self.text[start:end]:
            last, last_start = self._line(end)
        else:
            last, last_start = first, first_start
        return Location(
            self.path,
            line=first + 1,
            column=start - first_start + 1,
            end_line=last + 1,
            end_column=end - last_start + 1,
            note=note,
        )
