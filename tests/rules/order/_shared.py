"""What cases of several rules of order build on."""

from __future__ import annotations

from tests.emitter import Pair, deepseek_v3
from tests.rules.graphs import position, shift, small, to_end


def waits_for_too_little() -> tuple[Pair, int, int, int]:
    """An attention task starts with the tasks that write what it reads.

    Gives the pair, the task that writes, the task that reads, the event that orders the others.
    """
    pair = small()
    attention = pair.tasks(153)
    reader = position(pair, attention[1])
    event = attention[0]["dependent_event"]
    assert shift(pair, event) == reader
    writer = next(
        i for i, t in enumerate(pair.graph["all_tasks"]) if t["trigger_event"] == event + 1
    )
    return pair, writer, reader, event


def gathers_lead_to_the_end_alone() -> Pair:
    """The newer emitter's defect: the decode reads what nothing makes it wait for."""
    pair = deepseek_v3(5).emit()
    gathers = pair.tasks(278)
    decodes = list(dict.fromkeys(task["dependent_event"] for task in pair.tasks(269)))
    for gather, decode in zip(gathers, decodes, strict=True):
        waits = gather["dependent_event"]
        for task in pair.graph["all_tasks"]:
            if task["dependent_event"] == decode:
                task["dependent_event"] = waits
    to_end(pair, gathers)
    return pair


def a_projection_leads_to_the_end_alone() -> Pair:
    """Layer 1's norm writes what layer 0's linear may still be reading."""
    pair = small()
    to_end(pair, pair.tasks(155)[:1])
    return pair
