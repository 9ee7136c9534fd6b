"""A correct pair of files, and the facts that make a change to it a defect or harmless."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from tests.emitter import Pair
from tests.emitter.graph import BF16, FLOAT32, FP8, INT32, INT64, UINT32, dump
from tests.emitter.invariants import (
    AT_RUN_TIME,
    ATTENTION,
    INVALID,
    OPTIONAL_INPUTS,
    PARTIAL,
    PUT_REMOTE,
    Runs,
    byte_runs,
    read_cuda,
)
from tests.emitter.invariants import _direction as direction
from tests.emitter.invariants import _overlap as overlap
from tests.emitter.invariants import _position as position

__all__ = [
    "EMBEDDING",
    "INVALID",
    "REPEATED",
    "SIZES",
    "Subject",
    "Use",
    "layer_of",
    "overlap",
    "position",
    "role_of",
]

SIZES = {FP8: 1, BF16: 2, 940: 2, FLOAT32: 4, INT32: 4, UINT32: 4, INT64: 8}
CROSSES_RANKS = frozenset({(107, "inputs", 1), (302, "inputs", 0), (PUT_REMOTE, "outputs", 0)})
REPEATED, EMBEDDING = 275, 101
"""QUANTIZE_FP8: several identical tasks, of which a reader needs one. And the look-up of tokens."""


_Key = TypeVar("_Key")


_LAYER = re.compile(r"(?:^|[._])layers?[._](\d+)(?=[._])")


def layer_of(name: str) -> int | None:
    """The layer's number in a weight's name; a module of multi-token prediction has none."""
    found = _LAYER.search(name)
    return int(found[1]) if found and not re.search(r"(^|[._])mtp([._]|$)", name) else None


def role_of(name: str) -> str:
    """The name with `N` for the layer's number."""
    return _LAYER.sub(lambda match: match[0].replace(match[1], "N"), name, count=1)


@dataclass(frozen=True)
class Use:
    """One slot that a kernel really touches.

    `exact`: it touches just the bytes of the tile, on this rank. `operator` numbers the stretch of
    tasks of one type and variant that the task is part of.
    """

    task: int
    side: str
    slot: int
    name: str
    reads: bool
    writes: bool
    exact: bool
    optional: bool
    operator: int
    code: int
    runs: Runs = field(repr=False)
    tile: tuple[int, tuple[int, ...], tuple[int, ...], int] = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return SIZES.get(self.tile[3], 1)


class Subject:
    """One rank's two texts. Nothing here is ever changed: see `Draft`."""

    def __init__(self, name: str, rank: int, cuda: str, graph: dict[str, Any]) -> None:
        self.name = name
        self.rank = rank
        self.cuda = cuda
        self.events: list[dict[str, Any]] = graph["all_events"]
        self.tasks: list[dict[str, Any]] = graph["all_tasks"]
        self.first_tasks: list[int] = graph["first_tasks"]
        self._chunks: dict[int, str] = {}

    @classmethod
    def of(cls, name: str, pair: Pair) -> Subject:
        return cls(name, pair.rank, pair.cuda_text(), pair.graph)

    @classmethod
    def read(cls, name: str, rank: int, cuda: str, graph: str) -> Subject:
        return cls(name, rank, cuda, json.loads(graph))

    # -- text ----------------------------------------------------------------------------------

    def chunk(self, element: dict[str, Any]) -> str:
        """The text of a task or event; remembered for those of the original."""
        if id(element) not in self._originals:
            return _chunk(element)
        text = self._chunks.get(id(element))
        if text is None:
            text = self._chunks[id(element)] = _chunk(element)
        return text

    @cached_property
    def _originals(self) -> frozenset[int]:
        return frozenset(map(id, (*self.tasks, *self.events)))

    # -- declarations ----------------------------------------------------------------------------

    @cached_property
    def source(self) -> Any:
        """What the invariants' own reader finds in the `.cu`."""
        return read_cuda(self.cuda)

    @cached_property
    def storage(self) -> dict[str, str]:
        """Kind of storage by declared name, the sentinel aside."""
        return {n: kind for n, (kind, _) in self.source.tensors.items() if n != "nullptr"}

    def nbytes(self, name: str) -> int:
        return int(self.source.tensors[name][1])

    def kinds(self, *kinds: str) -> list[str]:
        """Declared names of some kinds of storage that tasks use."""
        return [n for n, kind in self.storage.items() if kind in kinds and self.by_name.get(n)]

    # -- uses ------------------------------------------------------------------------------------

    @cached_property
    def uses(self) -> list[Use]:
        """Every slot that a body names and that holds a tensor, in task order."""
        return list(self._uses())

    def _uses(self) -> Iterator[Use]:
        operator, last = 0, (0, 0)
        for number, task in enumerate(self.tasks[2:], 2):
            code, variant = task["task_type"], task["variant_id"]
            if (code, variant) != last:
                operator, last = operator + 1, (code, variant)
            named = set(self.source.bodies.get((code, variant), ()))
            for side in ("inputs", "outputs"):
                for slot, tensor in enumerate(task[side] or []):
                    name = tensor["base_ptr"]
                    if (side, slot) not in named or name == "nullptr":
                        continue
                    reads, writes = direction(code, side, slot)
                    dims, strides = tuple(tensor["dims"]), tuple(tensor["strides"])
                    offset, dtype = tensor["offset"], tensor["data_type"]
                    exact = (AT_RUN_TIME.get((code, side, slot)) is None or code == REPEATED) and (
                        code,
                        side,
                        slot,
                    ) not in CROSSES_RANKS
                    yield Use(
                        task=number,
                        side=side,
                        slot=slot,
                        name=name,
                        reads=reads,
                        writes=writes,
                        exact=exact and not PARTIAL.fullmatch(name),
                        optional=code in ATTENTION and slot in OPTIONAL_INPUTS,
                        operator=operator,
                        code=code,
                        runs=byte_runs(dims, strides, offset, SIZES.get(dtype, 1)),
                        tile=(offset, dims, strides, dtype),
                    )

    @cached_property
    def by_name(self) -> dict[str, list[Use]]:
        return _grouped(self.uses, lambda use: use.name)

    @cached_property
    def by_task(self) -> dict[int, list[Use]]:
        return _grouped(self.uses, lambda use: use.task)

    @cached_property
    def by_operator_slot(self) -> dict[tuple[int, str, int], list[Use]]:
        """The tiles that one operator's tasks have in one slot."""
        return _grouped(self.uses, lambda use: (use.operator, use.side, use.slot))

    @cached_property
    def any_reference(self) -> frozenset[str]:
        """Every name in any slot, named by a body or not."""
        return frozenset(
            tensor["base_ptr"]
            for task in self.tasks
            for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ()))
        )

    @cached_property
    def layers(self) -> int:
        """How many layers the weights' names number."""
        numbers = {layer for name in self.storage if (layer := layer_of(name)) is not None}
        return max(numbers, default=-1) + 1

    # -- order -----------------------------------------------------------------------------------

    def dependent(self, task: int) -> int:
        waits = self.tasks[task]["dependent_event"]
        return 1 if waits == INVALID else position(waits)

    def trigger(self, task: int) -> int:
        return position(self.tasks[task]["trigger_event"])

    @cached_property
    def after(self) -> list[int]:
        """For each event the set of events it comes before or is, as bits; edges all go up."""
        edges: dict[int, set[int]] = defaultdict(set)
        for number in range(2, len(self.tasks)):
            edges[self.dependent(number)].add(self.trigger(number))
        after = [0] * len(self.events)
        for event in reversed(range(len(self.events))):
            after[event] = 1 << event
            for target in edges[event]:
                after[event] |= after[target]
        return after

    @cached_property
    def triggers(self) -> Counter[int]:
        """How many tasks trigger each event."""
        return Counter(self.trigger(number) for number in range(1, len(self.tasks)))

    def operators(self) -> list[list[int]]:
        """The tasks of each operator, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for task, uses in self.by_task.items():
            found[uses[0].operator].append(task)
        return list(found.values())


def _grouped(uses: list[Use], key: Callable[[Use], _Key]) -> dict[_Key, list[Use]]:
    groups: dict[_Key, list[Use]] = defaultdict(list)
    for use in uses:
        groups[key(use)].append(use)
    return groups


def _chunk(element: dict[str, Any]) -> str:
    return "    " + dump(element, 4)
