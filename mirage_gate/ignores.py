"""Findings that a comment in the builder says are meant, and comments that say it for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from mirage_gate.artifacts.builder.ignores import Ignore, read
from mirage_gate.findings import INPUT, Finding, Location
from mirage_gate.rules import rule_by_id
from mirage_gate.rules.agreed import stale_waiver


class Ignores:
    """The comments of all builders that findings were traced to, and which of them are used."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Ignore, ...]] = {}
        self._used: set[Ignore] = set()

    def look_at(self, paths: Iterable[str]) -> None:
        """Read the comments of some builders, whether findings are about them or not."""
        for path in paths:
            if path not in self._of:
                self._of[path] = read(path)

    def hide(self, finding: Finding, places: Iterable[Location]) -> Finding | None:
        """Give the finding as hidden if a comment at one of the places speaks of its rule."""
        if finding.rule.startswith(INPUT):
            return None
        for place in places:
            self.look_at([place.path])
            for ignore in self._of[place.path]:
                near = place.line <= ignore.location.line <= max(place.line, place.end_line)
                if near and finding.rule in _ids(ignore):
                    self._used.add(ignore)
                    reason = ignore.reason or "no reason given"
                    return msgspec.structs.replace(finding, hidden=f"ignored: {reason}")
        return None

    def stale(self, wants: Callable[[str], bool]) -> Iterator[Finding]:
        """Say which comments no finding needed, of those whose rules were asked (MG803)."""
        for comments in self._of.values():
            for ignore in comments:
                ids = _ids(ignore)
                if not ids:
                    named = "names no rule" if not ignore.rules else "names none that there is"
                    why = f"{named}: nothing is ignored"
                elif ignore in self._used or not all(map(wants, ids)):
                    continue
                else:
                    why = "is needed by no finding"
                yield stale_waiver.RULE.finding(
                    0,
                    f"the comment {ignore.text} {why}",
                    ignore.location,
                    hint="take it out, or name the rule of the finding that it is for",
                )


def _ids(ignore: Ignore) -> frozenset[str]:
    known = (rule_by_id(word) for word in ignore.rules)
    return frozenset(rule.id for rule in known if rule is not None)
