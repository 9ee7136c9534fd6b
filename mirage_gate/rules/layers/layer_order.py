"""MG707: a layer runs before one that its number comes after."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.stacks import Stack

RULE = Rule(
    "MG707",
    "layer-order",
    Severity.WARNING,
    "A layer runs before one that its number comes after.",
    why="""
        Two layers whose weights, caches and norms are exchanged as a whole are each wired like
        their siblings: every tensor is read once, by the right kind of kernel, in order. The
        model computes them in the wrong order, and is a little wrong everywhere.
    """,
    example="The builder's loop goes over `[0, 1, 3, 2, …]`: layer 3's operators come before 2's.",
    fix="Build the layers in the order of their numbers.",
    limits="""
        Numbers are read from the names of weights and caches. Only layers that run wholly one
        before the other are compared, and only few of many: a model whose layers all run the
        other way round is built so. Of two models in one graph each is looked at alone.
    """,
)

_FEW = 8
"""Out of turn is one pair of neighbours, or at most one in so many."""


@RULE.checked_by
def layer_order(facts: RankFacts) -> Iterator[Finding]:
    for stack in facts.layers.stacks:
        yield from _out_of_turn(facts, stack)


def _out_of_turn(facts: RankFacts, stack: Stack) -> Iterator[Finding]:
    others = {other.prefix for other in facts.layers.stacks} - {stack.prefix}
    first: dict[int, Operator] = {}
    last: dict[int, int] = {}
    for operator in facts.layers.operators:
        if operator.place is None or operator.stack != stack.number:
            continue
        numbers = {
            name.layer
            for name in operator.names()
            if name.weight and name.layer is not None and name.stack not in others
        }
        if len(numbers) == 1:
            (number,) = numbers
            first.setdefault(number, operator)
            last[number] = operator.number
    order = sorted(first, key=lambda number: first[number].number)
    if len(order) < 3:
        return
    turned = [
        (early, late)
        for early, late in pairwise(order)
        if early > late and last[early] < first[late].number
    ]
    if not turned or len(turned) > max(1, len(order) // _FEW):
        return
    for early, late in turned:
        yield RULE.finding(
            facts.rank,
            f"layer {early} runs before layer {late}: by the names of its weights, its operators "
            f"end at task {_last_task(facts, last[early])} and layer {late}'s begin at task "
            f"{first[late].first}",
            facts.in_graph("all_tasks", first[early].first, "task_type"),
            hint=f"build layer {late} before layer {early}",
            related=(
                facts.in_graph(
                    "all_tasks", first[late].first, "task_type", note=f"layer {late} begins here"
                ),
            ),
        )


def _last_task(facts: RankFacts, number: int) -> int:
    return max(group.first for group in facts.layers.operators[number].groups)
