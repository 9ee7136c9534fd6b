"""MG705: in one layer an operator has another number of tasks than in all its siblings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import in_layers, plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._shared import is_odd, is_whole_class, operator_text

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG705",
    "grid-outlier",
    Severity.WARNING,
    "In one layer an operator has another number of tasks than in all its siblings.",
    why="""
        Siblings cut the same work into the same grid. Fewer tasks in one layer may be rows
        or columns that nobody computes; more may be work done twice.
    """,
    example="The down projection of layer 5 has 8 tasks; in all other layers it has 16.",
    fix="Give the operator the grid that it has in the sibling layers.",
    limits="One layer of four or more is an outlier, or at most one in eight.",
)


@RULE.checked_by
def grid_outlier(facts: RankFacts) -> Iterator[Finding]:
    for column in facts.siblings.columns:
        tasks = {layer: operator.tasks for layer, operator in column.operators.items()}
        if len(tasks) < 4 or len(set(tasks.values())) < 2:
            continue
        usual = Counter(tasks.values()).most_common(1)[0][0]
        every = [layer for layer, count in tasks.items() if count != usual]
        if not is_odd(every, tasks) or is_whole_class(facts, column, every):
            continue
        for count in sorted({tasks[layer] for layer in every}):
            layers = [layer for layer in every if tasks[layer] == count]
            sibling = next(layer for layer in tasks if tasks[layer] == usual)
            first, other = column.operators[layers[0]].first, column.operators[sibling].first
            same = sum(n == usual for n in tasks.values())
            yield RULE.finding(
                facts.rank,
                (
                    f"in {in_layers(layers)}, {operator_text(facts, *column.key)} has "
                    f"{plural(count, 'task')}; in {plural(same, 'sibling layer')} it has {usual}"
                ),
                facts.in_graph("all_tasks", first, "task_type"),
                hint=f"give it the grid of layer {sibling}",
                related=(
                    facts.in_graph("all_tasks", other, "task_type", note=f"layer {sibling}'s"),
                ),
            )
