"""One mistake, one finding: what several rules say of one cause is said once.

Two findings have one cause where all that the one claims is what the other claims
(:class:`mirage_gate.findings.Claim`), and only then: a rule says in its claims what is wrong and
where, and makes none that it cannot show. The more severe one stays; the other becomes a place
among its related ones, with its words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from mirage_gate.findings import Claim, Finding

_PRECISE = ("MG703", "MG701", "MG702", "MG005", "MG004")
"""Of equally severe findings the one stays that points most closely."""


def fold(found: Sequence[Finding]) -> list[Finding]:
    """Fold findings of one rank into those of the same cause; what is left keeps its order."""
    claims = [(at, one) for at, one in enumerate(found) if isinstance(one, Claim) and one.about]
    claims.sort(key=lambda pair: (-pair[1].severity.weight, _rank(pair[1]), pair[0]))
    folded: dict[int, int] = {}
    causes: defaultdict[object, list[tuple[int, str, frozenset[object]]]] = defaultdict(list)
    for at, one in claims:
        mine = frozenset(one.about)
        # Who claims all of it claims the first of it: only those are looked at.
        claiming = causes.get(one.about[0], ())
        cause = next((n for n, rule, its in claiming if rule != one.rule and mine <= its), None)
        if cause is not None:
            folded[at] = cause
            continue
        for claim in mine:
            causes[claim].append((at, one.rule, mine))
    followers: dict[int, list[Finding]] = {}
    for at, cause in sorted(folded.items()):
        followers.setdefault(cause, []).append(found[at])
    return [
        _with(_plain(one), followers.get(at, ()))
        for at, one in enumerate(found)
        if at not in folded
    ]


def _rank(finding: Finding) -> int:
    return _PRECISE.index(finding.rule) if finding.rule in _PRECISE else len(_PRECISE)


def _plain(finding: Finding) -> Finding:
    return finding.plain if isinstance(finding, Claim) else finding


def _with(finding: Finding, others: Sequence[Finding]) -> Finding:
    if not others:
        return finding
    more = [
        other.location.saying(f"{other.rule} says the same: {other.message}") for other in others
    ]
    places = [place for other in others for place in other.related]
    related = tuple(dict.fromkeys([*finding.related, *more, *places]))
    return msgspec.structs.replace(finding, related=related)
