"""What a rule is, and the table of all of them.

The table is the single source for the SARIF rule metadata, ``explain``, the rules page of
the documentation and the severities a user may configure.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from inspect import cleandoc
from typing import Any, Literal, TypeVar

from mirage_gate.findings import Claim, Finding, Location, Severity

Scope = Literal["rank", "ranks", "memory"]
"""What a check looks at: a ``RankFacts``; the ``Ranks`` of one run; a ``Memory`` and they.

A rank's facts are gone when the next rank is read. What compares ranks, or a run with an
earlier one, looks at summaries (:mod:`mirage_gate.agreed.summary`).
"""

Check = Callable[[Any], Iterator[Finding]]
_C = TypeVar("_C", bound=Check)


class Rule:
    """One claim the gate can prove: its text for the user, and the check that proves it.

    ``claim`` is one line; ``why``, ``example`` and ``fix`` are the help text's sections in
    Markdown; ``limits`` says when the rule is wrong to complain or cannot see. ``severity``
    is the default, which a finding may lower. ``scope`` says what ``check`` is given; it is
    None for what the readers themselves report (MG9: the files could not be taken in).
    ``folder`` names the family by its folder: ``wiring``, ``bytes``.

    ``repeats`` says of a rule about one rank that it looks at tasks, events and bytes near
    each other, so that what it finds in a layer it finds in every layer that is the same. It is
    asked of a graph without the layers that repeat others (:mod:`mirage_gate.facts.shortened`)
    first, and of the whole only where it finds something. What most layers have it counts with
    :meth:`RankFacts.times_of_layer`; a rule that looks for patterns over all of them must
    not say so.
    """

    def __init__(
        self,
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
        repeats: bool = False,
    ) -> None:
        self.id = id
        self.name = name
        self.severity = severity
        self.claim = claim
        self.scope = scope
        self.repeats = repeats
        self.folder = ""
        self.check: Check | None = None
        self._texts = {"why": why, "example": example, "fix": fix, "limits": limits}

    def __repr__(self) -> str:
        return f"<Rule {self.id} {self.name}>"

    def checked_by(self, check: _C) -> _C:
        """Make the decorated function the rule's check."""
        self.check = check
        return check

    def finding(
        self,
        rank: int,
        message: str,
        location: Location,
        *,
        hint: str,
        severity: Severity | None = None,
        related: Iterable[Location] = (),
        trace: Iterable[Location] = (),
        tensor: str = "",
        others: Iterable[str] = (),
        about: Iterable[str] = (),
        causes: Iterable[str] = (),
        follows: Iterable[str] = (),
    ) -> Finding:
        """Say what the rule proved of one rank, as severe as the rule is unless told otherwise.

        ``message`` says what and why in one line, ``hint`` how to fix it; see
        :class:`mirage_gate.findings.Finding`. ``about`` is what it claims, where other rules may
        claim the same; ``causes`` and ``follows`` are what it has to do with what others claim;
        see :class:`mirage_gate.findings.Claim`.
        """
        return Claim(
            rule=self.id,
            severity=self.severity if severity is None else severity,
            message=message,
            location=location,
            hint=hint,
            related=tuple(related),
            trace=tuple(trace),
            tensor=tensor,
            rank=rank,
            others=tuple(dict.fromkeys(name for name in others if name != tensor)),
            about=tuple(about),
            causes=tuple(causes),
            follows=tuple(follows),
        )

    # A text is put into shape when it is read: an audit reads none.
    @cached_property
    def why(self) -> str:
        """Why it matters."""
        return cleandoc(self._texts["why"])

    @cached_property
    def example(self) -> str:
        """What it looks like."""
        return cleandoc(self._texts["example"])

    @cached_property
    def fix(self) -> str:
        """How to mend it."""
        return cleandoc(self._texts["fix"])

    @cached_property
    def limits(self) -> str:
        """When the rule is wrong to complain, or cannot see."""
        return cleandoc(self._texts["limits"])

    @property
    def title(self) -> str:
        """The name in Pascal case, as SARIF wants it: ``UnwiredCriticalTensor``."""
        return "".join(part.capitalize() for part in self.name.split("-"))

    @property
    def family(self) -> str:
        """The catalogue's family: ``MG1`` for ``MG101``."""
        return self.id[:3]


def _files() -> Iterator[tuple[str, str]]:
    """Give (family's folder, file's name) of every rule. Plain calls: each run makes them."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    for folder in sorted(os.listdir(here)):  # noqa: PTH208
        if "." not in folder and not folder.startswith("_"):
            for file in sorted(os.listdir(f"{here}/{folder}")):  # noqa: PTH208
                if file.endswith(".py") and not file.startswith("_"):
                    yield folder, file[:-3]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id: the ``RULE`` of every module in a family's folder beside this one."""
    found: dict[str, Rule] = {}
    for folder, name in _files():
        rule = importlib.import_module(f"{__package__}.{folder}.{name}").RULE
        rule.folder = folder
        other = found.setdefault(rule.id, rule)
        if other is not rule or rule.name.replace("-", "_") != name:
            raise ValueError(
                f"{folder}/{name}.py: {rule.id} ({rule.name}) stands twice or misnamed"
            )
    return tuple(found[id] for id in sorted(found))


def question_of(folder: str) -> str:
    """Give the question that a family of rules asks: the first line of its package's text."""
    text = importlib.import_module(f"{__package__}.{folder}").__doc__ or ""
    return text.strip().partition("\n")[0]


def rule_by_id(key: str) -> Rule | None:
    """Look a rule up by id or name, in any case."""
    wanted = key.strip().lower()
    return next((rule for rule in all_rules() if wanted in (rule.id.lower(), rule.name)), None)
