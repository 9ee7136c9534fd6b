"""Which rules speak, and how loud."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from mirage_gate.findings import INPUT, Finding, Severity
from mirage_gate.rules.base import all_rules


class Selection(msgspec.Struct, frozen=True):
    """Which rules speak, and how loud.

    ``select`` and ``ignore`` are rule ids, families (``MG1``) or globs (``MG10?``); an empty
    ``select`` means all. ``severities`` maps a rule id to the severity its findings get.
    Raises :class:`ValueError` for a word that names no rule: a mistyped one would select
    nothing, and every graph would pass.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: dict[str, Severity] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for word in (*self.select, *self.ignore, *self.severities):
            if not any(names(word, rule.id) for rule in all_rules()):
                raise ValueError(f"{word!r} names no rule; `mirage-gate explain` lists them")

    def wants(self, rule: str) -> bool:
        """Whether the rule's findings are to be reported."""
        if rule.startswith(INPUT):
            return True  # what could not be read can be neither selected nor ignored away
        if any(names(word, rule) for word in self.ignore):
            return False
        return not self.select or any(names(word, rule) for word in self.select)

    def weigh(self, finding: Finding) -> Finding:
        """Give a finding the severity that the user set for its rule."""
        severity = self.severities.get(finding.rule, finding.severity)
        if severity is finding.severity:
            return finding
        return msgspec.structs.replace(finding, severity=severity)


def names(word: str, rule: str) -> bool:
    return rule == word or rule.startswith(word) or fnmatchcase(rule, word)
