"""GitHub's ``primaryLocationLineHash``, equal to what its uploader would compute.

The uploader (``src/fingerprints.ts`` of github/codeql-action) hashes every line of the file:
the 100 UTF-16 code units from the line's start, blanks and tabs left out and every line
ending a line feed, taken as digits of a number to the base 37, modulo 2^64. Past the file's
end stand U+FFFF and zeros. The fingerprint is that hash and how many lines up to this one
have it: ``54703d4cd895b18:1``.

The count is what takes time, and there are two ways to it.

- By hash: 37 is so small a base that different text can well share a hash (``aZ`` and
  ``b5`` do), so lines cannot be told apart by comparing text. The hash's lowest byte is
  computed for all places at once, in the 16-bit lanes of big integers, and the whole hash
  only where a line starts and that byte fits.
- By text: a task graph has millions of lines, in a layout in which all text is a few keys,
  numbers and names. Different lines have one hash there if a name has ``aZ`` where
  another has ``b5``, or else by a chance of 1 in 2^64 for each two lines. So far into one,
  only lines of the same text are counted, a hundred times faster.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import mul
from typing import BinaryIO

_WINDOW = 100
_BASE = 37
_PLACES = tuple(pow(_BASE, _WINDOW - 1 - place, 1 << 64) for place in range(_WINDOW))
_END = "\uffff"

_READ = 1 << 18
_LANES = 1 << 14
_CACHED = 1 << 16

_LAYOUT = b'{\n  "all_events": [\n    {\n      "event_type": '
"""How a graph begins in MPK's layout, where one text has one way to be written."""
_FAR = 1 << 21
"""Bytes into a graph from where lines are counted by text."""
_FASTER = 50
"""Times that counting by text is faster, for one line."""
_SAMPLES, _SAMPLE = 8, 1 << 15
"""Parts of a file, and bytes of each, that say how often something is in it."""
_LOOK = 2000
"""Bytes looked through in the time that looking at one place takes."""

_Marks = Sequence[tuple[int, int]]
_Texts = dict[bytes, list[tuple[int, int]]]
"""Texts and their places: the offset of the line, and its number."""


def line_hashes(path: str, lines: Collection[int], marks: _Marks = ()) -> dict[int, str]:
    """The fingerprint of each of ``lines`` (1-based); lines the file lacks are left out.

    A line ends where the uploader says so: at a line feed, a carriage return, or both.
    ``marks`` are some lines, in order, and an offset on each, where only line feeds end lines.
    """
    wanted = sorted({line for line in lines if line >= 1})
    if not wanted:
        return {}
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        if os.fstat(file.fileno()).st_size > _FAR and file.read(len(_LAYOUT)) == _LAYOUT:
            found = _by_text(file, wanted, marks)
            if found is not None:
                return found
    return _by_hash(path, wanted)


# -- by text ---------------------------------------------------------------------------------------


def _by_text(file: BinaryIO, wanted: list[int], marks: _Marks) -> dict[int, str] | None:
    """Count lines of the same text; None where that is not enough, or not faster."""
    starts = dict(_offsets(file, wanted, marks))
    if max(starts.values(), default=0) < _FAR:
        return None
    texts: _Texts = {}
    for line, start in starts.items():
        file.seek(start)
        text = _hashed(file.read(8 * _WINDOW))
        if text is None:
            return None
        texts.setdefault(b"\n" + text, []).append((start, line))
    last = max(starts.values())
    cost, searches = _cheapest(sorted(texts), texts, _sample(file, last))
    if cost > _FASTER * last:
        return None
    found: dict[int, str] = {}
    try:
        for text, count, line in _count(file, searches):
            value = _hash(text[1:].translate(None, b" ").decode("ascii"))
            found[line] = f"{value:x}:{count}"
    except _NotPlainError:
        return None
    return found


def _offsets(file: BinaryIO, wanted: list[int], marks: _Marks) -> Iterator[tuple[int, int]]:
    """Give each line and where it starts, in plain text."""
    line, offset = 1, 0  # where the block begins, then how far it has been walked
    block, at, newlines = b"", 0, 0  # newlines that are left in it
    file.seek(0)
    for want in wanted:
        nearest = bisect_left(marks, (want, 0)) - 1
        if nearest >= 0 and marks[nearest][0] > line + newlines:
            line, offset = marks[nearest]
            block, at, newlines = b"", 0, 0
            file.seek(offset)
        while line + newlines < want:
            line, offset = line + newlines, offset + len(block)
            block, at = file.read(_READ), 0
            if not block:
                return
            newlines = block.count(b"\n")
        for _ in range(want - line):
            at = block.find(b"\n", at) + 1
        newlines -= want - line
        line = want
        yield want, offset + at


def _hashed(text: bytes) -> bytes | None:
    """What of a text that begins a line is hashed, blanks included; None if it is too short."""
    end = 0
    for _ in range(_WINDOW):
        while text[end : end + 1] == b" ":
            end += 1
        end += 1
    return text[:end] if end <= len(text) and text.isascii() else None


def _sample(file: BinaryIO, size: int) -> list[bytes]:
    """Some of a file's first bytes, from all over."""
    sample = []
    for place in range(_SAMPLES):
        file.seek(size * place // _SAMPLES)
        sample.append(file.read(_SAMPLE))
    return sample


def _cheapest(some: list[bytes], texts: _Texts, sample: list[bytes]) -> tuple[float, list[_Search]]:
    """Say how to find some sorted texts, and what that costs, in bytes looked through.

    What they begin with alike is looked for, and each place looked at where it is found; or
    it is found too often, and those that go on alike are looked for apart.
    """
    prefix = some[0][: _alike(some[0], some[-1])]
    places = sum(part.count(prefix) for part in sample) / sum(map(len, sample))
    reach = max(texts[text][-1][0] for text in some)
    cost: float = reach * (1 + _LOOK * places)
    whole = cost, [_Search(prefix, {text: texts[text] for text in some})]
    if len(some) == 1:
        return whole
    apart: list[_Search] = []
    apart_cost = 0.0
    for _, alike in groupby(some, key=lambda text: text[: len(prefix) + 1]):
        one_cost, searches = _cheapest(list(alike), texts, sample)
        apart_cost += one_cost
        apart += searches
        if apart_cost >= cost:
            return whole
    return apart_cost, apart


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike."""
    differ = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


class _NotPlainError(Exception):
    """A text holds what a graph in MPK's layout does not."""


class _Search:
    """Texts that begin alike, looked for at once: a line feed, then what is hashed of a line."""

    def __init__(self, prefix: bytes, texts: _Texts) -> None:
        self.prefix = prefix
        self.longest = max(map(len, texts))
        self.left = {text: places[::-1] for text, places in texts.items()}
        """The places of each text that are still to come, the next one last."""
        self._head = min(map(len, texts))
        self._texts: dict[bytes, list[bytes]] = {}
        for text in texts:
            self._texts.setdefault(text[: self._head], []).append(text)
        self._counts = dict.fromkeys(texts, 0)

    def count(self, block: bytes, end: int, offset: int) -> Iterator[tuple[bytes, int, int]]:
        """Count what begins before ``end`` in a block at ``offset`` of the file.

        Gives (text, how many lines up to there have it, line) for each place it comes to.
        """
        find, prefix, head, with_head = block.find, self.prefix, self._head, self._texts.get
        at = find(prefix)
        while 0 <= at < end:
            for text in with_head(block[at : at + head], ()):
                if text in self.left and block.startswith(text, at):
                    self._counts[text] += 1
                    places = self.left[text]
                    if offset + at + 1 == places[-1][0]:
                        yield text, self._counts[text], places.pop()[1]
                        if not places:
                            del self.left[text]
            at = find(prefix, at + 1)


def _count(file: BinaryIO, searches: list[_Search]) -> Iterator[tuple[bytes, int, int]]:
    """Go through the file once, and give what each search gives.

    Raises :class:`_NotPlainError` if that is no plain ASCII, blank and line feed.
    """
    longest = max(search.longest for search in searches)
    file.seek(0)
    offset, before = -1, b"\n"  # as if a line ended before the file
    while searches:
        read = file.read(_READ)
        if not read.isascii() or b"\r" in read or b"\t" in read:
            raise _NotPlainError
        block = before + read
        # What begins before there ends in the block, if it ends in the file.
        whole = max(len(block) - longest + 1, 0) if read else len(block)
        for search in searches:
            yield from search.count(block, whole, offset)
        searches = [search for search in searches if search.left and read]
        offset += whole
        before = block[whole:]


# -- by hash ---------------------------------------------------------------------------------------


def _by_hash(path: str, wanted: list[int]) -> dict[int, str]:
    """Count lines of the same hash."""
    places = dict(_places(path, wanted))
    seen = {value: 0 for _, value in places.values()}
    fits = bytes(byte in {value & 0xFF for value in seen} for byte in range(256))
    last = max(places, default=-1)
    hash_of = lru_cache(_CACHED)(_hash)
    found: dict[int, str] = {}
    for first, before, units, size in _spans(path):
        if first > last:
            break
        for start in _candidates(before, units, size, fits):
            value = hash_of(units[start : start + _WINDOW])
            if value in seen and first + start <= last:
                seen[value] += 1
                line, _ = places.get(first + start, (0, 0))
                if line:
                    found[line] = f"{value:x}:{seen[value]}"
    return found


def _units(path: str) -> Iterator[tuple[str, bool]]:
    """The code units that are hashed, piece by piece; True with the last, the mark of the end.

    Text mode decodes bytes that are no UTF-8 as the uploader does, one U+FFFD for each
    ill-formed part, keeps a byte order mark, and turns all three line endings into one.
    """
    with open(path, encoding="utf-8", errors="replace", newline=None) as file:  # noqa: PTH123
        while piece := file.read(_READ):
            # Bytes lose their blanks seven times faster than text.
            text = piece.encode().translate(None, b" \t").decode()
            if not text.isascii():
                text = re.sub("[\U00010000-\U0010ffff]", _surrogates, text)
            yield text, False
    yield _END, True


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def _spans(path: str) -> Iterator[tuple[int, str, str, int]]:
    """Give (place, the unit before, units, size): ``size`` places and their windows."""
    first, before, left = 0, "\n", ""
    for piece, is_last in _units(path):
        left += piece
        at = 0
        while len(left) - at >= _LANES + _WINDOW or (is_last and at < len(left)):
            units = left[at : at + _LANES + _WINDOW]
            size = min(_LANES, len(units))
            yield first, before, units, size
            before = units[size - 1]
            first += size
            at += size
        left = left[at:]


def _places(path: str, wanted: list[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Give the place where each line starts, with the line and its hash.

    The last line may hold nothing but the end.
    """
    left = wanted[::-1]
    line = 0
    for first, before, units, size in _spans(path):
        text = before + units
        starting = text.count("\n", 0, size)
        # A span in which no wanted line starts is counted, the others are walked.
        at = -1
        while left and left[-1] <= line + starting:
            at = text.find("\n", at + 1, size)
            line, starting = line + 1, starting - 1
            if line == left[-1]:
                yield first + at, (left.pop(), _hash(units[at : at + _WINDOW]))
        line += starting
        if not left:
            return


def _hash(window: str) -> int:
    """The hash of some units; the zeros past the end add nothing."""
    value: int = sum(map(mul, map(ord, window), _PLACES))
    return value & 0xFFFF_FFFF_FFFF_FFFF


def _candidates(before: str, units: str, size: int, fits: bytes) -> Iterator[int]:
    """Every line start whose hash may end in a byte that fits (a table of all bytes)."""
    is_newline = bytes(byte == 0x0A for byte in range(256))
    hashes = _lowest_bytes(units, size)
    preceding = (before + units)[:size].encode("utf-16-le", "surrogatepass")[::2]
    hits = _both(hashes.translate(fits), preceding.translate(is_newline))
    at = hits.find(1)
    while at >= 0:
        # So far only the lower half of the unit before is known to be a line feed's.
        if (units[at - 1] if at else before) == "\n":
            yield at
        at = hits.find(1, at + 1)


def _lowest_bytes(units: str, size: int) -> bytes:
    """The lowest byte of the hash of the window at each of the first ``size`` places.

    With H(n) the hashes of n units from each place on, H(2n) is H(n) * 37^n + H(n) seen n
    places further, and H(n+1) is H(n) * 37 + the unit n places further. A lane of 16 bits
    holds a byte times a byte plus a byte, so no lane runs over into the next.
    """
    data = units.encode("utf-16-le", "surrogatepass")
    mask = int.from_bytes(b"\xff\0" * len(units), "little")
    digits = int.from_bytes(data, "little") & mask
    hashes, width = digits, 1
    for bit in f"{_WINDOW:b}"[1:]:
        hashes = hashes * (_BASE**width & 0xFF) + (hashes >> 16 * width) & mask
        width *= 2
        if bit == "1":
            hashes = hashes * _BASE + (digits >> 16 * width) & mask
            width += 1
    return hashes.to_bytes(len(data), "little")[: 2 * size : 2]


def _both(one: bytes, other: bytes) -> bytes:
    """Byte for byte, one AND the other."""
    size = min(len(one), len(other))
    both = int.from_bytes(one[:size], "little") & int.from_bytes(other[:size], "little")
    return both.to_bytes(size, "little")
