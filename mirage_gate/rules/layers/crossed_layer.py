"""MG703: a weight or cache of one layer is read in another layer's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import taken, untaken
from mirage_gate.rules._words import declared, in_layers
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._copies import crossed_copies
from mirage_gate.rules.layers._shared import (
    columns_of,
    in_own_model,
    is_foreign,
    is_odd,
    operator_text,
    these_layers,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Name
    from mirage_gate.facts.siblings import Column

RULE = Rule(
    "MG703",
    "crossed-layer",
    Severity.ERROR,
    "A weight or cache of one layer is read in another layer's place.",
    why="""
        Two layers' weights of one role have one shape. Exchanged, each is still read once
        and every byte is covered; the model computes with the wrong ones.
    """,
    example="""
        `layer_7_o_proj` is read among the operators of layer 8, though `layer_8_o_proj` is
        declared.
    """,
    fix="Take the layer's own tensor; most often an index in the builder is off by one.",
    limits="""
        The place is inferred from all operators around. A shift that all layers share (the
        next layer's norm fused into this one) is no crossing. Where the layer has no such
        tensor of its own it may share a sibling's on purpose: a warning, and only where the
        siblings do not. Where the graph holds two models, as a draft model and its target, a
        weight of the one in the other's layer is a crossing too.
    """,
)


@RULE.checked_by
def crossed_layer(facts: RankFacts) -> Iterator[Finding]:
    seen: set[tuple[str, int]] = set()
    for column in columns_of(facts):
        slots = sorted({slot for o in column.operators.values() for slot in o.slots})
        for is_input, index in slots:
            yield from _crossed_in(facts, column, is_input, index, seen)
    yield from crossed_copies(RULE, facts)


def _own(facts: RankFacts, column: Column, name: Name, layer: int) -> str:
    """Give the layer's own tensor of a role: of two models in one graph, the model's own."""
    if is_foreign(facts, column, name.role, layer):
        return in_own_model(facts, column, name.role, layer)
    return named_in(name.role, layer)


def _crossed_in(
    facts: RankFacts, column: Column, is_input: bool, index: int, seen: set[tuple[str, int]]
) -> Iterator[Finding]:
    carried = {
        layer: [
            name
            for name in operator.slots.get((is_input, index), ())
            if name.weight and name.layer is not None
        ]
        for layer, operator in column.operators.items()
    }
    shifts = Counter(
        name.layer - layer
        for layer, names in carried.items()
        for name in names
        if name.layer is not None and not is_foreign(facts, column, name.role, layer)
    )
    shift, times = shifts.most_common(1)[0] if shifts else (0, 0)
    if 2 * times <= sum(shifts.values()):
        shift = 0
    crossed = {
        layer: [
            name
            for name in names
            if name.layer != layer + shift or is_foreign(facts, column, name.role, layer + shift)
        ]
        for layer, names in carried.items()
    }
    crossed = {layer: names for layer, names in crossed.items() if names}
    for layer, names in crossed.items():
        operator = column.operators[layer]
        for name in names:
            own = _own(facts, column, name, layer + shift)
            certain = own in facts.declared
            if not certain and not (len(carried) > 3 and is_odd(crossed, carried)):
                continue
            if not certain and name.name in facts.values.lost_caches:
                continue  # MG211 says what is wrong with a shared cache
            if (name.name, layer) in seen:
                continue
            seen.add((name.name, layer))
            first = operator.slots[is_input, index][name].first
            side = "input" if is_input else "output"
            where = (
                f"{side} {index} of {operator_text(facts, column.task_type, name.role)} carries "
                f"{name.name}"
            )
            readers = facts.layers.of_group
            by = sorted(
                {
                    place
                    for access in facts.wiring.of(own)
                    if (place := readers[access.group.number]) is not None
                }
            )
            if not certain:
                rest = "and the layer has no such tensor of its own"
            elif by:
                rest = f"and {own} is read in {in_layers(by)}"
            else:
                rest = f"and nobody reads {own}"
            yield RULE.finding(
                facts.rank,
                f"in {these_layers(column.siblings, [layer])}, {where}, {rest}",
                facts.in_graph("all_tasks", first, f"{side}s", index, "base_ptr"),
                hint=f"pass {own} to layer {layer}",
                severity=Severity.ERROR if certain else Severity.WARNING,
                related=(*declared(facts, name.name), *declared(facts, own)),
                tensor=name.name,
                about=(f"a weight of layer {name.layer} at task {operator.first}",),
                causes=[taken(name.name, operator.first), *([] if by else [untaken([own])])],
            )
