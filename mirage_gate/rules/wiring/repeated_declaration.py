"""MG108: a name is declared twice, or two names share one literal pointer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import Declaration
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
        overwrites the other. Where tasks only read it, as when several MTP steps share one
        norm, it is a note.
    """,
    example='`all_tensors["layer_0_q_norm"] = …;` stands twice: attached in two places.',
    fix="Attach each tensor once, under one name.",
)


@RULE.checked_by
def repeated_declaration(facts: RankFacts) -> Iterator[Finding]:
    first_at: dict[str, Declaration] = {}
    pointers: dict[str, Declaration] = {}
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
            shared = f"written by {tasks(facts, writers)}" if writers else "tasks only read it"
            yield RULE.finding(
                facts.rank,
                f"{name} and {other.name} are one address, {declaration.pointer} ({shared})",
                declaration.location,
                hint="attach each tensor once, under one name",
                severity=Severity.ERROR if writers else Severity.NOTE,
                related=(other.location.saying(f"{other.name} is declared here"),),
                tensor=name,
            )
