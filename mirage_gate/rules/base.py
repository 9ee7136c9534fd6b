"""What a rule is, and the table of all of them.

The table is the single source for the SARIF rule metadata, ``explain``, the rules page of
the documentation and the severities a user may configure.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mirage_gate.findings import Severity

if TYPE_CHECKING:
    from mirage_gate.findings import Finding

Scope = Literal["rank", "ranks", "memory"]
"""What a check looks at: a ``RankFacts``; the ``Ranks`` of one run; a ``Memory`` and they.

A rank's facts are gone when the next rank is read. What compares ranks, or a run with an
earlier one, looks at summaries (:mod:`mirage_gate.summary`).
"""

Check = Callable[[Any], "Iterator[Finding]"]


class Rule(msgspec.Struct, frozen=True):
    """One claim the gate can prove.

    ``claim`` is one line; ``why``, ``example`` and ``fix`` are the help text's sections in
    Markdown; ``limits`` says when the rule is wrong to complain or cannot see. ``severity``
    is the default, which a finding may lower. ``scope`` says what ``check`` is given; it is
    None for what the readers themselves report (MG9: the files could not be taken in).
    """

    id: str
    name: str
    severity: Severity
    claim: str
    why: str
    example: str
    fix: str
    limits: str = ""
    scope: Scope = "rank"
    check: Check | None = None

    @property
    def title(self) -> str:
        """The name in Pascal case, as SARIF wants it: ``UnwiredCriticalTensor``."""
        return "".join(part.capitalize() for part in self.name.split("-"))

    @property
    def family(self) -> str:
        """The catalogue's family: ``MG1`` for ``MG101``."""
        return self.id[:3]


_rules: dict[str, Rule] = {}


def add(rule: Rule) -> Rule:
    """Put a rule into the table. An id or a name used twice is a mistake in the source."""
    if rule.id in _rules or any(rule.name == other.name for other in _rules.values()):
        raise ValueError(f"rule {rule.id} ({rule.name}) is defined twice")
    _rules[rule.id] = rule
    return rule


def rule(
    id: str,
    name: str,
    severity: Severity,
    claim: str,
    *,
    why: str,
    example: str,
    fix: str,
    limits: str = "",
    scope: Scope = "rank",
) -> Callable[[Check], Check]:
    """Make the decorated function the check of a new rule."""

    def decorate(check: Check) -> Check:
        add(
            Rule(
                id=id,
                name=name,
                severity=severity,
                claim=claim,
                why=cleandoc(why),
                example=cleandoc(example),
                fix=cleandoc(fix),
                limits=cleandoc(limits),
                scope=scope,
                check=check,
            )
        )
        return check

    return decorate


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id. Imports every ``mgN_*`` module beside this one."""
    package = importlib.import_module("mirage_gate.rules")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("mg"):
            importlib.import_module(f"mirage_gate.rules.{module.name}")
    return tuple(sorted(_rules.values(), key=lambda rule: rule.id))


def rule_by_id(key: str) -> Rule | None:
    """Look a rule up by id or name, in any case."""
    wanted = key.strip().lower()
    return next((rule for rule in all_rules() if wanted in (rule.id.lower(), rule.name)), None)
