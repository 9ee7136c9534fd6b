"""Caches: rows that one operator leaves for the next iteration, and another writes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import BUFFERS, LOADED
from mirage_gate.facts.words import forms

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Value

_Tokens = frozenset[int]
"""The embeddings that something is computed from, by operator: which tokens it stands for."""


class Lost(msgspec.Struct, frozen=True):
    """A value in a cache, and the one that is written over it for the same tokens."""

    value: Value
    other: Value


def lost_rows(facts: RankFacts) -> Iterator[Lost]:
    """Give for each cache its first value, where another covers it in the same iteration.

    A cache is a loaded tensor that tasks read and write. Two operators write the same rows of
    one if one kernel runs both, if they are for the same tokens, that is computed from the
    same embeddings, and if their bodies pick rows alike: a draft model's second step has
    tokens of its own. A layer that is to read another's cache only has a kernel for that.
    """
    tokens: dict[int, _Tokens] | None = None
    for name, declaration in facts.declared.items():
        if declaration.kind not in LOADED or not facts.wiring.producers(name):
            continue
        values = [v for v in facts.values.of(name).values if v.place[0] and _is_cache(facts, v)]
        if len(values) < 2:
            continue
        found = _within_a_task(values)
        if found is None:
            tokens = tokens if tokens is not None else _tokens(facts)
            found = _between(facts, values, tokens)
        if found is not None:
            yield found


def _is_cache(facts: RankFacts, value: Value) -> bool:
    kind = facts.task_type(value.operator.task_type)
    slot = kind.input(value.place[1])
    return facts.knows(kind.code) and slot.reads and slot.writes and slot.indexed


def _within_a_task(values: list[Value]) -> Lost | None:
    """Find two slots of one operator with the same cells: keys and values in one cache."""
    seen: dict[int, Value] = {}
    for value in values:
        other = seen.setdefault(value.operator.number, value)
        if other is not value and other.cells & value.cells:
            return Lost(other, value)
    return None


def _between(facts: RankFacts, values: list[Value], tokens: dict[int, _Tokens]) -> Lost | None:
    before = values[0]
    for value in values[1:]:
        one, other = before.operator, value.operator
        if (
            _kernels(one) & _kernels(other)
            and before.cells & value.cells
            and tokens.get(one.number)
            and tokens[one.number] == tokens.get(other.number)
            and not _rows(facts, one).isdisjoint(_rows(facts, other))
        ):
            return Lost(before, value)
    return None


def _kernels(operator: Operator) -> set[tuple[int, int]]:
    """The kernels that run an operator: another variant may be one that only reads."""
    return {(group.task_type, group.variant) for group in operator.groups}


def _rows(facts: RankFacts, operator: Operator) -> set[tuple[int, ...]]:
    """What an operator's bodies pick rows by."""
    wiring = facts.wiring
    rows: set[tuple[int, ...]] = set()
    for group in operator.groups:
        branch = wiring.branch(group.task_type, group.variant)
        rows.update(wiring.metadata_in(group, branch) if branch else [()])
    return rows


def _tokens(facts: RankFacts) -> dict[int, _Tokens]:
    """Work out of each operator which embeddings it is computed from."""
    found: dict[int, _Tokens] = {}
    known: dict[_Tokens, _Tokens] = {}
    buffers = {n for n, declaration in facts.declared.items() if declaration.kind in BUFFERS}
    for operator in facts.layers.operators:
        name = facts.task_type(operator.task_type).name
        if any(form.operator == "embedding" for form in forms(name) or ()):
            tokens: _Tokens = frozenset({operator.number})
        else:
            sources = {
                value.operator.number
                for uses in facts.values.uses.get(operator.number, {}).values()
                for use in uses
                if use.tensor in buffers
                for value, _ in use.seen
            }
            tokens = frozenset().union(*(found.get(n, frozenset()) for n in sources))
        found[operator.number] = known.setdefault(tokens, tokens)
    return found
