"""MG605 event-layout-differs."""

from __future__ import annotations

from mirage_gate import Severity
from tests.emitter import Pair
from tests.rules import At, Expect, fires, line_of, silent

from ._shared import TP2


def _joined_otherwise(pair: Pair) -> Pair:
    """What a layer's first norms trigger is the event after."""
    for task in pair.tasks(tensor="layer_1_input_layernorm"):
        task["trigger_event"] += 1
    return pair


@fires(
    "MG605",
    Severity.WARNING,
    rank=1,
    says=("in layer 1, rank 1 has 10 operators", "joined by other events"),
    once=True,
)
def test_events_laid_out_otherwise() -> Expect:
    ranks = [TP2.emit(0), _joined_otherwise(TP2.emit(1))]
    return Expect(ranks, at=At("task_graph_1.json", line_of(ranks[1].json_text(), '"all_events"')))


@silent("MG605")
def test_events_laid_out_otherwise_on_both_ranks() -> list[Pair]:
    return [_joined_otherwise(pair) for pair in TP2.emit_all()]
