"""The operators that one layer has and its siblings have not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from mirage_gate.rules.layers._lacks import Lack
from mirage_gate.rules.layers._patterns import Hole, hole_in
from mirage_gate.rules.layers._shared import is_odd, operator_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.siblings import Siblings


def surplus_operators(facts: RankFacts, siblings: Siblings) -> Iterator[tuple[int, Lack]]:
    """Give (layer, the operator that it has one too many of).

    The first and the last layer may have a step of their own. What the layer has done
    before, and does again, is no step of its own.
    """
    extra: dict[tuple[int, int, str, bool], dict[int, Operator]] = defaultdict(dict)
    for gap in siblings.gaps:
        kindred = siblings.class_of(gap.layer).number
        replaced = {column.key[1] for column in gap.missing} - {""}
        for operator in gap.extra:
            again = done_again(siblings.layers[gap.layer], operator)
            if operator.weight not in replaced or again:
                key = (kindred, operator.task_type, operator.weight, again)
                extra[key].setdefault(gap.layer, operator)
    ends = {min(siblings.layers, default=-1), max(siblings.layers, default=-1)}
    for (number, task_type, weight, again), operators in extra.items():
        members = siblings.classes[number].layers
        hole = hole_in({n: n in operators for n in members})
        if hole is not None:
            operator = operators.get(hole.layer, operators[min(operators)])
            yield hole.layer, against_pattern(facts, siblings, operator, hole)
            continue
        if not is_odd(operators, members):
            continue
        name = operator_text(facts, task_type, weight)
        for layer, operator in operators.items():
            if layer in ends and not again:
                continue
            yield (
                layer,
                Lack(
                    order=1 << 30,
                    operator=name,
                    state="one too many",
                    tensors=(name,),
                    critical=False,
                    at=facts.in_graph("all_tasks", operator.first, "task_type"),
                    siblings={n: siblings.layers[n][0] for n in members if n not in operators},
                    index=-1,
                    surplus=True,
                    meant=not again,
                ),
            )


def against_pattern(facts: RankFacts, siblings: Siblings, operator: Operator, hole: Hole) -> Lack:
    """Say that one layer has an operator, or has it not, against the pattern of all others.

    ``operator`` is the layer's own, or that of one which has it.
    """
    name = operator_text(facts, operator.task_type, operator.weight)
    row = siblings.layers[hole.layer]
    has = operator in row
    theirs = siblings.layers[operator.place or 0]
    behind = operator if has else row[min(theirs.index(operator), len(row) - 1)]
    return Lack(
        order=(1 << 30) + theirs.index(operator),
        operator=name,
        state="one too many" if has else "missing",
        tensors=(name,),
        critical=False,
        at=facts.in_graph("all_tasks", behind.first, "task_type"),
        siblings={n: siblings.layers[n][0] for n in hole.like},
        index=-1,
        surplus=has,
    )


def done_again(row: Collection[Operator], operator: Operator) -> bool:
    """Whether a layer has the operator twice: its weight, or all that is in its slots."""
    others = (other for other in row if other is not operator)
    if operator.weight:
        return any(other.weight == operator.weight for other in others)
    return any(
        other.task_type == operator.task_type and _carried(other) == _carried(operator)
        for other in others
    )


def _carried(operator: Operator) -> list[tuple[bool, int, frozenset[str]]]:
    return [
        (is_input, index, frozenset(name.name for name in names))
        for (is_input, index), names in operator.slots.items()
    ]
