"""What one layer lacks that its siblings have, operand by operand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.siblings import ABSENT, LACKING, NOTHING
from mirage_gate.findings import Location
from mirage_gate.rules.layers._shared import (
    in_slot,
    in_words_order,
    is_odd,
    is_periodic,
    is_whole_class,
    majority_of,
    operator_text,
    role_text,
    slot_at,
    tables_at,
    width_of,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.siblings import Column


class Lack(msgspec.Struct):
    """What one layer lacks in one place. ``tensors`` are what its siblings have there.

    Where ``surplus`` it is the other way round: the layer has an operator too many, and
    ``tensors`` names it.
    """

    order: int
    operator: str
    state: str
    tensors: tuple[str, ...]
    critical: bool
    at: Location
    siblings: dict[int, Operator]
    index: int
    surplus: bool = False


def all_lacks(facts: RankFacts) -> Iterator[tuple[int, Lack]]:
    """Give (layer, what it lacks), for every layer that lacks anything."""
    for order, column in enumerate(facts.siblings.columns):
        for index in range(width_of(facts, column)):
            yield from _lacking_operand(facts, order, column, index)
    yield from _lacking_operators(facts)


def _rotates(facts: RankFacts, layer: int) -> bool:
    """Whether the model's configuration, if there is one, leaves the layer its positions."""
    model = facts.options.model
    return model is None or layer not in model.rotary.lacking


def _lacking_operand(
    facts: RankFacts, order: int, column: Column, index: int
) -> Iterator[tuple[int, Lack]]:
    contents = in_slot(facts, column, index)
    without = [n for n, content in contents.items() if content & LACKING]
    having = [n for n in contents if n not in without]
    if not without or not having:
        return
    usual = majority_of(contents[n] for n in having)
    critical = tables_at(facts, usual, having)
    if critical:
        without = [n for n in without if _rotates(facts, n)]
        if is_periodic(without, contents) or is_periodic(having, contents):
            return
    elif not is_odd(without, contents) or is_whole_class(facts, column, without):
        return
    operator = operator_text(facts, column.task_type, column.key[1])
    for layer in without:
        content = contents[layer]
        state = "nullptr"
        if ABSENT in content:
            state = "not there"
        elif NOTHING not in content:
            state = "not read by the kernel"
        if content - LACKING:
            state += " in some tasks"
        odd = {"nullptr"} if NOTHING in content else ()
        yield (
            layer,
            Lack(
                order=order * 8 + index,
                operator=operator,
                state=state,
                tensors=tuple(critical)
                or tuple(role_text(facts, role) for role in in_words_order(usual)),
                critical=bool(critical),
                at=slot_at(facts, column.operators[layer], index, odd),
                siblings={n: column.operators[n] for n in having},
                index=index,
            ),
        )


def _lacking_operators(facts: RankFacts) -> Iterator[tuple[int, Lack]]:
    siblings = facts.siblings
    missing: dict[int, list[int]] = defaultdict(list)
    columns = {id(column): column for column in siblings.columns}
    extra: dict[tuple[int, int, str], dict[int, Operator]] = defaultdict(dict)
    for gap in siblings.gaps:
        for column in gap.missing:
            missing[id(column)].append(gap.layer)
        for operator in gap.extra:
            kindred = siblings.class_of(gap.layer).number
            extra[kindred, operator.task_type, operator.weight][gap.layer] = operator
    last = max(siblings.layers, default=-1)
    for order, (key, column) in enumerate(columns.items()):
        layers = missing.get(key)
        if not layers:
            continue
        members = siblings.class_of(layers[0]).layers
        critical = _critical_operands(facts, column)
        if critical:
            layers = [n for n in layers if _rotates(facts, n)]
            if is_periodic(layers, members):
                continue
        elif not is_odd(layers, members):
            continue
        for layer in layers:
            if layer == last and not critical and _trailing(facts, column):
                continue
            name = operator_text(facts, column.task_type, column.key[1])
            yield (
                layer,
                Lack(
                    order=order * 8,
                    operator=name,
                    state="missing",
                    tensors=tuple(critical) or (name,),
                    critical=bool(critical),
                    at=_gap_at(facts, layer, column),
                    siblings={n: o for n, o in column.operators.items() if n in members},
                    index=-1,
                ),
            )
    for (number, task_type, weight), operators in extra.items():
        members = siblings.classes[number].layers
        if not is_odd(operators, members):
            continue
        for layer, operator in operators.items():
            if layer == last and not weight and siblings.layers[layer][-1] is operator:
                continue
            yield (
                layer,
                Lack(
                    order=1 << 30,
                    operator=operator_text(facts, task_type, weight),
                    state="one too many",
                    tensors=(operator_text(facts, task_type, weight),),
                    critical=False,
                    at=facts.in_graph("all_tasks", operator.first, "task_type"),
                    siblings={n: siblings.layers[n][0] for n in members if n not in operators},
                    index=-1,
                    surplus=True,
                ),
            )


def _critical_operands(facts: RankFacts, column: Column) -> list[str]:
    found: dict[str, None] = {}
    for index in range(width_of(facts, column)):
        contents = in_slot(facts, column, index)
        tables = tables_at(facts, majority_of(contents.values()), contents)
        found.update(dict.fromkeys(tables))
    return list(found)


def _trailing(facts: RankFacts, column: Column) -> bool:
    """Whether the last layer lacks a step without weights that the others end with.

    It is the first step of the layer that follows, as far as names can tell.
    """
    if column.key[1]:
        return False
    return any(facts.siblings.layers[n][-1] is o for n, o in column.operators.items())


def _gap_at(facts: RankFacts, layer: int, column: Column) -> Location:
    """Point at the operator before which the missing one would stand, or the layer's last."""
    sibling, operator = next(iter(column.operators.items()))
    row = facts.siblings.layers[sibling]
    behind = {o.number for o in row[row.index(operator) + 1 :]}
    for other in facts.siblings.columns:
        theirs, mine = other.operators.get(sibling), other.operators.get(layer)
        if theirs and mine and theirs.number in behind:
            return facts.in_graph("all_tasks", mine.first, "task_type")
    return facts.in_graph("all_tasks", facts.siblings.layers[layer][-1].first, "task_type")
