"""Who references which tensor, how, and whether the reference is real.

Tasks are looked at by group: those of one type and variant, with the same operands and
events, are one entry with a count. Everything later works on groups.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import METADATA_FIELDS
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
    def ignored(self) -> bool:
        """Whether the type uses the slot, and this variant's body does not."""
        return not (self.reads or self.writes) and (self.slot.reads or self.slot.writes)

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
        return self._grouped[0]

    @cached_property
    def group_of(self) -> array[int]:
        """The group's number of each task."""
        return self._grouped[1]

    @cached_property
    def _grouped(self) -> tuple[list[Group], array[int]]:
        numbers: dict[tuple[int, int, tuple[int, ...], tuple[int, ...], int, int], int] = {}
        of_task = array("I")
        first: list[int] = []
        for task_id, task in enumerate(self._facts.graph.tasks):
            key = (
                task.task_type,
                task.variant_id,
                task.inputs,
                task.outputs,
                task.dependent_event,
                task.trigger_event,
            )
            number = numbers.setdefault(key, len(first))
            if number == len(first):
                first.append(task_id)
            of_task.append(number)
        count = Counter(of_task)
        return [Group(i, *key, first[i], count[i]) for key, i in numbers.items()], of_task

    def members(self, group: Group) -> list[int]:
        """List the ids of a group's tasks."""
        return self._members[group.number]

    @cached_property
    def _members(self) -> dict[int, list[int]]:
        members: dict[int, list[int]] = {}
        for task_id, number in enumerate(self.group_of):
            members.setdefault(number, []).append(task_id)
        return members

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

    def names(self, group: Group) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give the names of the tensors in a group's input and output slots."""
        tensors = self._facts.graph.tensors
        return (
            tuple(tensors[number].base_ptr for number in group.inputs),
            tuple(tensors[number].base_ptr for number in group.outputs),
        )

    def operator_of(self, group: Group) -> tuple[object, ...]:
        """Name the operator a group is part of: type, variant and the tensors in its slots."""
        return (group.task_type, group.variant, *self.names(group))

    def work_of(self, group: Group) -> tuple[tuple[object, ...] | None, tuple[int, ...]]:
        """Give (what the group's body reads, what it writes).

        What it reads is the kernel, the references and, for the first task, the metadata
        fields that the body names; None where no dispatch branch says what that is.
        """
        branch = self.branch(group.task_type, group.variant)
        reads: list[object] = [group.task_type, group.variant]
        writes: list[int] = []
        for is_input, operands in ((True, group.inputs), (False, group.outputs)):
            for index, tensor in enumerate(operands):
                _, slot_reads, slot_writes = self.use(group, is_input, index)
                if slot_reads:
                    reads.append((is_input, index, tensor))
                if slot_writes:
                    writes.append(tensor)
        if branch is None:
            return None, tuple(writes)
        return (*reads, *self.metadata_of(group.first, branch)), tuple(writes)

    def metadata_in(self, group: Group, branch: Branch) -> list[tuple[int, ...]]:
        """Give the metadata values that a body reads, for every task of a group."""
        return [self.metadata_of(task, branch) for task in self.members(group)]

    def metadata_of(self, task: int, branch: Branch) -> tuple[int, ...]:
        """Give the values of those metadata fields of a task that a body reads."""
        values = self._facts.graph.tasks[task].metadata
        return tuple(
            value
            for field, value in zip(METADATA_FIELDS, values, strict=True)
            if field in branch.metadata
        )

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


def tasks_in(groups: Iterable[Group]) -> int:
    """Count the tasks of some groups."""
    return sum(group.count for group in groups)


def types_of(groups: list[Group]) -> tuple[int, ...]:
    """List the type codes of some groups, sorted."""
    return tuple(sorted({group.task_type for group in groups}))
