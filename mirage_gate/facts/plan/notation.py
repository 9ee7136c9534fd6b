"""A plan as text, and back.

::

    plan      = { statement | block }
    block     = ("layer" | "layers") numbers ":" NEWLINE { INDENT statement }
    numbers   = range { "," range }          range = number [ "-" number ]
    statement = [ name { "," name } "=" ] expression
    expression = call { "+" term } | term "+" term { "+" term }
    call      = word "(" [ term { "," term } ] ")"
    term      = atom [ ":" atom ] | "{" term { "," term } "}"
    atom      = name [ "@" where ]           where = number | "-"number | "+"number | word

Names are letters, digits, ``_``, ``.`` and ``$``; ``none`` is an operand that is not there. What
follows a ``#`` is a comment. A name with another character in it stands in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mirage_gate.artifacts.names import spans
from mirage_gate.facts.words import ADD
from mirage_gate.patterns import later

MOST_LAYERS = 100_000
NONE = "none"
_NAME = later(r"[A-Za-z_$][\w.$]*")
_LAYERS = later(r"layers?(?=\s*\d)")
_TOKEN = later(
    r"""
    (?P<space>[ \t]+)|(?P<comment>\#.*)
    |(?P<name>[A-Za-z_$][\w.$]*|"(?:[^"\\\n]|\\.)*")
    |(?P<number>\d+)|(?P<mark>[=,():{}@+-])
    """,
    re.VERBOSE | re.ASCII,
)


class PlanError(Exception):
    """Text that is no plan. ``line`` and ``column`` count from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column
        self.message = message


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One operator: ``results = operator(operands) + added``.

    ``results`` are names, ``operands`` and ``added`` terms as they are written. ``where`` are
    the first tasks of the operator, one for each of the block's layers; ``tasks`` is how many
    there are in each, and ``types`` are theirs, by name. A plan that was read has none.
    """

    results: tuple[str, ...]
    operator: str
    operands: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    where: tuple[int, ...] = ()
    tasks: int = 0
    types: tuple[str, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        left = f"{', '.join(self.results)} = " if self.results else ""
        if self.operator == ADD and not self.added and len(self.operands) > 1:
            return f"{left}{' + '.join(self.operands)}"
        call = f"{self.operator}({', '.join(self.operands)})"
        return f"{left}{' + '.join([call, *self.added])}"


class Block(msgspec.Struct, frozen=True):
    """Statements that some layers have alike, or that stand outside of the layers.

    ``layers`` are their numbers in the order in which they run; empty outside of the layers.
    """

    layers: tuple[int, ...]
    statements: tuple[Statement, ...]

    @property
    def title(self) -> str:
        """The block's first line: ``layers 0-3, 5``; empty outside of the layers."""
        word = "layers" if len(self.layers) > 1 else "layer"
        return f"{word} {spans(self.layers)}" if self.layers else ""


class Plan(msgspec.Struct, frozen=True):
    """A program in blocks. ``str`` gives its text, which :func:`parse_plan` reads again."""

    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines())

    def lines(self) -> Iterator[str]:
        """Give the text line by line."""
        for block in self.blocks:
            if block.layers:
                yield f"{block.title}:"
            for statement in block.statements:
                yield f"{'  ' if block.layers else ''}{statement}"


def quoted(name: str) -> str:
    """Write a name as an atom."""
    if name.isascii() and _NAME.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def parse_plan(text: str) -> Plan:
    """Read a plan. Raises :class:`PlanError` where the text is none."""
    blocks: list[tuple[tuple[int, ...], list[Statement]]] = []
    inside = False
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        row = _Line(number, line.rstrip("\r"))
        if row.empty:
            continue
        layers = row.header()
        if layers is not None:
            blocks.append((layers, []))
            inside = True
            continue
        if inside and not row.indented:
            inside = False
            blocks.append(((), []))
        elif row.indented and not inside:
            raise PlanError(number, 1, "an indented statement stands under no `layers N:`")
        elif not blocks:
            blocks.append(((), []))
        blocks[-1][1].append(row.statement())
    if not blocks:
        raise PlanError(1, 1, "there is no statement: a plan begins as `x = embedding(…)`")
    return Plan(tuple(Block(layers, tuple(own)) for layers, own in blocks))


class _Line:
    """One line, taken apart."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        self.indented = text[:1] in (" ", "\t")
        self._tokens: list[_Token] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise PlanError(number, at + 1, f"{text[at]!r} means nothing here")
            kind = found.lastgroup or ""
            if kind not in ("space", "comment"):
                self._tokens.append(_Token(kind, found[0], at + 1))
            at = found.end()
        self._at = 0

    @property
    def empty(self) -> bool:
        return not self._tokens

    def _error(self, expected: str) -> PlanError:
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            return PlanError(self.number, token.column, f"expected {expected}, found {token.text}")
        end = len(self.text.rstrip()) + 1
        return PlanError(self.number, end, f"expected {expected}, and the line ends")

    def _peek(self, mark: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].text == mark

    def _take(self, mark: str) -> bool:
        if self._peek(mark):
            self._at += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(f"`{mark}`")

    def _number(self) -> int:
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "number":
            token = self._tokens[self._at]
            if len(token.text) > 9:
                raise self._error("a smaller number")
            self._at += 1
            return int(token.text)
        raise self._error("a number")

    def _name(self, what: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "name":
            self._at += 1
            return self._tokens[self._at - 1].text
        raise self._error(what)

    def header(self) -> tuple[int, ...] | None:
        """Read ``layers 0-3, 5:``; None for a statement."""
        if self.indented or not _LAYERS.match(self.text):
            return None
        self._at = 1
        layers: list[int] = []
        while True:
            first = self._number()
            last = self._number() if self._take("-") else first
            if last < first or len(layers) + last - first > MOST_LAYERS:
                self._at -= 1
                raise self._error(f"a number from {first} to {first + MOST_LAYERS}")
            layers += range(first, last + 1)
            if not self._take(","):
                break
        self._expect(":")
        self._end()
        return tuple(layers)

    def _end(self) -> None:
        if self._at < len(self._tokens):
            raise self._error("the end of the line")

    def statement(self) -> Statement:
        """Read ``a, b = operator(term, …) + term``."""
        results: list[str] = []
        if len(self._tokens) < 2 or self._tokens[1].text != "(":
            results.append(self._name("a name"))
            while self._take(","):
                results.append(self._name("a name"))
            self._expect("=")
        start = self._at
        word = self._name("an operator or a value") if not self._peek("{") else ""
        if word and self._take("("):
            operator, operands = word, self._terms()
            added = self._added()
        else:
            self._at = start
            operator, added = ADD, ()
            operands = (self._term(), *self._added())
            if len(operands) < 2:
                raise self._error("`(` or `+`")
        self._end()
        return Statement(
            results=tuple(results),
            operator=operator,
            operands=operands,
            added=added,
            line=self.number,
        )

    def _terms(self) -> tuple[str, ...]:
        if self._take(")"):
            return ()
        terms = [self._term()]
        while self._take(","):
            terms.append(self._term())
        if not self._take(")"):
            raise self._error("`,` or `)`")
        return tuple(terms)

    def _added(self) -> tuple[str, ...]:
        added = []
        while self._take("+"):
            added.append(self._term())
        return tuple(added)

    def _term(self) -> str:
        if self._take("{"):
            parts = [self._atom()]
            while self._take(","):
                parts.append(self._atom())
            if not self._take("}"):
                raise self._error("`,` or `}`")
            return braced(parts)
        return self._atom()

    def _atom(self) -> str:
        atom = self._plain()
        return f"{atom}:{self._plain()}" if self._take(":") else atom

    def _plain(self) -> str:
        name = self._name("a value")
        if not self._take("@"):
            return name
        for sign in ("-", "+"):
            if self._take(sign):
                return f"{name}@{sign}{self._number()}"
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "number":
            return f"{name}@{self._number()}"
        return f"{name}@{self._name('a layer')}"


def braced(parts: list[str]) -> str:
    """Write several sources of one operand."""
    return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"
