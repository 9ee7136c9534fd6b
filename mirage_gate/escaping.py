"""Showing text that others wrote: tensor names, paths, messages made of them.

A name may hold anything a JSON string may hold. Every medium has its own way to be fooled,
so each has one function here; all of them first make visible what would not print.
"""

from __future__ import annotations

import re

from mirage_gate.patterns import later

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


_LONG_WORD = later(rf"\S{{{_LONGEST_WORD + 1},}}")


def plain(text: str) -> str:
    """One line that cannot steer a terminal and does not flood it: the ``text`` report."""
    if len(text) > _LONGEST_WORD:
        text = _LONG_WORD.sub(lambda word: shorten(word[0], _LONGEST_WORD), text)
        text = shorten(text, _LONGEST_TEXT)
    return visible(text)


# Brackets that stay literal text in any reading: paired, not nested, and no "(" after them.
_PLAIN_CHARACTER = r"(?:[^\[\]\\]|\\(?![\[\]\\]))"
_HARMLESS_BRACKETS = later(rf"(?:{_PLAIN_CHARACTER}|\[{_PLAIN_CHARACTER}*\](?!\())*")


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


def workflow_data(text: str) -> str:
    """The message of a GitHub workflow command, on one line."""
    # The runner also knows an older form of command, `##[...]`, anywhere in a line.
    return plain(text).replace("%", "%25").replace("##[", "# #[")


def workflow_property(text: str) -> str:
    """A property's value in a GitHub workflow command."""
    return workflow_data(text).replace(":", "%3A").replace(",", "%2C")


# Words of plain English, with their punctuation; and a word in brackets or before a comma.
_PLAIN_WORD = later(r"""["'(]*(?:[A-Za-z0-9]+(?:[-'/][A-Za-z0-9]+)*)?[)"',;:.!?]*|[→–—≠×]""")
_BRACKETED = later(r"(\(?)(.*?)([),;:.]*)", re.DOTALL)


def markdown(text: str, cell: bool = False) -> str:
    """One line of GitHub-flavoured Markdown; ``cell`` for one that stands in a table.

    Plain English stays as it is. Every other word, such as a tensor's name, becomes code,
    in which nothing is a link, a mention, an image, a formula or HTML.
    """
    parts: list[str] = []
    code: list[str] = []
    opening = ""

    def close(closing: str = "") -> None:
        nonlocal opening
        if code:
            parts.append(f"{opening}{markdown_code(' '.join(code), cell)}{closing}")
        opening = ""
        code.clear()

    for word in plain(text).split(" "):
        if word and _PLAIN_WORD.fullmatch(word):
            close()
            parts.append(word)
            continue
        before, core, after = _split_off(word)
        if before:
            close()
            opening = before
        code.append(core)
        if after:
            close(after)
    close()
    return " ".join(parts)


def _split_off(word: str) -> tuple[str, str, str]:
    """Part the bracket and the punctuation that belong to the sentence from a word."""
    found = _BRACKETED.fullmatch(word)
    return (found[1], found[2], found[3]) if found and found[2] else ("", word, "")


def markdown_code(text: str, cell: bool = False) -> str:
    """A code span of GitHub-flavoured Markdown that holds ``text`` and nothing else."""
    text = plain(text)
    if not text.strip():
        # A code span cannot be empty, and loses blanks that stand alone.
        return f"({len(text)} blanks)" if text else "(the empty name)"
    if cell:
        # A backslash before the bar's own would take it away, and the bar would end the cell.
        text = text.replace("|", r"\x7c" if r"\|" in text else r"\|")
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"
