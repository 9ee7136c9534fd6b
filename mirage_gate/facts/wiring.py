"""Who references which tensor, how, and whether the reference is real.

Tasks are looked at by group: those of one type and variant, with the same operands and
events, are one entry with a count. Everything later works on groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.task_types import Slot

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts


class Group(msgspec.Struct, frozen=True, eq=False):
    """Tasks alike in type, variant, operands and events. ``first`` is the lowest task id."""

    number: int
    task_type: int
    variant: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dependent: int
    trigger: int
    first: int
    count: int


class Access(msgspec.Struct, frozen=True, eq=False):
    """One slot of one group: which tensor it carries and what really happens to it.

    ``tensor`` numbers the distinct reference in ``Graph.tensors``. ``reads`` and ``writes``
    are what the slot does and the dispatch body names; both are False where the body
    ignores the slot.
    """

    group: Group
    is_input: bool
    index: int
    tensor: int
    slot: Slot
    reads: bool
    writes: bool

    @property
    def side(self) -> str:
        """The slot's list in the JSON: ``inputs`` or ``outputs``."""
        return "inputs" if self.is_input else "outputs"


class Wiring:
    """The groups of a rank, and every access, by tensor name."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._uses: dict[tuple[int, int, bool, int], tuple[Slot, bool, bool]] = {}

    @cached_property
    def groups(self) -> list[Group]:
        """Every group, in order of its first task."""
        tasks = self._facts.graph.tasks
        first: dict[tuple[int, int, tuple[int, ...], tuple[int, ...], int, int], int] = {}
        count: Counter[int] = Counter()
        for number, task in enumerate(tasks):
            key = (
                task.task_type,
                task.variant_id,
                task.inputs,
                task.outputs,
                task.dependent_event,
                task.trigger_event,
            )
            count[first.setdefault(key, number)] += 1
        return [
            Group(i, *key, first=number, count=count[number])
            for i, (key, number) in enumerate(first.items())
        ]

    def branch(self, task_type: int, variant: int) -> Branch | None:
        """Give the dispatch branch that runs (type, variant), if the ``.cu`` has one."""
        name = self._facts.task_type(task_type).name
        return self._facts.cuda.dispatch.get((name, variant))

    def use(self, group: Group, is_input: bool, index: int) -> tuple[Slot, bool, bool]:
        """Give (slot, reads, writes) of one slot of a group."""
        key = (group.task_type, group.variant, is_input, index)
        use = self._uses.get(key)
        if use is None:
            kind = self._facts.task_type(group.task_type)
            slot = kind.input(index) if is_input else kind.output(index)
            branch = self.branch(group.task_type, group.variant)
            named = branch is None or (
                branch.names_input(index) if is_input else branch.names_output(index)
            )
            use = self._uses[key] = (slot, slot.reads and named, slot.writes and named)
        return use

    @cached_property
    def accesses(self) -> dict[str, list[Access]]:
        """Every reference to each tensor name, in task order of the groups."""
        names = [tensor.base_ptr for tensor in self._facts.graph.tensors]
        accesses: dict[str, list[Access]] = {}
        for group in self.groups:
            for is_input, operands in ((True, group.inputs), (False, group.outputs)):
                for index, tensor in enumerate(operands):
                    slot, reads, writes = self.use(group, is_input, index)
                    access = Access(group, is_input, index, tensor, slot, reads, writes)
                    accesses.setdefault(names[tensor], []).append(access)
        return accesses

    def of(self, name: str) -> list[Access]:
        """Every reference to one tensor; none is an empty list."""
        return self.accesses.get(name, [])

    def input_refs(self, name: str) -> int:
        """Count the entries of tasks' ``inputs`` that carry the tensor."""
        return sum(a.group.count for a in self.of(name) if a.is_input)

    def output_refs(self, name: str) -> int:
        """Count the entries of tasks' ``outputs`` that carry the tensor."""
        return sum(a.group.count for a in self.of(name) if not a.is_input)

    def consumers(self, name: str) -> list[Group]:
        """List the groups that really read the tensor, each once."""
        return _unique(access.group for access in self.of(name) if access.reads)

    def producers(self, name: str) -> list[Group]:
        """List the groups that really write the tensor, each once."""
        return _unique(access.group for access in self.of(name) if access.writes)


def _unique(groups: Iterable[Group]) -> list[Group]:
    return list({group.number: group for group in groups}.values())


def tasks_in(groups: list[Group]) -> int:
    """Count the tasks of some groups."""
    return sum(group.count for group in groups)


def types_of(groups: list[Group]) -> tuple[int, ...]:
    """List the type codes of some groups, sorted."""
    return tuple(sorted({group.task_type for group in groups}))
