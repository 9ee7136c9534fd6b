"""Whether the brackets of a masked text close."""

from __future__ import annotations

import re
from bisect import bisect_right

from mirage_gate.artifacts.cuda.outline import alternative
from mirage_gate.artifacts.cuda.text import DIRECTIVE, is_clean
from mirage_gate.patterns import later

_BRACKET = later(r"[()\[\]{}]|#(?=[^\S\n]*(?:if|el|endif))")
_DEFINE = later(
    r"^[^\S\n]*#[^\S\n]*define\b[^\\\n]*(?:\\(?:\r\n|.)[^\\\n]*)*", re.MULTILINE | re.DOTALL
)
_NOT_NEWLINE = later(r"[^\n]")
_OPENS = {")": "(", "]": "["}


def unclosed(masked: str) -> int | None:
    """Give the place of the first parenthesis or square bracket that stays open; None if all close.

    Macros may hold one bracket of two, and of alternatives the first one counts. Where only part
    of a file was kept, the head of a function may be cut: one parenthesis before a block is let
    pass, and one that closes more than there was open.
    """
    if all(masked.count(opens) == masked.count(closes) for closes, opens in _OPENS.items()):
        return None
    masked = _DEFINE.sub(lambda found: _NOT_NEWLINE.sub(" ", found[0]), masked)
    stack: list[tuple[str, int]] = []
    blocks: list[int] = []  # those that stand in no other
    depth = 0
    low, clean = 0, True
    alternatives: list[bool] = []
    passed_over = 0
    for found in _BRACKET.finditer(masked):
        word, at = found[0], found.start()
        clean = is_clean(masked, low, at, clean)
        if word == "#" and clean and (directive := DIRECTIVE.match(masked, at)):
            passed_over += alternative(directive[1], alternatives)
        clean, low = False, at + 1
        if word == "#" or passed_over:
            continue
        if word in "([{":
            stack.append((word, at))
            if word == "{":
                blocks += [] if depth else [at]
                depth += 1
        elif word != "}":
            if stack and stack[-1][0] == _OPENS[word]:
                stack.pop()
        elif depth:
            inside: int | None = None
            while stack[-1][0] != "{":
                inside = stack.pop()[1]
            if inside is not None:
                return inside
            stack.pop()
            depth -= 1
    return _outside([at for word, at in stack if word != "{"], blocks)


def _outside(left: list[int], blocks: list[int]) -> int | None:
    """Give the first of these that stands in no head: each block behind them excuses one."""
    first = None
    excused = 0
    for at in reversed(left):
        if len(blocks) - bisect_right(blocks, at) > excused:
            excused += 1
        else:
            first = at
    return first
