r"""C++ text with everything blanked that the compiler does not take for code.

Comments go first, everywhere: one may stand before a directive on its line, or hold what looks
like one, in dead code too. Then strings, for a directive in one is none. Of conditionals only
those are decided whose condition is a constant; in the others every branch is code.

The patterns begin with one of a few characters, and the search for those is quick. Every one
consumes what it has looked at, so the time is linear in the text, whatever it holds.
"""

from __future__ import annotations

import re
import string

import msgspec

from mirage_gate.patterns import later

_NOISE = re.compile(r"/(?=[/*])|\"|'|#(?=[^\S\n]*(?:if|el|endif))")
_COMMENT = re.compile(
    r"""
      //[^\n\\]*(?:\\\r?\n?[^\n\\]*)*                     # to the end of the (spliced) line
    | /\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?
    """,
    re.VERBOSE,
)
_RAW = later(r"\"(?P<delimiter>[^()\\\s\"]{0,16})\(")
_QUOTED = re.compile(
    r"\"[^\"\\\n]*(?:\\(?:\r\n|.)[^\"\\\n]*)*\"?|'[^'\\\n]*(?:\\(?:\r\n|.)[^'\\\n]*)*'?",
    re.DOTALL,
)
_RAW_PREFIXES = ("R", "u8R", "uR", "UR", "LR")
_LONGEST_NUMBER = 64
_IN_NUMBER = string.ascii_letters + string.digits + "_.'"
DIRECTIVE = later(r"#[^\S\n]*(ifdef|ifndef|if|elifdef|elifndef|elif|else|endif)\b")
_CONSTANT = later(
    r"[^\S\n]*\(?[^\S\n]*(?:(?P<false>0+|0[xX]0+|false)|0*[1-9][0-9]*|true)[uUlL]*"
    r"[^\S\n]*\)?[^\S\n]*(?=$|//|/\*)",
    re.MULTILINE,
)
_NOT_NEWLINE = re.compile(r"[^\n]")
_MASK = "\x01"

NUMBER = r"(?:0[xX][0-9a-fA-F][0-9a-fA-F']*|0[bB][01][01']*|[0-9][0-9']*)[uUlLzZ]{0,3}"
"""A whole number as C++ writes it: ``0xff'ff``, ``0b101``, ``017``, ``1'000UL``."""


class _Conditional(msgspec.Struct):
    """An ``#if`` that is open.

    ``outer``: it stands in live code. ``live``: so does its present branch. ``taken``: a
    branch with a true condition has been; what follows is dead. ``constant``: so far no
    condition but constants, so that its directives say nothing and are blanked.
    """

    outer: bool
    live: bool
    taken: bool = False
    constant: bool = False


def mask(text: str) -> str:
    r"""Blank out comments and dead code, and mask the contents of strings.

    The result has the same length; every double quote in it belongs to a real string, whose
    contents are ``\x01`` repeated. So a statement inside a comment or a string is never
    taken for one, and a name is read from the original text at the same offsets.
    """
    parts: list[str] = []
    open_: list[_Conditional] = []
    done = 0  # up to here everything is in ``parts``
    at = low = 0  # from ``low`` to ``at`` there is nothing but code and blanks
    clean = True  # nothing but blanks and comments since the line of ``low`` began
    live = True
    while found := _NOISE.search(text, at):
        at = found.start()
        clean = is_clean(text, low, at, clean)
        kind = text[at]
        if kind == "#":
            directive = DIRECTIVE.match(text, at) if clean else None
            end = directive.end() if directive else at + 1
            if directive:
                shown = _enter(open_, directive[1], _constant(text, end), live)
                was, live = live, not open_ or open_[-1].live
                if was or live:
                    before = text[done:at] if was else _blank(text, done, at)
                    parts += (before, text[at:end] if shown is None else shown.ljust(end - at))
                    done = end
            clean = False
            at = low = end
            continue
        end = _end(text, at)
        if live and end > at + 1:
            parts += (text[done:at], _masked(text, at, end))
            done = end
        clean = clean and kind == "/"
        at = low = end
    parts.append(text[done:] if live else _blank(text, done, len(text)))
    return "".join(parts)


def _enter(open_: list[_Conditional], word: str, value: bool | None, live: bool) -> str | None:
    """Follow a directive; give what is to stand in its place, None for itself.

    ``value`` is that of the condition, None where it is no constant or there is none.
    """
    if word.startswith("if"):
        value = value if word == "if" else None
        known = value is not None
        open_.append(_Conditional(live, live and value is not False, bool(value), known))
        return "" if known else None
    if not open_:
        return None
    top = open_[-1]
    if word == "endif":
        open_.pop()
        return "" if top.constant else None
    value = value if word == "elif" else None
    top.live = top.outer and not top.taken and value is not False
    top.taken = top.taken or value is True
    if not top.constant:
        return None
    if word == "else" or value is not None or top.taken:
        return ""
    top.constant = False  # all before it was dead: it is as good as the first branch
    return "#if"


def _constant(text: str, at: int) -> bool | None:
    """Give the value of the condition that begins at ``at``; None for one that is no constant."""
    found = _CONSTANT.match(text, at)
    return None if found is None else found["false"] is None


def is_clean(text: str, low: int, at: int, clean: bool) -> bool:
    """Whether the line of ``at`` has nothing but blanks and comments before it.

    ``clean`` says so of ``low``, up to which everything has been looked at.
    """
    newline = text.rfind("\n", low, at)
    while newline >= 0 and text[max(newline - 2, 0) : newline].removesuffix("\r").endswith("\\"):
        newline = text.rfind("\n", low, newline)  # a line that goes on
    if newline >= 0:
        clean, low = True, newline
    between = text[low:at]
    if "\\" in between:
        between = between.replace("\\\r\n", "").replace("\\\n", "")
    return clean and (not between or between.isspace())


def _end(text: str, at: int) -> int:
    """Give the end of the comment, string or character that begins at ``at``."""
    if text[at] == "/":
        comment = _COMMENT.match(text, at)
        return comment.end() if comment else at + 1
    if raw := _raw(text, at):
        closing = f'){raw["delimiter"]}"'
        end = text.find(closing, raw.end())
        return len(text) if end < 0 else end + len(closing)
    quoted = None if _separates_digits(text, at) else _QUOTED.match(text, at)
    return quoted.end() if quoted else at + 1


def _raw(text: str, at: int) -> re.Match[str] | None:
    """Give the opening of a raw string, if the quote at ``at`` belongs to one."""
    if text[at] != '"' or not text.endswith("R", 0, at):
        return None
    prefixes = (at - len(prefix) for prefix in _RAW_PREFIXES if text.endswith(prefix, 0, at))
    return _RAW.match(text, at) if any(not in_word(text, start) for start in prefixes) else None


def _separates_digits(text: str, at: int) -> bool:
    """Whether the apostrophe at ``at`` stands in a number, such as ``1'000`` or ``0xff'ff``."""
    if text[at] != "'":
        return False
    before = text[max(at - _LONGEST_NUMBER, 0) : at]
    number = before[len(before.rstrip(_IN_NUMBER)) :]
    return number[:1].isdigit()


def in_word(text: str, at: int) -> bool:
    """Whether the character before ``at`` makes a word with what is there."""
    return at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")


def _blank(text: str, start: int, end: int) -> str:
    return _NOT_NEWLINE.sub(" ", text[start:end])


def _masked(text: str, at: int, end: int) -> str:
    if text[at] != '"':
        return _blank(text, at, end)
    if _raw(text, at):
        return _MASK * (end - at)
    closed = end - at > 1 and text[end - 1] == '"'
    return '"' + _MASK * (end - at - 1 - closed) + '"' * closed


def number(digits: str) -> int:
    """Read a :data:`NUMBER`; one of absurd length means: larger than any memory."""
    digits = digits.rstrip("uUlLzZ").replace("'", "")
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 8 if digits.startswith("0") else 10)
    digits = (digits[2:] if base in (2, 16) else digits).lstrip("0") or "0"
    if len(digits) > 64 or (base == 8 and not set(digits) <= set("01234567")):
        return _ABSURD
    return min(int(digits, base), _ABSURD)


_ABSURD = 1 << 63
