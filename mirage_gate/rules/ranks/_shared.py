"""Which rank most of the others agree with, and which do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import Summary

_T = TypeVar("_T", bound=Hashable)


def _usual(values: Sequence[tuple[Summary, _T]]) -> Summary:
    """Give the first rank that has what most ranks have."""
    times = Counter(value for _, value in values)
    most = max(times.values())
    return next(summary for summary, value in values if times[value] == most)


def odd_ones(
    ranks: Ranks, value: Callable[[Summary], _T]
) -> tuple[Summary, list[tuple[Summary, _T]]] | None:
    """Give the rank to compare with, and those that differ from it; None if none does."""
    values = [(summary, value(summary)) for summary in ranks.audited]
    if len(values) < 2:
        return None
    usual = _usual(values)
    expected = value(usual)
    odd = [(summary, found) for summary, found in values if found != expected]
    return (usual, odd) if odd else None


def first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """Give the first place where two sequences differ, or where the shorter one ends."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
