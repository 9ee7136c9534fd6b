"""A small drawing of a trace: tasks as boxes, events as pills, and what is missing in red.

Only numbers and the words *task*, *event* and *END* come from the trace, so that nothing in
it needs to be trusted; the steps themselves stand beside the drawing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from mirage_gate.findings import Finding, Location

_WORDS = re.compile(r"\b(task|event) (\d{1,9})\b|\b(END)\b")
_MOST_NODES = 8


class Node(msgspec.Struct, frozen=True):
    """A box or a pill around a label; (x, y) is its centre."""

    kind: Literal["task", "event", "more"]
    label: str
    x: int
    y: int
    below: str = ""


class Drawing(msgspec.Struct, frozen=True):
    """Nodes, arrows between them (pairs of points), and the arrow that is not there."""

    width: int
    height: int
    nodes: tuple[Node, ...]
    arrows: tuple[tuple[int, int, int, int], ...]
    missing: tuple[int, int, int, int] | None
    text: str


def drawing(finding: Finding) -> Drawing | None:
    """Draw a finding's trace; None if its steps name no tasks or events."""
    if finding.rule.startswith("MG3") and (fork := _fork(finding.trace)):
        return fork
    return _chain(finding.trace)


def _named(step: Location, kind: str) -> str | None:
    """The first task or event that a step names."""
    if kind == "event" and "END" in (found[2] for found in _WORDS.findall(step.note)):
        return "END"
    for word, number, _ in _WORDS.findall(step.note):
        if word == kind:
            return f"{word} {number}"
    return None


def _does(step: Location) -> str:
    return next((word for word in ("writes", "reads") if f" {word} " in step.note), "")


def _fork(trace: Sequence[Location]) -> Drawing | None:
    """Two tasks that touch the same bytes, and the events that do not order them."""
    if not 3 <= len(trace) <= 4:
        return None
    one, fires = _named(trace[0], "task"), _named(trace[1], "event")
    other, waits = _named(trace[-1], "task"), _named(trace[-1], "event")
    if not one or not other:
        return None
    left, right, middle = 95, 305, 200
    nodes = [
        Node("task", one, left, 92, _does(trace[0])),
        Node("task", other, right, 148, _does(trace[-1])),
    ]
    arrows = []
    top = _named(trace[2], "event") if len(trace) == 4 else None
    if top:
        nodes.append(Node("event", top, middle, 24))
        arrows += [(middle - 46, 30, left, 70), (middle + 46, 30, right, 74)]
    if fires:
        nodes.append(Node("event", fires, left, 178))
        arrows.append((left, 122, left, 162))
    if waits:
        nodes.append(Node("event", waits, right, 90))
        arrows.append((right, 106, right, 128))
    return Drawing(
        400,
        206,
        tuple(nodes),
        tuple(arrows),
        (left + 52, 97, right - 54, 143),
        f"{one} and {other}: no chain of events leads from the one to the other",
    )


def _chain(trace: Sequence[Location]) -> Drawing | None:
    """The steps one after the other, downwards."""
    nodes: list[Node] = []
    steps = [*trace]
    left_out = len(steps) - _MOST_NODES
    if left_out > 0:
        steps = [*steps[: _MOST_NODES // 2], *steps[-_MOST_NODES // 2 :]]
    for number, step in enumerate(steps):
        if left_out > 0 and number == _MOST_NODES // 2:
            nodes.append(Node("more", f"{left_out} more", 100, 24 + 52 * len(nodes)))
        event, task = _named(step, "event"), _named(step, "task")
        found = _WORDS.search(step.note)
        if not found:
            return None
        first = found[1] or "event"
        label = task if first == "task" and task else event or task or ""
        kind: Literal["task", "event"] = "task" if first == "task" else "event"
        nodes.append(Node(kind, label, 100, 24 + 52 * len(nodes)))
    if len(nodes) < 2:
        return None
    arrows = tuple((100, node.y + 16, 100, node.y + 36) for node in nodes[:-1])
    text = ", then ".join(node.label for node in nodes)
    return Drawing(200, 52 * len(nodes) - 4, tuple(nodes), arrows, None, text)
