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

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of this finding. What could not be read cannot be waived."""
        return (
            finding.rule == self.rule
            and not finding.rule.startswith(INPUT)
            and fnmatchcase(finding.tensor, self.tensor)
        )

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
) -> tuple[list[Finding], int, list[Stale]]:
    """Give (findings left, how many were waived, waivers that did nothing)."""
    if not waivers:
        return list(findings), 0, []
    in_force = [waiver for waiver in waivers if not waiver.expired(today)]
    used: set[int] = set()
    left = []
    for finding in findings:
        covering = [i for i, waiver in enumerate(in_force) if waiver.covers(finding)]
        used.update(covering)
        if not covering:
            left.append(finding)
    stale = []
    for waiver in waivers:
        if waiver.expired(today):
            stale.append(Stale(waiver, f"expired on {waiver.expires}", expired=True))
    for i, waiver in enumerate(in_force):
        if i not in used:
            stale.append(Stale(waiver, "matches no finding"))
    return left, len(findings) - len(left), stale
