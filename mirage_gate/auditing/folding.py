"""One mistake, one finding: what several rules say of one cause is said once.

Two findings have one cause where all that the one claims is what the other claims, or what
follows from it (:class:`mirage_gate.findings.Claim`), and only then: a rule says in its claims
what is wrong and where, and makes none that it cannot show. The more severe one stays, and of
equally severe ones the cause; the other becomes a place among its related ones, with its words.
It is kept, for it is said itself where the one that stays is waived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from mirage_gate.findings import Claim, Finding, Location

_PRECISE = ("MG703", "MG701", "MG702", "MG005", "MG004")
"""Of equally severe findings the one stays that points most closely."""

_MOST = 8
"""Findings that cause the same, of which one is looked for that stays."""

_SAME, _FOLLOWS = "says the same", "follows from it"


def fold(found: Sequence[Finding]) -> list[Finding]:
    """Fold findings of one rank into those of the same cause; what is left keeps its order."""
    claims = [(at, one) for at, one in enumerate(found) if isinstance(one, Claim)]
    claims.sort(key=lambda pair: (-pair[1].severity.weight, *_rank(pair[1]), pair[0]))
    causing: defaultdict[str, list[int]] = defaultdict(list)
    for at, one in claims:
        for word in one.causes:
            causing[word].append(at)
    claiming: defaultdict[str, list[tuple[int, str, frozenset[str]]]] = defaultdict(list)
    into: dict[int, tuple[int, str]] = {}
    severity = [one.severity.weight for one in found]

    def root(at: int) -> int:
        while at in into:
            at = into[at][0]
        return at

    for at, one in claims:
        mine = frozenset(one.about)
        # Who claims all of it claims the first of it: only those are looked at.
        for cause, rule, its in claiming.get(one.about[0], ()) if mine else ():
            if rule != one.rule and mine <= its:
                into[at] = cause, _SAME if mine == its else _FOLLOWS
                break
        else:
            for claim in mine:
                claiming[claim].append((at, one.rule, mine))
    # A cause that follows from a more severe one is as severe as that: once more, then.
    for at, one in (*claims, *claims):
        words = one.follows if at not in into else ()
        for n in (root(n) for word in words for n in causing.get(word, ())[:_MOST]):
            if n != at and severity[n] >= severity[at]:
                into[at] = n, _FOLLOWS
                break
    folded: dict[int, list[tuple[Finding, str]]] = {}
    for at, (_, how) in sorted(into.items()):
        folded.setdefault(root(at), []).append((found[at], how))
    return [
        _with(_plain(one), folded.get(at, ())) for at, one in enumerate(found) if at not in into
    ]


def _rank(finding: Finding) -> tuple[int, int]:
    """Where a finding stands among equally severe ones: causes before what follows."""
    precise = _PRECISE.index(finding.rule) if finding.rule in _PRECISE else len(_PRECISE)
    return precise, finding.family


def _plain(finding: Finding) -> Finding:
    return finding.plain if isinstance(finding, Claim) else finding


def _with(finding: Finding, others: Sequence[tuple[Finding, str]]) -> Finding:
    """Give a finding with those folded into it, each with how it belongs there."""
    if not others:
        return finding
    related = dict.fromkeys([*finding.related, *_places(others)])
    folded = tuple(_plain(other) for other, _ in others)
    return msgspec.structs.replace(finding, related=tuple(related), folded=folded)


def _places(others: Sequence[tuple[Finding, str]]) -> Iterator[Location]:
    for other, how in others:
        yield other.location.saying(f"{other.rule} {how}: {other.message}")
    for other, _ in others:
        yield from other.related
