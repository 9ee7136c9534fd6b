"""MG608: what is summed over the ranks already is summed over them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.operators import Operator
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import in_layers
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG608",
    "reduced-twice",
    Severity.ERROR,
    "What is the same on every rank is summed over the ranks.",
    why="""
        The sum over the ranks of a value that all of them have alike is that value times their
        number. It is finite, of the right shape and in order, and the model babbles.
    """,
    example="A second all-reduce takes `attn_allreduce_out`, which is an all-reduce's result.",
    fix="Take the second sum out, or sum what the projection has made.",
    limits="Sums, norms, copies and additions of them are known to be alike on every rank.",
    repeats=True,
)


@RULE.checked_by
def reduced_twice(facts: RankFacts) -> Iterator[Finding]:
    found: dict[tuple[int, str, int], list[tuple[Operator, Operator]]] = {}
    for operator, source in facts.partials.resummed():
        name = min((name.name for name in operator.slots.get((True, 0), ())), default="")
        found.setdefault((operator.task_type, name, source.task_type), []).append(
            (operator, source)
        )
    for (_, _, source_type), places in found.items():
        operator, source = places[0]
        group = next(
            (g for g in operator.groups if _takes_its_own(facts, operator, g.inputs)),
            operator.groups[0],
        )
        tensor = facts.graph.tensors[group.inputs[0]].base_ptr
        layers = {one.place for one, _ in places if one.place is not None}
        where = f" (so in {in_layers(layers)})" if len(layers) > 1 else ""
        made = facts.task_type(source_type).name
        yield RULE.finding(
            facts.rank,
            (
                f"task {group.first} ({facts.task_type(operator.task_type).name}) sums {tensor} "
                f"over {facts.partials.ranks} ranks, and that is {made}'s result, which is the "
                f"same on every rank{where}"
            ),
            facts.in_graph("all_tasks", group.first, "inputs", 0, "base_ptr"),
            hint="sum once: take this sum out, or give it what the projection has made",
            related=(facts.in_graph("all_tasks", source.first, "task_type", note="made here"),),
            tensor=tensor,
        )


def _takes_its_own(facts: RankFacts, operator: Operator, inputs: tuple[int, ...]) -> bool:
    """Whether a task reads what the same operator writes."""
    own = {name.name for name in operator.names(is_input=False)}
    names = [facts.graph.tensors[number].base_ptr for number in inputs[:1]]
    return any(name in own for name in names)
