"""Templates: what a name can come out as, as far as the text tells.

A template is texts and holes in a row. A hole is filled by any text, by a number, or by what
the caller of a function gives for one of its parameters.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal

import msgspec

MOST_ALTERNATIVES = 64
"""What can come out as more texts than this is unknown."""


class Hole(msgspec.Struct, frozen=True):
    """A part of a name that the text does not tell: any text, or a number."""

    kind: Literal["any", "number"]


class Parameter(msgspec.Struct, frozen=True):
    """A part of a name that the caller of a function gives."""

    name: str


ANY, NUMBER = Hole("any"), Hole("number")
Part = str | Hole | Parameter
Template = tuple[Part, ...]
UNKNOWN: list[Template] = [(ANY,)]
NUMBERS: list[Template] = [(NUMBER,)]


def matches(template: Template, name: str) -> bool:
    """Whether some text in the holes makes ``name``; no backtracking."""
    ends = {0}
    for part in template:
        if isinstance(part, str):
            ends = {end + len(part) for end in ends if name.startswith(part, end)}
        elif part == NUMBER:
            ends = {stop for end in ends for stop in _digits(name, end)}
        else:
            ends = set(range(min(ends, default=len(name) + 1), len(name) + 1))
        if not ends:
            return False
    return len(name) in ends


def _digits(name: str, start: int) -> Iterator[int]:
    """Every end of a number of at most six digits that begins at ``start``."""
    for stop in range(start, min(start + 6, len(name))):
        if not (name[stop].isascii() and name[stop].isdigit()):
            return
        yield stop + 1


def is_literal(template: Template) -> bool:
    return len(template) == 1 and isinstance(template[0], str)


def is_number(template: Template) -> bool:
    (part, *more) = template
    return not more and (part == NUMBER or (isinstance(part, str) and part.isdecimal()))


def products(choices: Sequence[list[Template]]) -> list[Template]:
    """Every way to join one of each choice's texts."""
    size = 1
    for texts in choices:
        size *= len(texts)
        if size > MOST_ALTERNATIVES:
            return UNKNOWN
    return list(dict.fromkeys(joined(parts) for parts in product(*choices)))


def joined(templates: Iterable[Template]) -> Template:
    """One template after the other, neighbouring texts and holes run together."""
    parts: list[Part] = []
    for part in (part for template in templates for part in template):
        last = parts[-1] if parts else None
        if isinstance(part, str) and isinstance(last, str):
            parts[-1] = last + part
        elif part != "" and not (part == ANY and last == ANY):
            parts.append(part)
    return tuple(parts) or ("",)


def formatted(
    text: Part, arguments: Sequence[list[Template]], words: dict[str, list[Template]]
) -> list[Template]:
    """What ``text.format(...)`` gives."""
    choices: list[list[Template]] = []
    number = 0
    try:
        pieces = list(string.Formatter().parse(str(text)))
    except ValueError:
        return UNKNOWN
    for literal, field, spec, conversion in pieces:
        choices.append([(literal,)])
        if field is None:
            continue
        if field == "":
            field, number = str(number), number + 1
        given = words.get(field)
        if given is None and field.isdecimal() and int(field) < len(arguments):
            given = arguments[int(field)]
        plain = given is not None and (not (spec or conversion) or given == NUMBERS)
        choices.append(given if given is not None and plain else UNKNOWN)
    return products(choices)


def percent(text: Part, arguments: Sequence[list[Template]]) -> list[Template]:
    """What ``text % (...)`` gives."""
    choices: list[list[Template]] = []
    waiting = list(arguments)
    pieces = str(text).split("%")
    choices.append([(pieces[0],)])
    index = 1
    while index < len(pieces):
        piece = pieces[index]
        if not piece and index + 1 < len(pieces):
            choices.append([("%" + pieces[index + 1],)])
            index += 2
            continue
        flags = piece[: len(piece) - len(piece.lstrip("0123456789.-+ #"))]
        kind, rest = piece[len(flags) : len(flags) + 1], piece[len(flags) + 1 :]
        if not waiting or kind not in tuple("sdiu"):
            return UNKNOWN
        given = waiting.pop(0)
        if kind != "s":
            given = given if given == NUMBERS or all(map(is_literal, given)) else NUMBERS
        choices.append(UNKNOWN if flags and given != NUMBERS else given)
        choices.append([(rest,)])
        index += 1
    return products(choices)
