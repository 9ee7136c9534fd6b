"""Waivers: findings that are known and accepted, for a reason and perhaps until a day.

A waiver that nothing needs any more would hide the next finding that it happens to match,
so it is reported itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase

import msgspec

from mirage_gate.findings import INPUT, Finding, Location


class Waiver(msgspec.Struct, frozen=True):
    """One waiver: ``rule`` is an id, ``tensor`` a name or a pattern."""

    rule: str
    tensor: str
    reason: str
    location: Location
    expires: date | None = None

    def covers(self, finding: Finding) -> frozenset[str]:
        """Which of the finding's tensors it speaks of; ``""`` of one that is about none.

        What could not be read cannot be waived.
        """
        if finding.rule != self.rule or finding.rule.startswith(INPUT):
            return frozenset()
        return frozenset(n for n in finding.tensors or ("",) if fnmatchcase(n, self.tensor))

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires


class Stale(msgspec.Struct, frozen=True):
    """A waiver that did nothing, and why."""

    waiver: Waiver
    why: str
    expired: bool = False


def apply(
    findings: Sequence[Finding], waivers: Sequence[Waiver], today: date
) -> tuple[list[Finding], list[Finding], list[Stale]]:
    """Give (findings left, those that were waived, waivers that did nothing).

    A finding about several tensors is waived when all of them are; until then it is about
    those that are not. What follows from a finding that is waived is not: it is said itself.
    """
    if not waivers:
        return list(findings), [], []
    in_force = [waiver for waiver in waivers if not waiver.expired(today)]
    used: set[int] = set()
    left, waived = [], []
    judged = list(findings)
    for finding in judged:  # grows by what waived findings let go
        covered: dict[str, Waiver] = {}
        for i, waiver in enumerate(in_force):
            if names := waiver.covers(finding):
                used.add(i)
                covered |= dict.fromkeys(names, waiver)
        rest = [name for name in finding.tensors or ("",) if name not in covered]
        if not covered:
            left.append(finding)
        elif rest:
            first, *others = rest
            left.append(msgspec.structs.replace(finding, tensor=first, others=tuple(others)))
        else:
            reason = next(iter(covered.values())).reason
            waived.append(msgspec.structs.replace(finding, hidden=f"waived: {reason}", folded=()))
            judged += finding.folded
            continue
        # What follows is not said itself for now: a waiver of it waits, and is not stale.
        used |= {i for one in finding.folded for i, w in enumerate(in_force) if w.covers(one)}
    stale = []
    for waiver in waivers:
        if waiver.expired(today):
            stale.append(Stale(waiver, f"expired on {waiver.expires}", expired=True))
    for i, waiver in enumerate(in_force):
        if i not in used:
            stale.append(Stale(waiver, "matches no finding"))
    return left, waived, stale
