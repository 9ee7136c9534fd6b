"""The pattern of the layers' classes, as every second layer a mixture, and one layer against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.rules._words import in_layers
from mirage_gate.rules.layers._lacks import Lack
from mirage_gate.rules.layers._patterns import hole_in

if TYPE_CHECKING:
    from mirage_gate.artifacts.model import Promise
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.siblings import Siblings

_LEAST = 3
"""A class of fewer layers is no part of the pattern: it lacks something, or has it twice."""


def class_holes(facts: RankFacts, siblings: Siblings) -> Iterator[tuple[int, Lack]]:
    """Give the one layer that is of another class than the pattern of classes has there."""
    labels = {layer: siblings.class_of(layer).number for layer in siblings.layers}
    hole = hole_in(labels)
    if hole is None or len(siblings.class_of(hole.layer).layers) < _LEAST:
        return
    if _any_said(facts, siblings, hole.layer):
        return
    row, model = siblings.layers[hole.layer], siblings.layers[hole.like[0]]
    at = next(
        (n for n, (a, b) in enumerate(zip(row, model, strict=False)) if a.task_type != b.task_type),
        min(len(row) - 1, len(model)),
    )
    own = [layer for layer in siblings.class_of(hole.layer).layers if layer != hole.layer]
    yield (
        hole.layer,
        Lack(
            order=-1,
            operator="its sequence of operators",
            state=f"that of {in_layers(own)}",
            tensors=(f"the operators of a {siblings.kind_of(hole.like[0])} layer",),
            critical=False,
            at=facts.in_graph("all_tasks", row[at].first, "task_type"),
            siblings={layer: siblings.layers[layer][0] for layer in hole.like},
            index=-1,
        ),
    )


def _any_said(facts: RankFacts, siblings: Siblings, layer: int) -> bool:
    model = facts.options.model
    return model is not None and any(
        says(facts, siblings, layer, said)
        for said in (model.attention, model.feed_forward, model.mixture)
    )


def says(facts: RankFacts, siblings: Siblings, layer: int, said: Promise) -> bool:
    """Whether a model's configuration says if the layer has something."""
    known = layer - facts.features.base in said.having | said.lacking
    return known and siblings.stack == facts.layers.main
