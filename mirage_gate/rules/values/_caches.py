"""Caches that two layers write: whose they are by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import layer_in
from mirage_gate.rules._claims import taken

if TYPE_CHECKING:
    from mirage_gate.facts.values.caches import Lost


def taken_by_another(caches: list[Lost]) -> list[str]:
    """Say which one operator takes each of some caches, if they are another layer's."""
    foreign = [
        (value.tensor, value.operator.first)
        for one in caches
        for value in (one.value, one.other)
        if layer_in(value.tensor) not in (None, value.operator.place)
    ]
    operators = {first for _, first in foreign}
    alone = len(foreign) == len(caches) and len(operators) == 1
    return [taken(tensor, first) for tensor, first in foreign] if alone else []
