"""MG605: the events of one rank join its tasks otherwise than on the others."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import LayerShape, Summary
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.ranks._shared import odd_ones

RULE = Rule(
    "MG605",
    "event-layout-differs",
    Severity.WARNING,
    "The events of one rank join its tasks otherwise than on the others.",
    why="""
        A trigger that goes to another rank names an event by its position there. Ranks
        whose events are laid out alike can be sure that it is the one that was meant.
    """,
    example="In layer 2, rank 1's all-reduce waits for 16 events, rank 0's for 32.",
    fix="Emit all ranks again with one builder.",
    limits="The rank in an event's id is no difference.",
    scope="ranks",
)


@RULE.checked_by
def event_layout_differs(ranks: Ranks) -> Iterator[Finding]:
    found = odd_ones(ranks, _shapes)
    if found is None:
        return
    usual, _ = found
    for summary in ranks.audited:
        if _shapes(summary) == _shapes(usual) or summary.events_at is None:
            continue
        theirs = {_key(shape): shape for shape in usual.layers}
        mine = {_key(shape): shape for shape in summary.layers}
        layers = [key for key in {**theirs, **mine} if mine.get(key) != theirs.get(key)]
        if not layers:
            continue
        first = layers[0]
        more = f" and in {plural(len(layers) - 1, 'other')}" if len(layers) > 1 else ""
        layer, of = first
        where = "outside of the layers" if layer is None else f"in layer {layer}{of}"
        yield RULE.finding(
            summary.rank,
            (
                f"{where}{more}, rank {summary.rank} has {_shape(mine.get(first))}, rank "
                f"{usual.rank} {_shape(theirs.get(first), mine.get(first))}"
            ),
            summary.events_at,
            hint="emit all ranks again with one builder",
            related=(usual.events_at.saying(f"rank {usual.rank}'s events"),)
            if usual.events_at
            else (),
        )


def _key(shape: LayerShape) -> tuple[int | None, str]:
    """A layer's number and, of two models in one graph, `` of`` whose it is."""
    _, of, model = shape.kind.partition(" of ")
    return shape.layer, of + model


def _shapes(summary: Summary) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (shape.layer, shape.operators, shape.tasks, shape.events) for shape in summary.layers
    )


def _shape(shape: LayerShape | None, other: LayerShape | None = None) -> str:
    if shape is None:
        return "nothing"
    size = f"{plural(shape.operators, 'operator')} and {plural(shape.tasks, 'task')}"
    if other and (shape.operators, shape.tasks) == (other.operators, other.tasks):
        return "the same, joined by other events"
    return size
