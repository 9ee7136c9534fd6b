"""Architectures as data: what a model's layers compute, in the notation of plans and a few marks.

One file each in ``architectures/``, found because it is there. A statement reads as in a plan
(:mod:`mirage_gate.facts.plan`); weights are called by their roles
(:mod:`mirage_gate.facts.model.words`). The marks:

``models: llama mistral``
    the ``model_type`` of the configurations that the file is for.
``layers:``, ``layers dense:``, ``layers moe:``, ``end:``
    what every layer does, what one class of layers does behind it, what comes after the layers.
``q_norm?``
    an operand that is there where the configuration says so.
``~x``, ``~~x``
    a value that may be rotated on its way, or has to be where the configuration says so.
``sum linear(a, o_proj)``
    what is summed over the ranks, exactly once, where they share out the weight's columns.
``act_mul``
    the gated activation that the configuration names.
``any``
    whatever operand, or whatever operator.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

import msgspec

_STATEMENT = re.compile(r"(?P<results>[\w, ]+?) = (?P<right>.+)")
_CALL = re.compile(r"(?P<operator>\w+)\((?P<operands>.*)\)")
_OPERAND = re.compile(r"\{[^}]*\}|[^,{}]+")

Section = Literal["start", "layers", "dense", "moe", "end"]


class Wanted(msgspec.Struct, frozen=True):
    """One operand as it should be.

    ``names`` are one value, or the roles of weights. ``optional``: where the configuration says
    so. ``rotated`` is 0 for never, 1 for perhaps, 2 for where the configuration says so.
    """

    names: tuple[str, ...]
    optional: bool = False
    rotated: int = 0

    def __str__(self) -> str:
        text = ", ".join(name.partition(":")[0].rpartition(".")[2] for name in self.names)
        if self.rotated == 2:
            return f"rope({text})"
        return f"{{{text}}}" if len(self.names) > 1 else text


class Term(msgspec.Struct, frozen=True):
    """One summand: a value by name. ``summed``: over the ranks as well."""

    name: str
    summed: bool = False


class Rule(msgspec.Struct, frozen=True):
    """One statement as it should be: a call, or a sum of values.

    ``text`` is how a message says it.
    """

    results: tuple[str, ...]
    text: str
    operator: str = ""
    operands: tuple[Wanted, ...] = ()
    terms: tuple[Term, ...] = ()


class Architecture(msgspec.Struct, frozen=True):
    """What a model's layers compute."""

    name: str
    models: frozenset[str]
    sections: dict[Section, tuple[Rule, ...]]

    def layer(self, mixes: bool) -> tuple[Rule, ...]:
        """The statements of a layer of one class."""
        own = self.sections.get("moe" if mixes else "dense", ())
        return self.sections.get("layers", ()) + own


@cache
def architectures() -> tuple[Architecture, ...]:
    """Every architecture that has a file."""
    from importlib import resources

    folder = resources.files(__package__) / "architectures"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".plan")), key=lambda f: f.name
    )
    return tuple(parse(file.name[: -len(".plan")], file.read_text("utf-8")) for file in files)


def architecture_of(model_type: str) -> Architecture | None:
    """The architecture of a model's type, if there is a file for it."""
    return next((one for one in architectures() if model_type in one.models), None)


def parse(name: str, text: str) -> Architecture:
    """Read one file. Raises :class:`ValueError` for a line that means nothing."""
    models: frozenset[str] = frozenset()
    sections: dict[Section, list[Rule]] = {}
    section: Section = "start"
    headers: dict[str, Section] = {
        "layers:": "layers",
        "layers dense:": "dense",
        "layers moe:": "moe",
        "end:": "end",
    }
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("models:"):
            models = frozenset(line.removeprefix("models:").split())
        elif line in headers:
            section = headers[line]
        elif line:
            sections.setdefault(section, []).extend(_rules(line))
    return Architecture(name, models, {key: tuple(rules) for key, rules in sections.items()})


def _rules(line: str) -> list[Rule]:
    """Read one statement: a call, and the sum that it is a part of."""
    found = _STATEMENT.fullmatch(line)
    if found is None:
        raise ValueError(f"{line!r} is no statement")
    results = tuple(word.strip() for word in found["results"].split(","))
    summands = found["right"].split(" + ")
    shown = line.replace("sum ", "")
    if len(summands) == 1 and not summands[0].startswith("sum "):
        call = _call(summands[0])
        wanted = ", ".join(map(str, call[1]))
        text = f"{found['results']} = {call[0]}({wanted})"
        return [Rule(results, text, call[0], call[1])]
    rules: list[Rule] = []
    terms: list[Term] = []
    for summand in summands:
        summed = summand.startswith("sum ")
        plain = summand.removeprefix("sum ")
        if "(" in plain:
            inner = f"{results[0]}'"
            operator, operands = _call(plain)
            rules.append(Rule((inner,), shown, operator, operands))
            plain = inner
        terms.append(Term(plain, summed))
    return [*rules, Rule(results, shown, terms=tuple(terms))]


def _call(text: str) -> tuple[str, tuple[Wanted, ...]]:
    found = _CALL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no call")
    operands = [part.strip() for part in _OPERAND.findall(found["operands"])]
    return found["operator"], tuple(_wanted(part) for part in operands if part)


def _wanted(text: str) -> Wanted:
    rotated = len(text) - len(text.lstrip("~"))
    text = text.lstrip("~")
    optional = text.endswith("?")
    text = text.rstrip("?")
    names = text.strip("{}").split(",") if text.startswith("{") else [text]
    return Wanted(tuple(name.strip() for name in names), optional, rotated)
