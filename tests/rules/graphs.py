"""Sound graphs of every kind, what is done to their events, and real ones to do it to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirage_gate import Finding, Selection
from tests.audits import findings_of
from tests.emitter import Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.emitter.graph import INVALID_EVENT

ORDER_AND_EVENTS = Selection(select=("MG3", "MG4"))


def small() -> Pair:
    return qwen3(2).emit()


def allgather(rank: int = 1) -> Pair:
    return qwen3(2, ranks=4, collective="allgather").emit(rank)


SOUND: dict[str, Callable[[], Pair]] = {
    "dense": small,
    "split-kv": lambda: qwen3(2, split_kv=True).emit(),
    "fused": lambda: qwen3_ampere(2).emit(),
    "mixture": lambda: qwen3_moe(2).emit(),
    "deepseek": lambda: deepseek_v3(4).emit(),
    "deepseek-tp8": lambda: deepseek_v3(4, dense_layers=2, ranks=8).emit(3),
    "tile-tp2": lambda: qwen3(2, ranks=2, collective="tile").emit(1),
    "allgather-tp4": allgather,
}


def position(pair: Pair, task: dict[str, Any]) -> int:
    """The number of a task."""
    number: int = pair.graph["all_tasks"].index(task)
    return number


def join(pair: Pair) -> int:
    """An event of several triggers in the midst of the graph."""
    events = pair.graph["all_events"]
    return next(i for i, e in enumerate(events) if i > len(events) // 3 and e["num_triggers"] > 2)


def recount(pair: Pair) -> None:
    """Let every event count what triggers it."""
    arrivals: dict[int, int] = {0: 1}
    for task in pair.graph["all_tasks"]:
        if task["trigger_event"] != INVALID_EVENT:
            event = task["trigger_event"] & 0xFFFF_FFFF
            arrivals[event] = arrivals.get(event, 0) + 1
    for number, event in enumerate(pair.graph["all_events"]):
        event["num_triggers"] = arrivals.get(number, 0)


def shift(pair: Pair, event: int) -> int:
    """Move the boundary after an event's range up by one task, ids and all; give the task."""
    events, tasks = pair.graph["all_events"], pair.graph["all_tasks"]
    moved: int = events[event + 1]["first_task_id"]
    tasks[moved]["dependent_event"] = tasks[moved - 1]["dependent_event"]
    events[event]["last_task_id"] = events[event + 1]["first_task_id"] = moved + 1
    return moved


def to_end(pair: Pair, tasks: list[dict[str, Any]]) -> None:
    """Let tasks trigger END instead of what waits for them, every count made right again."""
    end = len(pair.graph["all_events"]) - 1
    for task in tasks:
        task["trigger_event"] = task["trigger_event"] >> 32 << 32 | end
    recount(pair)


class RealPair:
    """A real pair, changed a line at a time: its text has one scalar on each."""

    def __init__(self, artifacts: Path, name: str, rank: int = 0) -> None:
        folder = artifacts / name
        self.rank = rank
        self.cuda = (folder / f"kernel_{rank}.cu").read_text()
        self.lines = (folder / f"task_graph_{rank}.json").read_text().split("\n")
        starts = [i for i, line in enumerate(self.lines) if line == "    {"]
        tasks_at = self.lines.index('  "all_tasks": [')
        self.starts = {
            "all_events": [i for i in starts if i < tasks_at],
            "all_tasks": [i for i in starts if i > tasks_at],
        }

    def line(self, of: str, number: int, field: str) -> int:
        """The line (from 1) of a number of an event or task."""
        at = self.starts[of][number]
        while not self.lines[at].startswith(f'      "{field}": '):
            at += 1
        return at + 1

    def get(self, of: str, number: int, field: str) -> int:
        text = self.lines[self.line(of, number, field) - 1]
        return int(text.split(":")[1].rstrip(","))

    def put(self, of: str, number: int, field: str, value: int) -> None:
        at = self.line(of, number, field) - 1
        comma = "," if self.lines[at].endswith(",") else ""
        self.lines[at] = f'      "{field}": {value}{comma}'

    def check(self) -> tuple[Finding, ...]:
        report = findings_of(
            self.cuda, "\n".join(self.lines), rank=self.rank, selection=ORDER_AND_EVENTS
        )
        assert report.ranks[0].audited, report.ranks[0].failure
        return report.findings


def renumbered(pair: Pair, order: list[int]) -> Pair:
    """Put the tasks into a new order (old ids); the ranges of events and first_tasks follow."""
    graph = pair.graph
    new = {old: number for number, old in enumerate(order)}
    graph["all_tasks"] = [graph["all_tasks"][old] for old in order]
    graph["first_tasks"] = [new[old] for old in graph["first_tasks"]]
    for event in graph["all_events"][2:]:
        held = sorted(new[old] for old in range(event["first_task_id"], event["last_task_id"]))
        if held:
            assert held == list(range(held[0], held[-1] + 1)), "a range is torn apart"
            event["first_task_id"], event["last_task_id"] = held[0], held[-1] + 1
    return pair
