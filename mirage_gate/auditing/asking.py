"""Asking the rules: each that speaks, of what its scope looks at.

A rule that breaks is a mistake of ours, and must not pass what it was to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mirage_gate import steps
from mirage_gate.facts import RankFacts
from mirage_gate.findings import Claim, Finding
from mirage_gate.rules.base import Rule, Scope, all_rules

if TYPE_CHECKING:
    from mirage_gate.auditing.selection import Selection

MANY = 50_000
"""From so many tasks on a second process saves more than it costs."""

MOST = 1_000
"""Findings that are listed of one rule and subject: nobody reads more, and reports stay small."""

_ASIDE = frozenset({"order", "values", "events", "kernels"})
"""The families that are about half of the work, and need little of what the others do."""

Answer = tuple[list[Finding], str]
"""What rules say, and what went wrong with them: empty for nothing."""


def ask(scope: Scope, subject: object, selection: Selection) -> Answer:
    """Ask every rule of one scope that is selected."""
    return _ask(subject, _speaking(scope, selection), selection)


def ask_of_rank(facts: RankFacts, selection: Selection, beside: bool = False) -> Answer:
    """Ask of one rank.

    ``beside``: of a big graph, those on order, events and kernels in a second process.
    """
    rules = _speaking("rank", selection)
    aside = [rule for rule in rules if rule.folder in _ASIDE]
    beside = beside and len(facts.graph.tasks) >= MANY and facts.shortened is None
    if not (beside and 0 < len(aside) < len(rules)):
        return _ask(facts, rules, selection)
    from mirage_gate.auditing import workers

    if not workers.can_fork():
        return _ask(facts, rules, selection)
    for name in facts.regions.names:
        facts.regions.of(name)  # what both sides need is worked out once
    process = workers.start(_ask, facts, aside, selection)
    try:
        found, failure = _ask(facts, [rule for rule in rules if rule not in aside], selection)
    except BaseException:
        process.stop()
        raise
    answer = process.wait()
    if isinstance(answer, workers.Broke):
        return found, failure or answer.reason
    found += answer[0]
    return sorted(found, key=lambda finding: finding.rule), failure or answer[1]


def _speaking(scope: Scope, selection: Selection) -> list[Rule]:
    return [rule for rule in all_rules() if rule.scope == scope and selection.wants(rule.id)]


def _ask(subject: object, rules: Sequence[Rule], selection: Selection) -> Answer:
    found: list[Finding] = []
    for number, rule in enumerate(rules):
        steps.say(f"judging {rule.id}", number, len(rules))
        try:
            if rule.check is not None and not silent_in_short(rule, subject):
                found += _listed([selection.weigh(finding) for finding in rule.check(subject)])
        except Exception as error:
            return found, f"internal error in {rule.id}: {type(error).__name__}: {error}"
    return found, ""


def silent_in_short(rule: Rule, subject: object) -> bool:
    """Whether a rule finds nothing in a graph without the layers that repeat others."""
    if not (rule.repeats and rule.check and isinstance(subject, RankFacts) and subject.shortened):
        return False
    return next(rule.check(subject.shortened.facts), None) is None


def _listed(found: list[Finding]) -> list[Finding]:
    """Leave out what is too much to list, the least severe first, and say how much that is."""
    if len(found) <= MOST:
        return found
    found.sort(key=lambda finding: -finding.severity.weight)
    first, count = found[MOST], len(found) - MOST
    rest = msgspec.structs.replace(
        first.plain if isinstance(first, Claim) else first,  # it stands for more than it claims
        message=f"{count:,} more findings of this rule are not listed; the first: {first.message}",
        related=(),
        trace=(),
        tensor="",  # a waiver of one tensor does not waive the others
    )
    return [*found[:MOST], rest]
