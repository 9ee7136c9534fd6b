"""MG505 repeated-work."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, deepseek_v3, qwen3
from tests.rules import fires, report_of, silent
from tests.rules.kernels._shared import in_task

ATTENTION = 153
QUANTIZE = 275


@fires(
    "MG505",
    Severity.WARNING,
    graph=in_task(QUANTIZE, "task_type"),
    says=("do the same work 8 times",),
)
def test_eight_tasks_quantise_the_whole_tensor() -> Pair:
    return deepseek_v3(1).emit()


@silent("MG505")
def test_one_task_quantises_the_whole_tensor() -> Pair:
    return deepseek_v3(1, dense_layers=1).sized(batch=1, splits=1).emit()


@silent("MG505")
def test_tasks_told_apart_by_the_request_they_serve() -> Pair:
    pair = qwen3(1).emit()
    first = pair.tasks(ATTENTION)
    for number, task in enumerate(first):  # one head, several requests
        task["inputs"], task["outputs"] = first[0]["inputs"], first[0]["outputs"]
        task["request_id"] = number
    return pair


def test_the_same_mistake_in_more_layers_is_said_in_the_same_words() -> None:
    """A layer more or less of those that have it is no other mistake; how many is said beside."""
    few, many = (
        [one for one in report_of(deepseek_v3(layers).emit()).findings if one.rule == "MG505"]
        for layers in (4, 6)
    )
    assert [one.message for one in few] == [one.message for one in many]
    notes = [[place.note for place in one.related] for one in (few[0], many[0])]
    assert all("the first of " in note[0] for note in notes)
    assert notes[0] != notes[1]
