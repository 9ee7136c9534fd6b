"""MG607: a part of a sum over the ranks is taken for the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.partials import Unsummed
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, in_layers
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG607",
    "never-reduced",
    Severity.ERROR,
    "A part of a sum over the ranks is taken for the whole.",
    why="""
        A projection whose weight is cut along what it sums over gives each rank a part of its
        result. Until the parts are added up over the ranks, no norm, activation or other
        projection may take one: every rank would go on with its own numbers, and all of them
        would be wrong.
    """,
    example="""
        The output of `o_proj` goes into the norm behind attention, with no all-reduce between,
        while each rank's attention has an eighth of the heads.
    """,
    fix="Put an all-reduce behind the projection, before the norm.",
    limits="""
        One rank's files do not say how a weight was cut. It is decided by a residual that is
        left to another rank or asks for it, by a sum behind the same projection in another
        layer, or by an attention kernel that is made for this many ranks. Where none of
        them is there, nothing is said.
    """,
    repeats=True,
)


@RULE.checked_by
def never_reduced(facts: RankFacts) -> Iterator[Finding]:
    # What goes through the layers goes through those that are kept: no other need be followed.
    short = facts.shortened
    few = short.facts if short else facts
    found: dict[tuple[str, str], list[Unsummed]] = {}
    for one in few.partials.unsummed():
        linear = one.linear
        found.setdefault((linear.role or linear.weight, linear.evidence), []).append(one)
    for (_, evidence), places in found.items():
        first = places[0]
        maker, reader = first.linear.operator, first.reader
        tensor = few.graph.tensors[first.group.inputs[first.slot]].base_ptr
        weight, made, read = first.linear.weight, maker.first, first.group.first
        layers = {p.linear.operator.place for p in places if p.linear.operator.place is not None}
        if short:
            tensor, weight = short.whole_name(tensor), short.whole_name(weight)
            made, read = short.whole_task(made), short.whole_task(read)
            layers = {layer for place in layers for layer in short.whole_layers(place)}
        where = f" (so in {in_layers(layers)})" if len(layers) > 1 else ""
        name = facts.task_type(maker.task_type).name
        yield RULE.finding(
            facts.rank,
            (
                f"{tensor}, made with {weight or 'a weight'}, goes into "
                f"{facts.task_type(reader.task_type).name} and is a part of a sum over "
                f"{few.partials.ranks} ranks that is not summed before: {evidence}{where}"
            ),
            facts.in_graph("all_tasks", read, "inputs", first.slot, "base_ptr"),
            hint=f"put an all-reduce between {name} and {facts.task_type(reader.task_type).name}",
            related=(
                facts.in_graph("all_tasks", made, "task_type", note="the part is made here"),
                *declared(facts, weight),
            ),
            tensor=tensor,
        )
