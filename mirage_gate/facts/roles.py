"""What each slot of the layers' operators stands for, the same in every layer.

What a slot carries is said by its *role*, so that layers can be compared: a weight by its name
without the layer's number, a buffer by the operator that last wrote it, whatever the buffer is
called. What the operator right before a layer wrote is the layer's input, be it the embedding or
another kind of layer: so a first layer, or the first behind three dense ones, is like its
siblings. Steps to the side are passed over.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from mirage_gate.artifacts.cuda import SENTINEL

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Name, Operator

Kind = Literal[
    "weight", "nothing", "unread", "absent", "layer input", "activation", "unwritten", "output"
]


class Role(msgspec.Struct, frozen=True, gc=False):
    """What a slot carries.

    ``weight``: a tensor that the host fills, ``name`` its name without the layer's number.
    ``nothing``: None. ``unread``: a tensor that the dispatch body does not name. ``absent``:
    the task has no such slot. ``layer input``: what the operator right before the layer
    wrote. ``activation``: what another operator wrote, ``writer`` its type, ``name`` what
    tells it from others of its type, ``slot`` its output, ``back`` how many layers ago (-1:
    outside the layers). ``unwritten``: a buffer that nobody wrote before. ``output``: a
    buffer that the operator does not read.
    """

    kind: Kind
    name: str = ""
    writer: int = -1
    slot: int = -1
    back: int = 0


NOTHING = Role("nothing")
UNREAD = Role("unread")
ABSENT = Role("absent")
LAYER_INPUT = Role("layer input")
OUTPUT = Role("output")
LACKING = frozenset({NOTHING, UNREAD, ABSENT})

Content = frozenset[Role]


class Roles:
    """The roles in the input slots of a rank's operators."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def inputs(self) -> list[list[Content]]:
        """The roles in each input slot of each operator, by operator number."""
        facts = self._facts
        wiring = facts.wiring
        operators = facts.layers.operators
        writer_of: dict[Name, tuple[Operator, int]] = {}
        contents: list[list[Content]] = []
        for operator in operators:
            row: list[set[Role]] = []
            written: list[tuple[Name, int]] = []
            for (is_input, index), names in operator.slots.items():
                for name, group in names.items():
                    slot, reads, writes = wiring.use(group, is_input, index)
                    if writes:
                        written.append((name, -1 - index if is_input else index))
                    if not is_input:
                        continue
                    while len(row) <= index:
                        row.append(set())
                    if name.name == SENTINEL:
                        row[index].add(NOTHING)
                    elif not (reads or writes) and (slot.reads or slot.writes):
                        row[index].add(UNREAD)
                    elif name.loaded:
                        row[index].add(Role("weight", name.role))
                    elif reads:
                        row[index].add(self._activation(operator, name, writer_of))
                    else:
                        row[index].add(OUTPUT)
            for name, index in written:
                writer_of[name] = (operator, index)
            contents.append([frozenset(roles) for roles in row])
        return contents

    def _activation(
        self,
        reader: Operator,
        name: Name,
        writer_of: dict[Name, tuple[Operator, int]],
    ) -> Role:
        if name not in writer_of:
            return Role("unwritten", name.role)
        writer, slot = writer_of[name]
        home, place, before = reader.home, reader.place, writer.place
        if home is not None and self._entries[home] == writer.number:
            return LAYER_INPUT
        key = writer.weight or self._filled(writer)
        if place is None or before is None or reader.stack != writer.stack:
            back = 0 if place is before is None else -1
        else:
            back = place - before
        return Role("activation", key, writer.task_type, slot, back)

    @cached_property
    def _entries(self) -> dict[tuple[int, int], int]:
        """The operator right before each layer, whose result is the layer's input.

        A step to the side is none: an operator outside of the layers or of another model, or one
        more than the layer's siblings have, of which the layer's first operator reads nothing (an
        early exit, a copy for a draft model, a dump). -1 where nothing was written before.
        """
        aside = {
            operator.number
            for siblings in self._facts.stacks
            for gap in siblings.gaps
            for operator in gap.extra
        }
        operators = self._facts.layers.operators
        entries: dict[tuple[int, int], int] = {}
        for stack, layers in enumerate(self._facts.layers.by_stack):
            for layer, row in layers.items():
                read = self._touched(row[0])[0]
                entry = -1
                for number in range(row[0].number - 1, -1, -1):
                    operator = operators[number]
                    written = self._touched(operator)[1]
                    inside = operator.place is not None and operator.stack == stack
                    steps_aside = not inside or operator.number in aside
                    if written and (written & read or not steps_aside):
                        entry = number
                        break
                entries[stack, layer] = entry
        return entries

    def _touched(self, operator: Operator) -> tuple[set[Name], set[Name]]:
        """The names that an operator reads, and those that it writes."""
        read: set[Name] = set()
        written: set[Name] = set()
        for (is_input, index), names in operator.slots.items():
            for name, group in names.items():
                _, reads, writes = self._facts.wiring.use(group, is_input, index)
                if reads:
                    read.add(name)
                if writes:
                    written.add(name)
        return read, written

    @staticmethod
    def _filled(operator: Operator) -> str:
        return min((name.role for name in operator.names(is_input=False)), default="")
