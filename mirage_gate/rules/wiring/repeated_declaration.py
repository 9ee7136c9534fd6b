"""MG108: a name is declared twice, or two names share one literal pointer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import Declaration
from mirage_gate.artifacts.names import layer_in, role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG108",
    "repeated-declaration",
    Severity.ERROR,
    "A name is declared twice, or two names share one literal pointer.",
    why="""
        `all_tensors` is a map: the later declaration wins, and every task that names the
        tensor gets it. Two names on one address are one tensor under two names: writing one
        overwrites the other, and where layers have a weight of their own each, two of them at
        one address compute with one. Where tasks only read it, as when several MTP steps share
        one norm, or where most layers share so, it is a note.
    """,
    example='`all_tensors["layer_0_q_norm"] = …;` stands twice: attached in two places.',
    fix="Attach each tensor once, under one name.",
)


@RULE.checked_by
def repeated_declaration(facts: RankFacts) -> Iterator[Finding]:
    first_at: dict[str, Declaration] = {}
    pointers: dict[str, Declaration] = {}
    shared = _shared(facts)
    for declaration in facts.cuda.declarations:
        name = declaration.name
        earlier = first_at.setdefault(name, declaration)
        if earlier is not declaration:
            yield RULE.finding(
                facts.rank,
                (
                    f"{name} is declared again (first on line {earlier.location.line}): "
                    "the later declaration replaces the earlier"
                ),
                declaration.location,
                hint=f"attach {name} once",
                related=(earlier.location.saying("declared here first"),),
                tensor=name,
            )
        if not declaration.pointer:
            continue
        other = pointers.setdefault(declaration.pointer, declaration)
        if other.name != name:
            writers = facts.wiring.producers(name) or facts.wiring.producers(other.name)
            alone = _alone(facts, shared, other.name, name)
            what = alone or "tasks only read it"
            if writers:
                what = f"written by {tasks(facts, writers)}"
            yield RULE.finding(
                facts.rank,
                f"{name} and {other.name} are one address, {declaration.pointer} ({what})",
                declaration.location,
                hint="attach each tensor once, under one name",
                severity=Severity.ERROR if writers or alone else Severity.NOTE,
                related=(other.location.saying(f"{other.name} is declared here"),),
                tensor=name,
                others=(other.name,),
            )


def _shared(facts: RankFacts) -> Counter[tuple[str, str, bool]]:
    """Count the tensors at an address of another one: by the roles of both, in one layer or two."""
    first: dict[str, str] = {}
    counts: Counter[tuple[str, str, bool]] = Counter()
    for name, declaration in facts.declared.items():
        if declaration.pointer:
            other = first.setdefault(declaration.pointer, name)
            if other != name:
                counts[_kinds(other, name)] += 1
    return counts


def _kinds(one: str, other: str) -> tuple[str, str, bool]:
    return role_of(one), role_of(other), layer_in(one) == layer_in(other)


def _alone(facts: RankFacts, shared: Counter[tuple[str, str, bool]], one: str, other: str) -> str:
    """Say why two tensors that are only read may not be one, where that is certain."""
    layers = layer_in(one), layer_in(other)
    if {"cos", "sin"} == {word for name in (one, other) for word in _words(name)}:
        return "the tables of cosine and sine"
    if None in layers:
        return ""
    siblings = sum(role_of(name) == role_of(other) for name in facts.declared)
    if shared[_kinds(one, other)] * 2 <= siblings and siblings > 1:
        return "in most layers each has its own"
    return ""


def _words(name: str) -> set[str]:
    return {"cos", "sin"} & set(re.split(r"[^a-z0-9]+", name.lower()))
