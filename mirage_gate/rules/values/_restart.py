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
    for siblings in facts.stacks:
        for kindred in siblings.classes:
            rows = [siblings.layers[layer] for layer in sorted(kindred.layers)]
            if len(rows) >= _LEAST:
                yield from _restarts(facts, rows)


def _restarts(facts: RankFacts, rows: list[list[Operator]]) -> Iterator[Restart]:
    """Give the layers of one class, each given as its operators, if they start again."""
    alone = [_only(facts, row[0]) for row in rows]
    if any(found is None for found in alone):
        return
    uses = [found for found in alone if found is not None]
    source = uses[0].seen[0][0]
    inside = source.operator.place is not None and source.operator.stack == rows[0][0].stack
    if inside or any(u.seen[0][0] is not source for u in uses):
        return
    passed = [_others(facts, row) for row in rows]
    if passed[0] != {source.operator.number}:
        return
    numbers = [row[-1].number for row in rows[:-1]]
    values = facts.values.written.get(numbers[0], ())
    if values and all(
        others == {number} for others, number in zip(passed[1:], numbers, strict=True)
    ):
        yield Restart(tuple(uses[1:]), source, values[0])


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


def _others(facts: RankFacts, row: list[Operator]) -> set[int]:
    """Give what a layer's other operators take from outside of it, by operator."""
    found: set[int] = set()
    for operator in row[1:]:
        for uses in facts.values.uses.get(operator.number, {}).values():
            for use in uses:
                if _is_buffer(facts, use.tensor):
                    found |= {
                        value.operator.number
                        for value, _ in use.seen
                        if value.operator.home != operator.home
                    }
    return found
