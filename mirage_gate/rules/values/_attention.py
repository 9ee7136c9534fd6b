"""What attention is run for, where it can be told whether that goes anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage_gate.facts.words import attends, results

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Value


def attention_results(facts: RankFacts) -> dict[int, list[Value]]:
    """Give what attention is run for, without its caches, by operator.

    Only where other layers read what theirs gives: a layer whose result nobody needs may be
    there to fill its caches.
    """
    found: dict[int, list[Value]] = {}
    read: dict[tuple[int, int], set[int]] = {}
    for number, values in facts.values.written.items():
        operator = values[0].operator
        name = facts.task_type(operator.task_type).name
        if operator.place is None or not attends(name):
            continue
        proper = results(name)
        found[number] = [value for value in values if value.place in proper]
        if any(value.read for value in found[number]):
            read.setdefault((operator.task_type, operator.stack), set()).add(operator.place)
    return {
        number: values
        for number, values in found.items()
        if values and _elsewhere(values[0].operator, read)
    }


def _elsewhere(operator: Operator, places: dict[tuple[int, int], set[int]]) -> bool:
    """Whether another layer is among the places of an operator's type."""
    return bool(places.get((operator.task_type, operator.stack), set()) - {operator.place})
