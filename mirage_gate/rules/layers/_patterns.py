"""Patterns over the layers: every second one, five local and one global, with one hole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple, TypeVar

_LONGEST = 16
"""The longest period that is looked for."""

_TIMES = 4
"""How often a period must fit into the layers, to be one."""

WITNESSES = 3
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
        if len(odd) == 1 and times >= WITNESSES and found is None:
            alike = [n for n in labels if n % period == odd[0] % period and labels[n] == label]
            found = Hole(odd[0], period, sorted(alike))
    return found


def slip_in(some: Collection[int], layers: Collection[int]) -> Hole | None:
    """Find the one layer but for which some layers are every second, third, … of all.

    Less is asked than of a hole: of layers that are no pattern something is said in any case,
    and this is which of them. None where more than one may be it.
    """
    found: list[Hole] = []
    for step in range(2, min(_LONGEST, len(layers) // 2) + 1):
        for rest in range(step):
            every = {n for n in layers if n % step == rest}
            odd = every ^ set(some)
            if len(odd) == 1 and len(every - odd) >= WITNESSES:
                (layer,) = odd
                inside = layer in every
                like = every - odd if inside else set(layers) - every - odd
                found.append(Hole(layer, step, sorted(like)))
    return found[0] if len({hole.layer for hole in found}) == 1 else None
