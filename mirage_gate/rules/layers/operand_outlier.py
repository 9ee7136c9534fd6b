"""MG702: in one layer a slot carries something else than in all its siblings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mirage_gate.facts.roles import Content
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, in_layers
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._copies import sources_otherwise
from mirage_gate.rules.layers._following import follows
from mirage_gate.rules.layers._odd_claims import about, carried, follows_from, names_in, unheard_by
from mirage_gate.rules.layers._odd_slots import OddSlot, odd_slots, split_pairs
from mirage_gate.rules.layers._shared import (
    in_words_order,
    listed,
    operator_text,
    role_text,
    slot_at,
    these_layers,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG702",
    "operand-outlier",
    Severity.WARNING,
    "In one layer a slot carries something else than in all its siblings.",
    why="""
        A residual taken from the buffer of an earlier layer has the right size, is written
        before it is read and breaks no event. The sum is of the wrong things. The same
        operator in the other layers tells: there, the slot carries what the operator before
        the layer wrote.
    """,
    example="""
        Input 2 of layer 1's output projection carries `embed_out`; in every other layer the
        slot carries what the layer before wrote.
    """,
    fix="Pass the tensor that the sibling layers pass.",
    limits="""
        Buffers are told apart by the operator that last wrote them, not by name. One layer
        of three or more is an outlier, or at most one in eight, or the only one that breaks a
        pattern such as five local layers and a global one; of two that differ, either may be
        the wrong one. Two tensors that go together everywhere else (cos and sin, k and v of
        one donor layer) must go together in every layer. A weight of another role
        counts only if the layer has a tensor of the usual role: weights that one layer
        stores fused and the others apart are no outlier.
    """,
)


@RULE.checked_by
def operand_outlier(facts: RankFacts) -> Iterator[Finding]:
    every = list(odd_slots(facts))
    found = [odd for odd in every if not follows(facts, odd, every)]
    seen = {(id(odd.column), layer) for odd in every for layer in odd.layers}
    for slots in _together(found):
        yield _finding(facts, slots)
    for pair in split_pairs(facts):
        if (id(pair.column), pair.layer) in seen:
            continue
        one, other = pair.indexes
        operator = pair.column.operators[pair.layer]
        related = (
            slot_at(facts, operator, other).saying("the other of the two"),
            *(
                slot_at(facts, pair.column.operators[layer], index).saying(
                    f"layer {layer} has {name} here"
                )
                for layer, index, name in pair.elsewhere
            ),
        )
        (_, _, mate), (_, _, its) = pair.elsewhere
        yield RULE.finding(
            facts.rank,
            (
                f"in {these_layers(pair.column.siblings, [pair.layer])}, "
                f"{operator_text(facts, *pair.column.key)} carries "
                f"{pair.names[0]} and {pair.names[1]}, which go together in no other layer: "
                f"{pair.names[0]} goes with {mate}, {pair.names[1]} with {its}"
            ),
            slot_at(facts, operator, one),
            hint=f"pass {pair.names[0]} and {mate}, or {its} and {pair.names[1]}",
            related=related,
            tensor=pair.names[0],
        )
    yield from sources_otherwise(RULE, facts)


def _together(found: Sequence[OddSlot]) -> list[list[OddSlot]]:
    """Put together what is one mistake: slots of one operator, or one thing in several."""
    operators: dict[object, list[OddSlot]] = {}
    for odd in found:
        operators.setdefault((id(odd.column), tuple(odd.layers)), []).append(odd)
    things: dict[object, list[OddSlot]] = {}
    for number, slots in enumerate(operators.values()):
        first = slots[0]
        alone = len(slots) == 1
        key = (tuple(first.layers), first.content, first.usual) if alone else number
        things.setdefault(key, []).extend(slots)
    return list(things.values())


def _content(facts: RankFacts, content: Content) -> str:
    return listed(role_text(facts, role) for role in in_words_order(content))


def _what(facts: RankFacts, odd: OddSlot) -> str:
    names = listed(names_in(odd))
    is_weight = all(role.kind == "weight" for role in odd.content)
    return names if is_weight else f"{names}, {_content(facts, odd.content)}"


def _usually(facts: RankFacts, odd: OddSlot, near: int) -> str:
    example = listed(carried(odd.column.operators[near], odd.index))
    usual = _content(facts, odd.usual)
    return usual if usual == example else f"{usual} ({example} in layer {near})"


def _finding(facts: RankFacts, slots: list[OddSlot]) -> Finding:
    first = slots[0]
    column = first.column
    near = next((n for n in first.siblings if n > first.layers[-1]), first.siblings[-1])
    same = [odd for odd in slots if odd.column is column]
    name = operator_text(facts, column.task_type, column.key[1])
    one = len(same) == 1
    inputs = listed(str(odd.index) for odd in same)
    text = (
        f"in {these_layers(column.siblings, first.layers)}, "
        f"input{'s' * (not one)} {inputs} of {name} "
        f"{'carries' if one else 'carry'} {listed(_what(facts, odd) for odd in same)}; in "
        f"{in_layers(first.siblings)} {'it carries' if one else 'they carry'} "
        f"{listed(_usually(facts, odd, near) for odd in same)}"
    )
    others = [odd for odd in slots if odd.column is not column]
    if others:
        where = (f"input {odd.index} of {operator_text(facts, *odd.column.key)}" for odd in others)
        text += f"; so {'does' if len(others) == 1 else 'do'} {listed(where)}"
    related = []
    for odd in slots:
        operator = odd.column.operators
        if odd is not first:
            related.append(slot_at(facts, operator[odd.layers[0]], odd.index).saying("and here"))
        example = listed(carried(operator[near], odd.index)) if near in operator else ""
        if example:
            there = slot_at(facts, operator[near], odd.index)
            related.append(there.saying(f"layer {near} has {example} here"))
        related += [place for name in names_in(odd) for place in declared(facts, name)]
    return RULE.finding(
        facts.rank,
        text,
        slot_at(facts, column.operators[first.layers[0]], first.index, names_in(first)),
        hint=f"pass what layer {near} passes",
        related=tuple(dict.fromkeys(related)),
        tensor=names_in(first)[0],
        about=about(facts, slots),
        causes=unheard_by(facts, slots),
        follows=[*follows_from(facts, slots), *unheard_by(facts, slots)],
    )
