"""One changed copy of a subject, and where in it the change stands."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

from mirage_gate.artifacts.model import ModelConfig
from tests.emitter import Pair
from tests.emitter.graph import dump

from .subject import Subject

__all__ = ["Draft", "Mutant"]

_MARK = "\x01mark"


@dataclass(frozen=True)
class Mutant:
    """The two texts, and (half, line) pairs, any of which a finding should name; none: unknown.

    `files` replaces the pair altogether where a mutant is about files or ranks: name to content.
    `model`: what the gate is told of the model.
    `header`: the code of the one task type that only the emitter knows is told to the gate.
    """

    cuda: str
    graph: str | bytes
    places: frozenset[tuple[str, int]] = frozenset()
    what: str = ""
    files: dict[str, str | bytes] | None = None
    header: bool = True
    model: ModelConfig | None = None

    @classmethod
    def of(cls, pair: Pair, what: str) -> Mutant:
        """A pair that was made wrong as a whole."""
        return cls(pair.cuda_text(), pair.json_text(), what=what)


@dataclass
class Draft:
    """Copies what it changes, and nothing else. `note` says in a few words what was done."""

    subject: Subject
    note: str = ""
    tasks: list[dict[str, Any]] = field(init=False)
    events: list[dict[str, Any]] = field(init=False)
    first_tasks: list[int] = field(init=False)
    cuda: str = field(init=False)
    places: set[tuple[str, int]] = field(default_factory=set)
    _own: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tasks = list(self.subject.tasks)
        self.events = list(self.subject.events)
        self.first_tasks = list(self.subject.first_tasks)
        self.cuda = self.subject.cuda

    # -- the graph -------------------------------------------------------------------------------

    def task(self, number: int) -> dict[str, Any]:
        """A task, open to change."""
        return self._mine(self.tasks, number)

    def event(self, number: int) -> dict[str, Any]:
        """An event, open to change."""
        return self._mine(self.events, number)

    def _mine(self, elements: list[dict[str, Any]], number: int) -> dict[str, Any]:
        element = elements[number]
        if id(element) not in self._own:
            element = elements[number] = copy.deepcopy(element)
            self._own.add(id(element))
        return element

    def slot(self, task: int, side: str, slot: int) -> dict[str, Any]:
        """The tensor in a slot, open to change."""
        tensor: dict[str, Any] = self.task(task)[side][slot]
        return tensor

    def relayout(self) -> None:
        """Number the tasks anew, so that each event's range is just the tasks that wait for it.

        Tasks keep their order within an event, events theirs among themselves. So a task can be
        made to wait for another event, or be removed, with every range kept consistent.
        """
        first = [self.tasks[i] for i in self.first_tasks if i < len(self.tasks)]
        keep = {id(task) for task in (*self.tasks[:2], *first)}
        waiting: dict[int, list[dict[str, Any]]] = {}
        for task in self.tasks:
            if id(task) not in keep:
                waiting.setdefault(task["dependent_event"] & 0xFFFF_FFFF, []).append(task)
        tasks = [*self.tasks[:2], *first]
        order = sorted(
            range(2, len(self.events) - 1), key=lambda e: self.events[e]["first_task_id"]
        )
        for number in order:
            start = len(tasks)
            tasks += waiting.get(number, [])
            event = self.events[number]
            if (event["first_task_id"], event["last_task_id"]) != (start, len(tasks)):
                event = self.event(number)
                event["first_task_id"], event["last_task_id"] = start, len(tasks)
        self.tasks = tasks
        self.first_tasks = list(range(2, 2 + len(first)))
        if self.events[1]["last_task_id"] != len(tasks):
            self.event(1)["last_task_id"] = len(tasks)

    def remove_task(self, number: int) -> None:
        """Take a task out and keep all else consistent: counts, ranges, ids."""
        trigger = self.tasks[number]["trigger_event"]
        self.event(trigger & 0xFFFF_FFFF)["num_triggers"] -= 1
        if number in self.first_tasks:
            self.first_tasks = [f - (f > number) for f in self.first_tasks if f != number]
        else:
            self.first_tasks = [f - (f > number) for f in self.first_tasks]
        del self.tasks[number]
        self.relayout()

    def index(self, task: dict[str, Any]) -> int:
        """Where a task stands now."""
        return next(i for i, other in enumerate(self.tasks) if other is task)

    # -- the .cu ---------------------------------------------------------------------------------

    def replace(self, old: str, new: str, count: int = 1) -> None:
        """Replace a text that must be there."""
        if old not in self.cuda:
            raise LookupError(f"{old!r} is not in the .cu of {self.subject.name}")
        self.cuda = self.cuda.replace(old, new, count)

    def sub(self, pattern: str, new: str, count: int = 1) -> None:
        """Replace what a pattern matches; it must match."""
        self.cuda, done = re.subn(pattern, new, self.cuda, count=count, flags=re.MULTILINE)
        if not done:
            raise LookupError(f"{pattern!r} matches nothing in the .cu of {self.subject.name}")

    def declare(self, name: str, nbytes: int) -> None:
        """Add a scratch buffer at the end of the declarations."""
        self.replace(
            '  all_tensors["nullptr"]',
            f"  void *{name};\n  CUDA_CHECK(cudaMalloc(&{name}, {nbytes}));\n"
            f'  all_tensors["{name}"] = {name};\n  all_tensors["nullptr"]',
        )

    def rename(self, old: str, new: str) -> None:
        """Give a tensor another name in both files."""
        self.cuda = re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", new, self.cuda)
        for number, task in enumerate(self.tasks):
            for side in ("inputs", "outputs"):
                for slot, tensor in enumerate(task[side] or []):
                    if tensor["base_ptr"] == old:
                        self.slot(number, side, slot)["base_ptr"] = new

    # -- places ----------------------------------------------------------------------------------

    def declared(self, name: str) -> None:
        """Expect a finding on the `all_tensors` line of a tensor."""
        self.places.add(("cuda", self.cuda_line(f'all_tensors["{name}"]')))

    def cuda_line(self, text: str) -> int:
        at = self.cuda.index(text)
        return self.cuda.count("\n", 0, at) + 1

    def at(self, number: int, *path: str | int) -> None:
        """Expect a finding on the line of a task's field."""
        self.places.add(("graph", self.line("all_tasks", number, *path)))

    def at_event(self, number: int, field: str) -> None:
        """Expect a finding on the line of an event's field."""
        self.places.add(("graph", self.line("all_events", number, field)))

    def line(self, top: str, number: int, *path: str | int) -> int:
        """The line of a value in the text that `text` gives."""
        elements = self.events if top == "all_events" else self.tasks
        before = 2 + sum(map(self._lines, elements[:number]))
        if top == "all_tasks":
            before += sum(map(self._lines, self.events)) + 2
        marked = copy.deepcopy(elements[number])
        if not path:
            return before + 1
        inner: Any = marked
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = _MARK
        lines = dump(marked).split("\n")
        return (
            before
            + 1
            + next(i for i, line in enumerate(lines) if "mark" in line and "u0001" in line)
        )

    def _lines(self, element: dict[str, Any]) -> int:
        return self.subject.chunk(element).count("\n") + 1

    # -- the result ------------------------------------------------------------------------------

    def text(self) -> str:
        """The graph as nlohmann's `dump(2)` would write it."""
        events = ",\n".join(map(self.subject.chunk, self.events))
        tasks = ",\n".join(map(self.subject.chunk, self.tasks))
        first = ",\n".join(f"    {task}" for task in self.first_tasks)
        first = f"[\n{first}\n  ]" if first else "[]"
        return (
            f'{{\n  "all_events": [\n{events}\n  ],\n  "all_tasks": [\n{tasks}\n  ],\n'
            f'  "first_tasks": {first}\n}}'
        )

    def graph(self) -> dict[str, Any]:
        return {
            "all_events": self.events,
            "all_tasks": self.tasks,
            "first_tasks": self.first_tasks,
        }

    def mutant(self, what: str = "") -> Mutant:
        return Mutant(self.cuda, self.text(), frozenset(self.places), what or self.note)
