"""Who references which tensor, how, and whether the reference is real.

Tasks are looked at by group: those of one type and variant, with the same operands and
events, are one entry with a count. Everything later works on groups.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import METADATA_FIELDS
from mirage_gate.facts.regions import steps
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
    ignores the slot. A tile without any element is ``empty``: nothing is read or written there.
    """

    group: Group
    is_input: bool
    index: int
    tensor: int
    slot: Slot
    reads: bool
    writes: bool
    empty: bool = False

    @property
    def ignored(self) -> bool:
        """Whether the type uses the slot, and this variant's body does not."""
        used = self.slot.reads or self.slot.writes
        return used and not (self.reads or self.writes or self.empty)

    @property
    def side(self) -> str:
        """The slot's list in the JSON: ``inputs`` or ``outputs``."""
        return "inputs" if self.is_input else "outputs"


class Uses(msgspec.Struct, frozen=True, eq=False):
    """What a kernel does with the operands of its tasks, inputs first.

    ``branch`` is the dispatch branch that runs it, if there is one. ``slots`` are (is an
    input, its index, what the type does with it, reads, writes), as in :class:`Access`;
    ``read`` and ``written`` are the places in it that are. ``metadata`` is what the branch
    reads of each of the graph's distinct metadata. ``understood``: what it does with them is
    known. A body that names no slot at all is written in a way that we do not read.
    """

    branch: Branch | None
    slots: tuple[tuple[bool, int, Slot, bool, bool], ...]
    read: tuple[int, ...]
    written: tuple[int, ...]
    metadata: list[tuple[int, ...]]
    understood: bool


class Wiring:
    """The groups of a rank, and every access, by tensor name."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._of_tensor: dict[tuple[str, bool], list[Group]] = {}
        self._metadata: dict[frozenset[str], list[tuple[int, ...]]] = {}

    @cached_property
    def groups(self) -> list[Group]:
        """Every group, in order of its first task."""
        graph = self._facts.graph
        count = Counter(graph.alike_of)
        same = self._same
        return [
            Group(
                number=number,
                task_type=alike.task_type,
                variant=alike.variant_id,
                inputs=tuple([same.get(n, n) for n in alike.inputs]) if same else alike.inputs,
                outputs=tuple([same.get(n, n) for n in alike.outputs]) if same else alike.outputs,
                dependent=alike.dependent_event,
                trigger=alike.trigger_event,
                first=alike.first,
                count=count[number],
            )
            for number, alike in enumerate(graph.alike)
        ]

    @cached_property
    def _same(self) -> dict[int, int]:
        """The references that differ from an earlier one only in strides that are never taken.

        Number to number. A dim of one element has a stride, and no address depends on it.
        """
        first: dict[object, int] = {}
        same: dict[int, int] = {}
        for number, tensor in enumerate(self._facts.graph.tensors):
            if 1 in tensor.dims and len(tensor.dims) == len(tensor.strides):
                key = (tensor.base_ptr, tensor.offset, tensor.data_type, tensor.dims, steps(tensor))
                earlier = first.setdefault(key, number)
                if earlier != number:
                    same[number] = earlier
        return same

    @cached_property
    def kernels(self) -> dict[tuple[int, int], list[Group]]:
        """The groups of each (type, variant)."""
        kernels: defaultdict[tuple[int, int], list[Group]] = defaultdict(list)
        for group in self.groups:
            kernels[group.task_type, group.variant].append(group)
        return dict(kernels)

    @property
    def group_of(self) -> array[int]:
        """The group's number of each task."""
        return self._facts.graph.alike_of

    def members(self, group: Group) -> list[int]:
        """List the ids of a group's tasks."""
        return self._members[group.number]

    @cached_property
    def _members(self) -> list[list[int]]:
        members: list[list[int]] = [[] for _ in self.groups]
        for task_id, number in enumerate(self.group_of):
            members[number].append(task_id)
        return members

    def branch(self, task_type: int, variant: int) -> Branch | None:
        """Give the dispatch branch that runs (type, variant), if the ``.cu`` has one."""
        name = self._facts.task_type(task_type).name
        return self._facts.cuda.dispatch.get((name, variant))

    def use(self, group: Group, is_input: bool, index: int) -> tuple[Slot, bool, bool]:
        """Give (slot, reads, writes) of one slot of a group."""
        place = index if is_input else len(group.inputs) + index
        _, _, slot, reads, writes = self.uses_of(group).slots[place]
        return slot, reads, writes

    def access(self, group: Group, place: int) -> Access:
        """Give one slot of a group by its place among all of them, inputs first."""
        is_input, index, slot, reads, writes = self.uses_of(group).slots[place]
        tensor = (group.inputs + group.outputs)[place]
        empty = tensor in self._empty
        return Access(group, is_input, index, tensor, slot, reads, writes, empty)

    def uses_of(self, group: Group) -> Uses:
        """Give what the kernel of a group does with its operands."""
        return self._uses[group.number]

    @cached_property
    def _uses(self) -> list[Uses]:
        known: dict[object, Uses] = {}
        every: list[Uses] = []
        for group in self.groups:
            kernel = (group.task_type, group.variant, len(group.inputs), len(group.outputs))
            empty = self._empty_places(group) if self._empty else frozenset[int]()
            key = (kernel, empty) if empty else kernel
            uses = known.get(key)
            if uses is None:
                uses = known[key] = self._new_uses(*kernel, empty)
            every.append(uses)
        return every

    @cached_property
    def _empty(self) -> frozenset[int]:
        """The references to tiles without any element."""
        tensors = self._facts.graph.tensors
        return frozenset(number for number, tensor in enumerate(tensors) if 0 in tensor.dims)

    def _empty_places(self, group: Group) -> frozenset[int]:
        operands = enumerate(group.inputs + group.outputs)
        return frozenset(place for place, tensor in operands if tensor in self._empty)

    def _new_uses(
        self, task_type: int, variant: int, inputs: int, outputs: int, empty: frozenset[int]
    ) -> Uses:
        kind = self._facts.task_type(task_type)
        branch = self.branch(task_type, variant)
        slots = []
        for index in range(inputs):
            slot = kind.input(index)
            named = index not in empty and (branch is None or branch.names_input(index))
            slots.append((True, index, slot, slot.reads and named, slot.writes and named))
        for index in range(outputs):
            slot = kind.output(index)
            named = inputs + index not in empty
            named = named and (branch is None or branch.names_output(index))
            slots.append((False, index, slot, slot.reads and named, slot.writes and named))
        read = tuple(i for i, (*_, reads, _) in enumerate(slots) if reads)
        written = tuple(i for i, (*_, writes) in enumerate(slots) if writes)
        return Uses(
            branch=branch,
            slots=tuple(slots),
            read=read,
            written=written,
            metadata=self._metadata_read_by(branch) if branch else [],
            understood=kind.known and bool(branch is None or read or written),
        )

    @cached_property
    def accesses(self) -> dict[str, list[Access]]:
        """Every reference to each tensor name, in task order of the groups."""
        accesses: defaultdict[str, list[Access]] = defaultdict(list)
        names, empty = self._names, self._empty
        for group, uses in zip(self.groups, self._uses, strict=True):
            operands = group.inputs + group.outputs
            for (is_input, index, slot, reads, writes), tensor in zip(
                uses.slots, operands, strict=True
            ):
                access = Access(
                    group, is_input, index, tensor, slot, reads, writes, tensor in empty
                )
                accesses[names[tensor]].append(access)
        return dict(accesses)

    @cached_property
    def carried(self) -> frozenset[str]:
        """The names of the tensors that tasks carry."""
        return frozenset(self._names)

    def of(self, name: str) -> list[Access]:
        """Every reference to one tensor; none is an empty list."""
        return self.accesses.get(name, [])

    @cached_property
    def _names(self) -> list[str]:
        return [tensor.base_ptr for tensor in self._facts.graph.tensors]

    def real(self, name: str) -> list[Access]:
        """Every reference to one tensor whose slot is really read or written."""
        return self._real.get(name, [])

    @cached_property
    def _real(self) -> dict[str, list[Access]]:
        return {
            name: [access for access in accesses if access.reads or access.writes]
            for name, accesses in self.accesses.items()
        }

    def names(self, group: Group) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give the names of the tensors in a group's input and output slots."""
        names = self._names
        return tuple([names[n] for n in group.inputs]), tuple([names[n] for n in group.outputs])

    def signature_of(self, group: Group) -> int:
        """Give the number of a group's signature: its type, variant, and tensors by slot.

        Groups of one signature do one thing to tiles of the same tensors, wherever they stand:
        their tiles can be held side by side. An operator (:mod:`mirage_gate.facts.operators`)
        stands in one place, and its groups may differ in what they read.
        """
        return self._signatures[group.number]

    @cached_property
    def _signatures(self) -> list[int]:
        names: dict[str, int] = {}
        numbers = [names.setdefault(name, len(names)) for name in self._names]
        known: dict[object, int] = {}
        signatures = []
        for group in self.groups:
            operands = tuple([numbers[n] for n in group.inputs + group.outputs])
            key = (group.task_type, group.variant, len(group.inputs), operands)
            signatures.append(known.setdefault(key, len(known)))
        return signatures

    def work_of(self, group: Group) -> tuple[tuple[object, ...] | None, tuple[int, ...]]:
        """Give (what the group's body reads, what it writes).

        What it reads is the kernel, the references and, for the first task, the metadata
        fields that the body names; None where no dispatch branch says what that is.
        """
        return self._work[group.number]

    @cached_property
    def _work(self) -> list[tuple[tuple[object, ...] | None, tuple[int, ...]]]:
        found: list[tuple[tuple[object, ...] | None, tuple[int, ...]]] = []
        metadata_of = self._facts.graph.metadata_of
        for group, uses in zip(self.groups, self._uses, strict=True):
            operands = group.inputs + group.outputs
            writes = tuple([operands[place] for place in uses.written])
            if uses.branch is None:
                found.append((None, writes))
                continue
            reads = [operands[place] for place in uses.read]
            metadata = uses.metadata[metadata_of[group.first]]
            kernel = (group.variant, len(group.inputs))
            found.append(((group.task_type, kernel, *reads, *metadata), writes))
        return found

    def metadata_in(self, group: Group, branch: Branch) -> list[tuple[int, ...]]:
        """Give the metadata values that a body reads, for every task of a group."""
        read, of_task = self._metadata_read_by(branch), self._facts.graph.metadata_of
        return [read[of_task[task]] for task in self.members(group)]

    def metadata_of(self, task: int, branch: Branch) -> tuple[int, ...]:
        """Give the values of those metadata fields of a task that a body reads."""
        return self._metadata_read_by(branch)[self._facts.graph.metadata_of[task]]

    def _metadata_read_by(self, branch: Branch) -> list[tuple[int, ...]]:
        """Give what a body reads of each of the graph's distinct metadata."""
        read = self._metadata.get(branch.metadata)
        if read is None:
            places = [i for i, field in enumerate(METADATA_FIELDS) if field in branch.metadata]
            read = [
                tuple([values[place] for place in places]) for values in self._facts.graph.metadata
            ]
            self._metadata[branch.metadata] = read
        return read

    def input_refs(self, name: str) -> int:
        """Count the entries of tasks' ``inputs`` that carry the tensor."""
        return sum(a.group.count for a in self.of(name) if a.is_input)

    def output_refs(self, name: str) -> int:
        """Count the entries of tasks' ``outputs`` that carry the tensor."""
        return sum(a.group.count for a in self.of(name) if not a.is_input)

    def consumers(self, name: str) -> list[Group]:
        """List the groups that really read the tensor, each once."""
        groups = self._of_tensor.get((name, True))
        if groups is None:
            groups = _unique([access.group for access in self.of(name) if access.reads])
            self._of_tensor[name, True] = groups
        return groups

    def producers(self, name: str) -> list[Group]:
        """List the groups that really write the tensor, each once."""
        groups = self._of_tensor.get((name, False))
        if groups is None:
            groups = _unique([access.group for access in self.of(name) if access.writes])
            self._of_tensor[name, False] = groups
        return groups


def _unique(groups: Iterable[Group]) -> list[Group]:
    return list({group.number: group for group in groups}.values())


def tasks_in(groups: Iterable[Group]) -> int:
    """Count the tasks of some groups."""
    return sum(group.count for group in groups)


def types_of(groups: list[Group]) -> tuple[int, ...]:
    """List the type codes of some groups, sorted."""
    return tuple(sorted({group.task_type for group in groups}))
