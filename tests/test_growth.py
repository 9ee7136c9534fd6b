"""Twice as much of anything is twice the work, whatever its shape: counted, never timed.

The work counted is lines of Python run, each turn of a comprehension's loop being one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from benchmarks.shapes import SHAPES
from mirage_gate import audit
from mirage_gate.artifacts import cuda as cuda_files
from mirage_gate.artifacts.graph import Graph
from mirage_gate.artifacts.loader import load
from mirage_gate.facts import Options, RankFacts
from tests.emitter.graph import dump

MOST = 2.5
"""The work of twice the size, as a multiple: two, and what a tree or a sort adds to it."""


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python some work runs."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """What twice the size costs, as a multiple, without what any size costs."""
    work(size)()  # what is worked out once
    one, two, four = (lines_run(work(n)) for n in (size, 2 * size, 4 * size))
    return (four - two) / (two - one)


def facts_of(name: str, size: int) -> RankFacts:
    text, graph = SHAPES[name](size).texts()
    decoded = load(dump(graph).encode())
    assert isinstance(decoded, Graph)
    cuda = cuda_files.parse("k.cu", text.encode())
    return RankFacts(0, cuda, decoded, "g.json", Options())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_facts_of_the_worst_shapes(shape: str) -> None:
    def work(size: int) -> Callable[[], object]:
        facts = facts_of(shape, size)
        return lambda: (
            facts.wiring.accesses,
            [facts.regions.of(name) for name in facts.regions.names],
            facts.layers.of_group,
            facts.events.before,
            facts.events.stall,
            facts.events.to_end,
            facts.order.tensors,
        )

    assert growth(work, 60) < MOST


@pytest.mark.parametrize("shape", SHAPES)
def test_the_whole_audit_of_the_worst_shapes(shape: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text, graph = SHAPES[shape](size).texts()
        written = dump(graph)
        return lambda: audit(text, written)

    assert growth(work, 50) < MOST
