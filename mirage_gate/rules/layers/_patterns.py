"""Patterns over the layers: every second one, five local and one global, with one hole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

_LONGEST = 16
"""The longest period that is looked for."""

_TIMES = 4
"""How often a period must fit into the layers, to be one."""

_WITNESSES = 3
"""How many layers must have what the one in the hole was to have."""

Label = TypeVar("Label", bound=Hashable)


class Hole(NamedTuple):
    """The one layer that breaks a period; ``like`` are the layers that it should be like."""

    layer: int
    period: int
    like: list[int]


def hole_in(labels: Mapping[int, Label]) -> Hole | None:
    """Find the one layer that breaks a period of at least two kinds of layers.

    The first and the last layer may differ in any pattern, and no irregular choice is one.
    """
    if len(set(labels.values())) < 2:
        return None
    inner = sorted(labels)[1:-1]
    found: Hole | None = None
    for period in range(2, min(_LONGEST, len(labels) // _TIMES) + 1):
        counts: dict[int, Counter[Label]] = defaultdict(Counter)
        for layer in inner:
            counts[layer % period][labels[layer]] += 1
        usual = {rest: count.most_common(1)[0] for rest, count in counts.items()}
        if len({label for label, _ in usual.values()}) < 2:
            continue
        odd = [n for n in inner if labels[n] != usual[n % period][0]]
        if not odd:
            return None
        label, times = usual[odd[0] % period]
        if len(odd) == 1 and times >= _WITNESSES and found is None:
            alike = [n for n in labels if n % period == odd[0] % period and labels[n] == label]
            found = Hole(odd[0], period, sorted(alike))
    return found
