"""GitHub's ``primaryLocationLineHash``, equal to what its uploader would compute.

The uploader (``src/fingerprints.ts`` of github/codeql-action) hashes every line of the file:
the 100 UTF-16 code units from the line's start, blanks and tabs left out and every line
ending a line feed, taken as digits of a number to the base 37, modulo 2^64. Past the file's
end stand U+FFFF and zeros. The fingerprint is that hash and how many lines up to this one
have it: ``54703d4cd895b18:1``.

The count is what takes time. A task graph has a million lines that look alike, a few
findings, and 37 is so small a base that different text on a line can well share a hash
(``aZ`` and ``b5`` do): lines cannot be told apart by comparing text. So the hash's lowest
byte is computed for all places at once, in the 16-bit lanes of big integers, and the whole
hash only where a line starts and that byte fits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from operator import mul

_WINDOW = 100
_BASE = 37
_PLACES = tuple(pow(_BASE, _WINDOW - 1 - place, 1 << 64) for place in range(_WINDOW))
_END = "\uffff"

_READ = 1 << 20
_LANES = 1 << 14
_CACHED = 1 << 16


def line_hashes(path: str, lines: Collection[int]) -> dict[int, str]:
    """The fingerprint of each of ``lines`` (1-based); lines the file lacks are left out.

    A line ends where the uploader says so: at a line feed, a carriage return, or both.
    """
    if not lines:
        return {}
    text = _read(path, max(lines))
    starts = {start: line for line, start in _line_starts(text, lines)}
    wanted = {start: _hash(_window(text, start)) for start in starts}
    seen = dict.fromkeys(wanted.values(), 0)
    hash_of = lru_cache(_CACHED)(_hash)

    found: dict[int, str] = {}
    lowest_bytes = {value & 0xFF for value in seen}
    for start in _candidates(text, lowest_bytes, max(wanted, default=-1) + 1):
        value = hash_of(_window(text, start))
        if value in seen:
            seen[value] += 1
            if start in wanted:
                found[starts[start]] = f"{value:x}:{seen[value]}"
    return found


def _read(path: str, last: int) -> str:
    """The code units that are hashed, up to the end of the window of line ``last``.

    Text mode decodes bytes that are no UTF-8 as the uploader does, one U+FFFD for each
    ill-formed part, keeps a byte order mark, and turns all three line endings into one.
    """
    pieces = []
    newlines = 0
    with open(path, encoding="utf-8", errors="replace", newline=None) as file:  # noqa: PTH123
        # A hundred lines after the last one, its window is full.
        while newlines < last + _WINDOW and (piece := file.read(_READ)):
            newlines += piece.count("\n")
            # Bytes lose their blanks seven times faster than text.
            pieces.append(piece.encode().translate(None, b" \t").decode())
    text = "".join(pieces)
    if not text.isascii():
        text = re.sub("[\U00010000-\U0010ffff]", _surrogates, text)
    return text


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def _window(text: str, start: int) -> str:
    """The code units that count for the line at ``start``, without the zeros past the end."""
    window = text[start : start + _WINDOW]
    return window if len(window) == _WINDOW else window + _END


def _hash(window: str) -> int:
    value: int = sum(map(mul, map(ord, window), _PLACES))
    return value & 0xFFFF_FFFF_FFFF_FFFF


def _line_starts(text: str, lines: Collection[int]) -> Iterator[tuple[int, int]]:
    """Give (line, where it starts). The last line may hold nothing but the end."""
    left = sorted({line for line in lines if line >= 1}, reverse=True)
    if left and left[-1] == 1:
        yield left.pop(), 0
    line = 1
    for first in range(0, len(text), _READ):
        if not left:
            return
        stop = first + _READ
        newlines = text.count("\n", first, stop)
        # A stretch in which no wanted line starts is counted, the others are walked.
        at = first
        while left and left[-1] <= line + newlines:
            at = text.find("\n", at, stop) + 1
            line, newlines = line + 1, newlines - 1
            if line == left[-1]:
                yield left.pop(), at
        line += newlines


def _candidates(text: str, lowest_bytes: Collection[int], stop: int) -> Iterator[int]:
    """Every line start before ``stop`` whose hash may end in one of ``lowest_bytes``."""
    fits = bytes(byte in lowest_bytes for byte in range(256))
    is_newline = bytes(byte == 0x0A for byte in range(256))
    before = "\n"
    for first in range(0, stop, _LANES):
        units = text[first : first + _LANES + _WINDOW]
        if len(units) < _LANES + _WINDOW:
            units += _END
        hashes = _lowest_bytes(units)
        preceding = (before + units)[:_LANES].encode("utf-16-le", "surrogatepass")[::2]
        hits = _both(hashes.translate(fits), preceding.translate(is_newline))
        at = hits.find(1)
        while 0 <= at < stop - first:
            # So far only the lower half of the unit before is known to be a line feed's.
            if (units[at - 1] if at else before) == "\n":
                yield first + at
            at = hits.find(1, at + 1)
        before = units[_LANES - 1 : _LANES]


def _lowest_bytes(units: str) -> bytes:
    """The lowest byte of the hash of the window at each of the first ``_LANES`` places.

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
    return hashes.to_bytes(len(data), "little")[: 2 * _LANES : 2]


def _both(one: bytes, other: bytes) -> bytes:
    """Byte for byte, one AND the other."""
    size = min(len(one), len(other))
    both = int.from_bytes(one[:size], "little") & int.from_bytes(other[:size], "little")
    return both.to_bytes(size, "little")
