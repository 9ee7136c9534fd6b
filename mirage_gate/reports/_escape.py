"""Showing text that others wrote: tensor names, paths, messages made of them.

A name may hold anything a JSON string may hold. Every medium has its own way to be fooled,
so each has one function here; all of them first make visible what would not print.
"""

from __future__ import annotations

import re

_LONGEST_WORD = 200
_LONGEST_TEXT = 4_000
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Write every character that does not print as an escape: ``\x1b``, ``\u202e``.

    Those are Unicode's controls, format characters (bidi marks, zero widths), surrogates,
    private and unassigned code points, and every separator but the plain space.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten(text: str, limit: int) -> str:
    """Leave out the middle of a text longer than ``limit`` characters, and say how much."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    head = limit - tail
    return f"{text[:head]}...({len(text) - limit:,} characters)...{text[-tail:]}"


_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")


def plain(text: str) -> str:
    """One line that cannot steer a terminal and does not flood it: the ``text`` report."""
    if len(text) > _LONGEST_WORD:
        text = _LONG_WORD.sub(lambda word: shorten(word[0], _LONGEST_WORD), text)
        text = shorten(text, _LONGEST_TEXT)
    return visible(text)


# Brackets that stay literal text in any reading: paired, not nested, and no "(" after them.
_PLAIN_CHARACTER = r"(?:[^\[\]\\]|\\(?![\[\]\\]))"
_HARMLESS_BRACKETS = re.compile(rf"(?:{_PLAIN_CHARACTER}|\[{_PLAIN_CHARACTER}*\](?!\())*")


def sarif_message(text: str) -> str:
    r"""A part of a SARIF plain text message in which nothing is a link or a placeholder.

    SARIF 2.1.0 has literal braces doubled (3.11.5) and the brackets of a link's text escaped
    by a backslash (3.11.6). Viewers disagree on a backslash outside of links, so brackets
    that no reader can take for a link, like those of ``[278, 296]``, stay as they are.
    """
    text = plain(text)
    if not _HARMLESS_BRACKETS.fullmatch(text):
        text = _brackets_escaped(text)
    return text.replace("{", "{{").replace("}", "}}")


def sarif_link(text: str, target: int) -> str:
    """A link of a SARIF message to the related location whose id is ``target``."""
    text = _brackets_escaped(plain(text)).replace("{", "{{").replace("}", "}}")
    return f"[{text}]({target})"


def _brackets_escaped(text: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", text)
