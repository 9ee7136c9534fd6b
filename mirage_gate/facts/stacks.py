"""Stacks of layers: a graph may hold more than one model, each with its own layers.

A draft model and the target, a vision tower and a language model, an encoder and a decoder:
each counts its layers from 0. What stands before the number tells them apart,
``draft_layer_0_q_proj`` from ``layer_0_q_proj``. Not every such word is a model's, though: one
model's weights are ``layer_3_q_proj`` and its caches ``k_cache_layer_3``. Those go through the
layers together, those of two models one after the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations, groupby, pairwise

import msgspec

from mirage_gate.facts.operators import Operator

_MOST = 16
"""More prefixes than this are no models."""

_STRAY = 3
"""So many operators with another model's weights amid one model's are a mistake, no model."""

_PLAIN = ("layer", "layers")
"""What names no model."""

Vote = tuple[str, int]
"""What stands before the layer's number in a name, and the number."""


class Stack(msgspec.Struct, frozen=True):
    """The layers of one model.

    ``prefix`` is what stands before the layer's number in most of its names. ``name`` is that as
    a word, and of a model that runs more than once which run it is; empty where the graph holds
    one model, and of one that is just ``layer_…``. ``start`` is the first of the operators that
    say a layer, by its place among them.
    """

    number: int
    name: str
    prefix: str
    start: int


def divide(
    operators: Sequence[Operator], numbered: Sequence[int], votes: Sequence[frozenset[Vote]]
) -> list[Stack]:
    """Divide the operators that say a layer into stacks.

    ``numbered`` are their places among all ``operators``, and ``votes`` what each one's names
    say.
    """
    if not votes:
        return []
    models = _models(votes)
    of = _smooth([models[min(vote)[0]] for vote in votes])
    starts, highest = [0], 0
    for at, (before, after) in enumerate(pairwise(numbered), 1):
        highest = max(highest, *(number for _, number in votes[at - 1]))
        between = (name for o in operators[before + 1 : after] for name in o.names())
        if of[at] != of[at - 1]:
            # One model's dense layers and its mixtures may have names of their own.
            goes_on = highest < min(number for _, number in votes[at])
            begins = not goes_on or any(name.weight for name in between)
        else:
            first = operators[numbered[starts[-1]]]
            begins = _alike(first, operators[after]) and any(name.weight for name in between)
        if begins:
            starts.append(at)
            highest = 0
    return _named(starts, votes)


def _models(votes: Sequence[frozenset[Vote]]) -> dict[str, int]:
    """Give each prefix the number of its model: prefixes that go through the layers together."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, vote in enumerate(votes):
        for prefix, number in vote:
            rows[prefix].append((at, number))
    models = {prefix: number for number, prefix in enumerate(rows)}
    if len(models) > _MOST:
        return dict.fromkeys(models, 0)
    for one, other in combinations(rows, 2):
        if models[one] != models[other] and _together(rows[one], rows[other]):
            old, new = models[other], models[one]
            models = {prefix: new if number == old else number for prefix, number in models.items()}
    return models


def _together(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    """Whether two prefixes' numbers rise together; (operator, number) of each."""
    here, there = {at for at, _ in one}, {at for at, _ in other}
    least = min(len(here), len(there))
    if 2 * len(here & there) < least:
        sides = [at in here for at in sorted(here ^ there)]
        smooth = _smooth(sides)
        moved = sum(a != b for a, b in zip(sides, smooth, strict=True))
        if len(list(groupby(smooth))) < 3 and 3 * moved <= least:
            return False
    more = _falling(sorted(one + other)) - _falling(one) - _falling(other)
    return 4 * more <= min(len(one), len(other))


def _falling(row: list[tuple[int, int]]) -> int:
    """How many must go for the numbers never to fall."""
    tails: list[int] = []
    for _, number in row:
        at = bisect_right(tails, number)
        tails[at : at + 1] = [number]
    return len(row) - len(tails)


def _smooth(models: Sequence[int]) -> list[int]:
    """Give the few operators that stand amid or beside another model's to it.

    Only those of a model that has more of its own elsewhere: a small one is a model all the same.
    """
    runs = [(model, len(list(run))) for model, run in groupby(models)]
    longest: dict[int, int] = {}
    for model, count in runs:
        longest[model] = max(count, longest.get(model, 0))
    for at, (model, count) in enumerate(runs):
        beside = runs[max(0, at - 1) : at] + runs[at + 1 : at + 2]
        amid = len({other for other, _ in beside}) == 1
        few = min(_STRAY + 1, longest[model], *(length for _, length in beside))
        if amid and count < few:
            runs[at] = (beside[0][0], count)
    return [model for model, count in runs for _ in range(count)]


def _alike(first: Operator, again: Operator) -> bool:
    """Whether the operator that a model begins with comes again: the model runs once more."""
    weights = _weights(first)
    return bool(weights) and weights == _weights(again) and first.task_type == again.task_type


def _weights(operator: Operator) -> set[str]:
    return {name.name for name in operator.names(is_input=True) if name.weight}


def _named(starts: list[int], votes: Sequence[frozenset[Vote]]) -> list[Stack]:
    stacks: list[Stack] = []
    times: Counter[str] = Counter()
    for number, (start, end) in enumerate(pairwise([*starts, len(votes)])):
        counts = Counter(prefix for vote in votes[start:end] for prefix, _ in sorted(vote))
        prefix = counts.most_common(1)[0][0]
        times[prefix] += 1
        word = prefix.strip("._")
        words = [] if word in _PLAIN or len(starts) == 1 else [word]
        if times[prefix] > 1:
            words.append(f"run {times[prefix]}")
        stacks.append(Stack(number, ", ".join(words), prefix, start))
    return stacks
