"""What one layer lacks that its siblings have in the slots of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.roles import ABSENT, LACKING, NOTHING
from mirage_gate.findings import Location
from mirage_gate.rules.layers._patterns import WITNESSES, Hole, hole_in, slip_in
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
    from mirage_gate.facts.siblings import Column, Siblings


class Lack(msgspec.Struct):
    """What one layer lacks in one place. ``tensors`` are what its siblings have there.

    Where ``surplus`` it is the other way round: the layer has an operator too many, and
    ``tensors`` names it. ``meant``: a builder may well mean it, and it is worth a look.
    ``number`` is that of the operator with nothing in a slot.
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
    meant: bool = False
    number: int = -1


def lacking_operands(facts: RankFacts, siblings: Siblings) -> Iterator[tuple[int, Lack]]:
    """Give (layer, what it lacks), for every layer with a slot that carries nothing."""
    for order, column in enumerate(siblings.columns):
        for index in range(width_of(facts, column)):
            yield from _lacking_operand(facts, order, column, index)


def rotates(facts: RankFacts, layer: int) -> bool:
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
    hole = hole_in({n: n in without for n in contents})
    if hole is None and critical and min(len(without), len(having)) >= WITNESSES:
        hole = slip_in(without, contents) or slip_in(having, contents)
        if hole is not None and hole.layer in (min(contents), max(contents)):
            return  # the first and the last layer may differ in any pattern
    if hole is not None:
        having = hole.like
        if hole.layer not in without:
            yield hole.layer, _too_much(facts, order, column, index, hole)
            return
        without = [n for n in (hole.layer,) if not critical or rotates(facts, n)]
    elif critical:
        without = [n for n in without if rotates(facts, n)]
        if is_periodic(without, contents) or is_periodic(having, contents):
            return
    elif not is_odd(without, contents) or is_whole_class(column, without):
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
                number=column.operators[layer].number,
            ),
        )


def _too_much(facts: RankFacts, order: int, column: Column, index: int, hole: Hole) -> Lack:
    """Say what the one layer has of which the pattern leaves the layers around it without."""
    content = in_slot(facts, column, index)[hole.layer]
    return Lack(
        order=order * 8 + index,
        operator=operator_text(facts, column.task_type, column.key[1]),
        state="not nullptr",
        tensors=tuple(role_text(facts, role) for role in in_words_order(content)),
        critical=False,
        at=slot_at(facts, column.operators[hole.layer], index),
        siblings={n: column.operators[n] for n in hole.like},
        index=index,
        surplus=True,
    )
