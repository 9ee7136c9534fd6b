"""What a slot that carries something else claims, and from what it follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in
from mirage_gate.facts.words import forms
from mirage_gate.rules._claims import exchanged, ill, unheard
from mirage_gate.rules.layers._shared import last_writer, writer_in

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
    if len(slots[0].layers) > 1 or home is None or _has_other_readers(facts, slots):
        return []
    writers = [writer_in(facts, odd.usual, home) for odd in slots]
    return [unheard(w.first) for w in writers[:1] if w and all(w is other for other in writers)]


def _has_other_readers(facts: RankFacts, slots: list[OddSlot]) -> bool:
    """Whether other slots of a sibling carry the same: if nobody reads it, they are odd as well."""
    (first, *_), inputs = slots, facts.roles.inputs
    sibling = first.siblings[0]
    home = first.column.operators[sibling].home
    here = {(odd.column.operators[sibling].number, odd.index) for odd in slots}
    return any(
        content == first.usual and (operator.number, index) not in here
        for operator in (facts.layers.at(home) if home else ())
        for index, content in enumerate(inputs[operator.number])
    )


def follows_from(facts: RankFacts, slots: list[OddSlot]) -> Iterator[str]:
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
    if len(names) > 1:
        return
    # What others use as well is ill for them too: that this slot carries it is another mistake.
    operators = {odd.column.operators[layer].number for odd in slots}
    numbers = facts.layers.operator_numbers
    for name in names:
        if all(numbers[access.group.number] in operators for access in facts.wiring.of(name)):
            yield ill(name)
    # Where its writer reads what is none, it is not known as the writer that it is.
    taken = {name for odd in slots for name in _taken_for(facts, odd, layer)}
    yield from map(ill, sorted(meant & taken))


def _taken_for(facts: RankFacts, odd: OddSlot, layer: int) -> Iterator[str]:
    """Give what a slot carries, and what the operator takes that has written it."""
    operator = odd.column.operators[layer]
    yield from carried(operator, odd.index)
    writer = last_writer(facts, operator, odd.index)
    if writer is not None:
        yield from (name.name for names in writer.slots.values() for name in names)


def _exchanged(one: OddSlot, other: OddSlot) -> bool:
    """Whether each of two slots of one operator carries what the other does elsewhere."""
    same = one.column is other.column and one.layers == other.layers
    return same and one.content == other.usual and other.content == one.usual
