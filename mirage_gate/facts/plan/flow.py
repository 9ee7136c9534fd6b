"""Where the values of a plan come from, for a drawing: its text as a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.plan.notation import NONE

if TYPE_CHECKING:
    from mirage_gate.facts.plan.notation import Plan, Statement

_NAMES = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.$]+')

Node = tuple[int, int]
"""A block of the plan, and a statement in it."""


class Edge(msgspec.Struct, frozen=True):
    """A value on its way. Not ``forward``: from another layer or iteration, or to the next."""

    start: Node
    end: Node
    name: str
    forward: bool = True


def names_in(statement: Statement) -> Iterator[tuple[str, str]]:
    """Give every (name, place) that a statement takes; the place is empty for the last such."""
    for term in (*statement.operands, *statement.added):
        if term == NONE:
            continue
        for part in term.strip("{}").split(", "):
            for atom in [part] if part.startswith('"') else part.split(":"):
                name, _, place = atom.partition("@") if not atom.startswith('"') else (atom, "", "")
                yield name, place


def sides_of(plan: Plan) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Give of each statement the terms that other statements give, and those that the host fills.

    An operand that is not there is among the latter.
    """
    given = _given(plan)
    for block in plan.blocks:
        for statement in block.statements:
            values: list[str] = []
            weights: list[str] = []
            for term in (*statement.operands, *statement.added):
                names = _NAMES.findall(term)
                (values if names and names[0] in given else weights).append(term)
            yield tuple(values), tuple(weights)


def _given(plan: Plan) -> frozenset[str]:
    return frozenset(
        name
        for block in plan.blocks
        for statement in block.statements
        for name in statement.results
    )


def edges_of(plan: Plan) -> Iterator[Edge]:
    """Give every value's way from the statement that gives it to one that takes it."""
    holder: dict[str, Node] = {}
    for b, block in enumerate(plan.blocks):
        own: dict[str, Node] = {}
        last = {
            name: (b, s)
            for s, statement in enumerate(block.statements)
            for name in statement.results
        }
        for s, statement in enumerate(block.statements):
            for name, place in dict.fromkeys(names_in(statement)):
                if not place and name in own:
                    yield Edge(own[name], (b, s), name)
                    continue
                if name in holder:
                    yield Edge(
                        holder[name], (b, s), f"{name}@{place}" if place else name, not place
                    )
                if name in last and len(block.layers) > 1:
                    yield Edge(last[name], (b, s), f"{name}@{place}" if place else name, False)
            own.update(dict.fromkeys(statement.results, (b, s)))
        holder.update(own)
