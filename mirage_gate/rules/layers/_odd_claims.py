"""What a slot that carries something else claims, and from what it follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in
from mirage_gate.facts.words import forms
from mirage_gate.rules._claims import exchanged, ill, unheard
from mirage_gate.rules.layers._shared import writer_in

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.rules.layers._odd_slots import OddSlot


def carried(operator: Operator, index: int) -> list[str]:
    """Give the names that an operator's tasks carry in one input."""
    return [name.name for name in operator.slots.get((True, index), ())]


def names_in(odd: OddSlot) -> list[str]:
    """What the first of the layers carries and no sibling does."""
    expected = set().union(*(carried(odd.column.operators[n], odd.index) for n in odd.siblings))
    names = carried(odd.column.operators[odd.layers[0]], odd.index)
    return [name for name in names if name not in expected] or names


def about(facts: RankFacts, slots: list[OddSlot]) -> Iterator[str]:
    """Say it as the rule on the model's dataflow does: another summand, if it is one alone."""
    first = slots[0]
    rows = forms(facts.task_type(first.column.task_type).name) or ()
    added = {pick for form in rows for term in form.added for pick in term}
    if len(slots) == len(first.layers) == 1 and ("i", first.index) in added:
        operator = first.column.operators[first.layers[0]]
        yield f"another summand at task {operator.first}"


def unheard_by(facts: RankFacts, slots: list[OddSlot]) -> list[str]:
    """Say what is read by nobody where one layer's slots carry something else."""
    home = slots[0].column.operators[slots[0].layers[0]].home
    if len(slots[0].layers) > 1 or home is None:
        return []
    writers = [writer_in(facts, odd.usual, home) for odd in slots]
    return [unheard(w.first) for w in writers[:1] if w and all(w is other for other in writers)]


def follows_from(slots: list[OddSlot]) -> Iterator[str]:
    """Say from what it follows if what a layer's slot carries, or its writer reads, is none."""
    (layer, *others), usual = slots[0].layers, slots[0].usual
    if len(slots) == 2 and not others and _exchanged(*slots):
        column = slots[0].column
        indexes = [odd.index for odd in slots]
        yield exchanged(column.task_type, indexes, column.operators[layer].place)
    if others or any(odd.usual != usual or odd.layers != [layer] for odd in slots):
        return
    meant = {named_in(role.name, layer) for role in usual if role.name}
    names = {name for odd in slots for name in names_in(odd)} - meant
    if len(names) < 2:
        # Where its writer reads what is none, it is not known as the writer that it is.
        yield from map(ill, names)
        yield from map(ill, meant)


def _exchanged(one: OddSlot, other: OddSlot) -> bool:
    """Whether each of two slots of one operator carries what the other does elsewhere."""
    same = one.column is other.column and one.layers == other.layers
    return same and one.content == other.usual and other.content == one.usual
