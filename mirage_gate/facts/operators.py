"""Operators: what each call in the builder became, and the names in their slots.

The graph does not say which call a task came of. MPK lays the tasks of one call out side by
side, so an *operator* is a stretch of tasks of one type that fill the same tensors. It has a
place among the layers (:mod:`mirage_gate.facts.layers`) and siblings in them.

Two other ways to put tasks together are no operators, and are named otherwise: a *signature*
(:meth:`mirage_gate.facts.wiring.Wiring.signature_of`) is what tiles are compared by, wherever
the tasks stand; a *grid* (:attr:`mirage_gate.facts.order.Order.grid`) is who fills bytes
together, also where other tasks stand between.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import LOADED, SENTINEL
from mirage_gate.artifacts.names import layer_in, role_of, stack_in

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group


class Name(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A tensor's name, read once and the same object wherever it stands.

    ``role`` is the name without its layer, ``stack`` what stands before that, ``loaded`` says
    that the host fills the tensor, ``weight`` that it is loaded and no table for all layers: not
    critical.
    """

    name: str
    role: str
    stack: str
    layer: int | None
    loaded: bool
    weight: bool


class Operator(msgspec.Struct, eq=False, dict=True):
    """A stretch of groups, in task order. ``place`` is its layer, None outside the layers.

    ``stack`` is the number of the model that the layer is one of (:mod:`mirage_gate.facts.stacks`).
    ``slots`` gives for each (is input, index) the names that its tasks carry there, each
    with the first group that does.
    """

    number: int
    task_type: int
    groups: list[Group]
    slots: dict[tuple[bool, int], dict[Name, Group]]
    place: int | None = None
    stack: int = 0

    @property
    def home(self) -> tuple[int, int] | None:
        """Its stack and its layer there; None outside the layers."""
        return None if self.place is None else (self.stack, self.place)

    @property
    def first(self) -> int:
        """The lowest task id."""
        return self.groups[0].first

    @property
    def tasks(self) -> int:
        """How many tasks it has."""
        return sum(group.count for group in self.groups)

    def names(self, is_input: bool | None = None) -> Iterator[Name]:
        """Every name in its slots, those of one side if asked for."""
        for (side, _), names in self.slots.items():
            if is_input is None or side is is_input:
                yield from names

    @cached_property
    def weight(self) -> str:
        """The role of the first weight or cache it reads; empty if there is none."""
        for (is_input, _), names in self.slots.items():
            if is_input and (roles := [name.role for name in names if name.weight]):
                return min(roles)
        return ""


def operators_of(facts: RankFacts, names: list[Name]) -> Iterator[Operator]:
    """Give every operator, in task order; none has its place yet.

    ``names`` are those that :func:`names_in` read.
    """
    current: Operator | None = None
    filled: tuple[Name, ...] = ()
    seen: set[tuple[tuple[Name, ...], tuple[Name, ...]]] = set()
    number = 0
    for group in facts.wiring.groups:
        inputs = tuple([names[tensor] for tensor in group.inputs])
        outputs = tuple([names[tensor] for tensor in group.outputs])
        if current is None or group.task_type != current.task_type or filled != (outputs or inputs):
            if current is not None:
                yield current
            current = Operator(number, group.task_type, [], {})
            number += 1
            filled = outputs or inputs
            seen = set()
        current.groups.append(group)
        if (inputs, outputs) in seen:
            continue
        seen.add((inputs, outputs))
        for is_input, side in ((True, inputs), (False, outputs)):
            for index, name in enumerate(side):
                current.slots.setdefault((is_input, index), {}).setdefault(name, group)
    if current is not None:
        yield current


def names_in(facts: RankFacts) -> list[Name]:
    """Read the name of each reference in ``Graph.tensors``."""
    known: dict[str, Name] = {}
    names = []
    tables = _tables(facts)
    for tensor in facts.graph.tensors:
        name = known.get(tensor.base_ptr)
        if name is None:
            name = known[tensor.base_ptr] = _read(facts, tensor.base_ptr, tables)
        names.append(name)
    return names


def _read(facts: RankFacts, name: str, tables: frozenset[str]) -> Name:
    declaration = facts.declared.get(name)
    loaded = declaration is not None and declaration.kind in LOADED and name != SENTINEL
    layer = layer_in(name)
    weight = loaded and (layer is not None or name not in tables)
    stack = "" if layer is None else stack_in(name)
    return Name(name, role_of(name), stack, layer, loaded, weight)


def _tables(facts: RankFacts) -> frozenset[str]:
    """The tables for all layers: critical tensors of no layer, not carried in one place only."""
    carried: dict[str, list[int]] = {
        name: []
        for name, declaration in facts.declared.items()
        if layer_in(name) is None and facts.is_critical(declaration)
    }
    names = {
        number: tensor.base_ptr
        for number, tensor in enumerate(facts.graph.tensors)
        if tensor.base_ptr in carried
    }
    references = names.keys()
    for group in facts.wiring.groups if names else ():
        operands = group.inputs + group.outputs
        if not references.isdisjoint(operands):
            for name in {names[number] for number in operands if number in names}:
                carried[name].append(group.number)
    return frozenset(
        name
        for name, groups in carried.items()
        if not groups or groups[-1] - groups[0] >= len(groups)
    )
