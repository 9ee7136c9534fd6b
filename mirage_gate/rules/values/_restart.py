"""Layers that all start from what the first one started from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import BUFFERS

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Use, Value

_LEAST = 3
"""So many layers before all but the first are a pattern."""


class Restart(msgspec.Struct, frozen=True):
    """First operators of layers that read ``source``, and the layer's result they pass by."""

    uses: tuple[Use, ...]
    source: Value
    passed: Value


def restarts(facts: RankFacts) -> Iterator[Restart]:
    """Find the layers of a class whose first operator reads the first layer's input again.

    In the first layer another operator takes the same value (the residual); in all others
    that one takes what the layer before gives, and the first operator takes nothing of it.
    """
    for kindred in facts.siblings.classes:
        layers = sorted(kindred.layers)
        if len(layers) < _LEAST:
            continue
        firsts = [facts.siblings.layers[layer][0] for layer in layers]
        alone = [_only(facts, operator) for operator in firsts]
        if any(found is None for found in alone):
            continue
        uses = [found for found in alone if found is not None]
        source = uses[0].seen[0][0]
        if source.operator.place is not None or any(u.seen[0][0] is not source for u in uses):
            continue
        passed = [_others(facts, layer) for layer in layers]
        if passed[0] != {source.operator.number}:
            continue
        given = _given(facts, layers)
        if given is not None and all(
            others == {number} for others, number in zip(passed[1:], given[0], strict=True)
        ):
            yield Restart(tuple(uses[1:]), source, given[1])


def _only(facts: RankFacts, operator: Operator) -> Use | None:
    """Give the one buffer that an operator reads, if it sees one value there."""
    uses = [u for uses in facts.values.uses.get(operator.number, {}).values() for u in uses]
    buffers = [use for use in uses if _is_buffer(facts, use.tensor)]
    if len(buffers) != 1 or len(buffers[0].seen) != 1 or buffers[0].before:
        return None
    return buffers[0]


def _is_buffer(facts: RankFacts, tensor: str) -> bool:
    declaration = facts.declared.get(tensor)
    return declaration is not None and declaration.kind in BUFFERS


def _others(facts: RankFacts, layer: int) -> set[int]:
    """Give what a layer's other operators take from outside of it, by operator."""
    found: set[int] = set()
    for operator in facts.siblings.layers[layer][1:]:
        for uses in facts.values.uses.get(operator.number, {}).values():
            for use in uses:
                if _is_buffer(facts, use.tensor):
                    found |= {
                        value.operator.number
                        for value, _ in use.seen
                        if value.operator.place != layer
                    }
    return found


def _given(facts: RankFacts, layers: list[int]) -> tuple[list[int], Value] | None:
    """Give the last operator of each layer but the last, and the first one's value."""
    numbers = [facts.siblings.layers[layer][-1].number for layer in layers[:-1]]
    values = facts.values.written.get(numbers[0], ())
    return (numbers, values[0]) if values else None
