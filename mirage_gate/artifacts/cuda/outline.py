"""The functions of a masked text, and the parts of it that never run.

One pass over braces, directives, ``if`` and ``return``. Of the alternatives of a conditional
that is not decided the first one's braces count.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from mirage_gate.artifacts.cuda.text import DIRECTIVE, in_word, is_clean
from mirage_gate.patterns import later

INIT = "_init_persistent_kernel"
LOADER = "construct_task_graph"
DISPATCH = ("_execute_task", "_execute_gang_task")

_BRACES = re.compile(r"[{}]|#(?=[^\S\n]*(?:if|el|endif))")
_RETURN = re.compile(r"return\b")
_KNOWN = re.compile(rf"(?:{'|'.join((INIT, LOADER, *DISPATCH))})(?=\s*\()")
_IF = re.compile(r"if\s*(?:constexpr\s*)?\(")
_DECIDED = re.compile(r"\b(?:false|true|nullptr)\b|(?:[(!]|&&|\|\|)\s*\d")
_PARENTHESIS = re.compile(r"[()]")
_HEAD = re.compile(r"(?<!\w)(?!(?:if|for|while|switch|catch|else|return|sizeof)\b)\w+\s*\(")
_LONGEST_HEAD = 4096
_LONGEST_CONDITION = 1024
_LITERAL = later(r"(?:(?P<false>false|nullptr|0[xX]?0*)|true|0*[1-9][0-9]*)[uUlL]*")


class Region(msgspec.Struct):
    """A function's text, from its head to one past its end.

    ``name`` is empty for one that the audit does not know.
    """

    start: int
    end: int
    name: str


class _Block(msgspec.Struct):
    """A block that is open. ``left``: where a ``return`` in it ended, or a directive after one."""

    at: int
    is_function: bool
    left: int = -1


class Outline:
    """What stands where.

    ``closed`` maps the place of each opening brace to that of the closing one. ``never`` are the
    opening braces of blocks behind a condition that is false. ``bodies`` maps the name of a
    function to the brace that opens it. ``unclosed`` is the first brace
    that stays open.
    """

    def __init__(self, masked: str) -> None:
        self.masked = masked
        self.closed: dict[int, int] = {}
        self.never: set[int] = set()
        self.bodies: dict[str, int] = {}
        self.regions: list[Region] = []
        self.unclosed: int | None = None
        self._dead: list[tuple[int, int]] = []
        self._open: list[_Block] = []
        self._current: Region | None = None
        self._whole = True  # whether the current function's head is all there
        self._depth = 0  # functions that are open
        self._gap = 0  # where the text outside of functions goes on
        self._looked = 0  # up to here parameters have been looked through
        self._conditions()
        self._walk()
        self._dead_starts, self._dead_ends = _merged(self._dead)

    def parts(self) -> Iterator[tuple[str | None, int, int]]:
        """Give (function, start, end) of the whole text, in order; None is outside of all."""
        low = 0
        for region in self.regions:
            if low < region.start:
                yield None, low, region.start
            yield region.name, region.start, region.end
            low = region.end
        if low < len(self.masked):
            yield None, low, len(self.masked)

    def runs(self, at: int) -> bool:
        """Whether the statement at ``at`` is not behind a return or a false condition."""
        index = bisect_right(self._dead_starts, at) - 1
        return index < 0 or at >= self._dead_ends[index]

    def _walk(self) -> None:
        masked = self.masked
        low, clean = 0, True
        passed_over = 0
        alternatives: list[bool] = []
        for at, word in self._tokens():
            if word == "#":
                clean = is_clean(masked, low, at, clean)
                if clean and (directive := DIRECTIVE.match(masked, at)):
                    passed_over += alternative(directive[1], alternatives)
                    self._undecided(at)
                clean, low = False, at + 1
                continue
            if word in "{}":
                clean, low = False, at + 1
            if passed_over:
                continue
            if word == "{":
                self._opens(at)
            elif word == "}":
                self._closes(at)
            elif word == "return":
                self._returns(at)
            elif not self._depth:
                self._names(at, word)
        if self._open:
            self.unclosed = self._open[0].at
        while self._open:
            self._closes(len(masked))
        self._end_region(len(masked))

    def _tokens(self) -> list[tuple[int, str]]:
        """Give (offset, what) of braces, directives, returns, and the names of known functions."""
        masked = self.masked
        tokens = [(found.start(), found[0]) for found in _BRACES.finditer(masked)]
        for pattern in (_RETURN, _KNOWN):
            words = [(found.start(), found[0]) for found in pattern.finditer(masked)]
            tokens += [word for word in words if not in_word(masked, word[0])]
        tokens.sort()
        return tokens

    def _names(self, at: int, word: str) -> None:
        """A function that is known is named outside of all: its head, unless a semicolon ends it.

        Where only part of a file was kept, the head's own end may be missing.
        """
        closes = -1
        if at >= self._looked:
            closes = self._closing(self.masked.index("(", at))
            if closes >= 0 and self.masked[closes + 1 : closes + 65].lstrip().startswith(";"):
                return
        self._end_region(at)
        self._current = Region(at, len(self.masked), word)
        self._whole = closes >= 0

    def _opens(self, at: int) -> None:
        is_function = False
        if not self._depth:
            if self._current is None:
                head = self.masked[max(self._gap, at - _LONGEST_HEAD) : at]
                head = head[max(head.rfind(";"), head.rfind("}")) + 1 :]
                if found := _HEAD.search(head):
                    self._current = Region(at - len(head) + found.start(), len(self.masked), "")
                    self._whole = head.count("(") == head.count(")")
            is_function = self._current is not None and self._whole
            if is_function and self._current:
                self.bodies[self._current.name] = at
            self._gap = at + 1
        self._depth += is_function
        self._open.append(_Block(at, is_function))

    def _closes(self, at: int) -> None:
        if not self._open:
            self._end_region(at)
            self._gap = at + 1
            return
        block = self._open.pop()
        self.closed[block.at] = at
        if block.left >= 0:
            self._dead.append((block.left, at))
        if block.at in self.never:
            self._dead.append((block.at, at))
        if block.is_function:
            self._depth -= 1
            self._end_region(at)
        if not self._depth:
            self._gap = at + 1

    def _end_region(self, at: int) -> None:
        if self._current is not None:
            self._current.end = at
            self.regions.append(self._current)
            self._current = None

    def _undecided(self, at: int) -> None:
        """A directive: what comes after a return may be another alternative."""
        if self._open and 0 <= self._open[-1].left < at:
            self._dead.append((self._open[-1].left, at))
            self._open[-1].left = -1

    def _returns(self, at: int) -> None:
        before = self.masked[max(at - 64, 0) : at].rstrip()
        if not self._open or before[-1:] not in ("", ";", "{", "}"):
            return  # it hangs on a condition, or on a label
        end = self.masked.find(";", at, at + _LONGEST_HEAD) + 1
        if end and self._open[-1].left < 0:
            self._open[-1].left = end

    def _closing(self, start: int) -> int:
        end = closing(self.masked, start)
        self._looked = end if end >= 0 else start + _LONGEST_CONDITION
        return end

    def _conditions(self) -> None:
        """Find the statements that hang on a condition which constants make false."""
        masked = self.masked
        looked = 0
        for found in _IF.finditer(masked):
            at, start = found.start(), found.end() - 1
            if at < looked or in_word(masked, at):
                continue
            block = masked.find("{", start, start + _LONGEST_CONDITION)
            if not _DECIDED.search(masked, start, block if block >= 0 else start + 256):
                looked = block if block >= 0 else start + 128
                continue
            end = closing(masked, start)
            looked = end if end >= 0 else start + _LONGEST_CONDITION
            if end < 0 or _constant(masked[start + 1 : end]) is not False:
                continue
            if masked[end + 1 : end + 65].lstrip().startswith("{"):
                self.never.add(masked.index("{", end))
            else:
                self._dead.append((at, masked.find(";", end, end + _LONGEST_HEAD) + 1))


def alternative(word: str, alternatives: list[bool]) -> int:
    """Follow a directive; give by how much more alternatives are passed over."""
    if word.startswith("if"):
        alternatives.append(False)
    elif alternatives and word == "endif":
        return -alternatives.pop()
    elif alternatives and not alternatives[-1]:
        alternatives[-1] = True
        return 1
    return 0


def closing(masked: str, start: int) -> int:
    """Find the parenthesis that closes the one at ``start``; -1 if it is far, or none."""
    depth = 0
    for found in _PARENTHESIS.finditer(masked, start, start + _LONGEST_CONDITION):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.start()
    return -1


def _constant(condition: str, depth: int = 0) -> bool | None:
    """Give the value of a condition that constants decide; None for any other."""
    condition = condition.strip()
    if depth > 16 or not condition:
        return None
    for operator, decides in (("||", True), ("&&", False)):
        parts = _split(condition, operator)
        if len(parts) > 1:
            values = [_constant(part, depth + 1) for part in parts]
            if decides in values:
                return decides
            return None if None in values else not decides
    if condition.startswith("!") and not condition.startswith("!="):
        value = _constant(condition[1:], depth + 1)
        return None if value is None else not value
    if condition.startswith("(") and closing(condition, 0) == len(condition) - 1:
        return _constant(condition[1:-1], depth + 1)
    literal = _LITERAL.fullmatch(condition)
    return literal["false"] is None if literal else None


def _split(condition: str, operator: str) -> list[str]:
    """Split at an operator that stands outside of parentheses."""
    parts = []
    depth = start = 0
    for found in re.finditer(r"[()\[\]{}]|\|\||&&", condition):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
        elif found[0] == operator and not depth:
            parts.append(condition[start : found.start()])
            start = found.end()
    return [*parts, condition[start:]]


def _merged(spans: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Give the starts and the ends of the spans' union, ascending."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(spans):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        elif end > start:
            starts.append(start)
            ends.append(end)
    return starts, ends
