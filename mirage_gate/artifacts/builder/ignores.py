"""Comments in a builder that say of a finding on their line that it is meant.

    cos = mpk.attach_input(table, name="rope_cos")  # mirage-gate: ignore[MG102] next release

Rules are ids or names, separated by commas; a reason follows. The comment stands on any line of
the call that the finding is about.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from importlib.util import decode_source

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.findings import Location

_COMMENT = re.compile(r"#\s*mirage-gate:\s*ignore\b\s*(?:\[([^\[\]]{0,400})\])?[\s:,-]*(.*)")
_MARK = b"mirage-gate"


class Ignore(msgspec.Struct, frozen=True):
    """One comment: the rules it speaks of, as written, and why."""

    rules: tuple[str, ...]
    reason: str
    location: Location

    @property
    def text(self) -> str:
        """The comment without its reason."""
        return f"ignore[{', '.join(self.rules)}]"


def read(path: str) -> tuple[Ignore, ...]:
    """Give the comments of one builder; a file that is no Python has none."""
    try:
        data = files.read(path)
        if _MARK not in data:
            return ()
        return tuple(_found(path, decode_source(data)))
    except (files.Unreadable, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return ()


def _found(path: str, source: str) -> Iterator[Ignore]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.match(token.string)):
                line, column = token.start[0], token.start[1] + 1
                end = column + len(token.string)
                rules = tuple(word.strip() for word in (match[1] or "").split(",") if word.strip())
                at = Location(path, line, column, line, end)
                yield Ignore(rules, match[2].strip(), at)
    except tokenize.TokenError:
        return  # it ends in the middle: what came before counts
