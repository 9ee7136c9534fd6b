"""Which accesses to the same bytes no event orders: exact, for graphs of any size.

Tasks conflict where they touch a common byte and one of them writes it. A conflict is
harmless if one task happens before the other (:mod:`mirage_gate.facts.events`). Tasks of one
operator that wait for one event and trigger one event are a *wave*; a wave touches a set of
cells (:mod:`mirage_gate.facts.regions`), and one sweep over a tensor's waves, in topological
order of the events they wait for, finds whether all is ordered: each cell remembers the
last writes and the reads since, and whoever comes next must have their triggers among the
ancestors of the event that it waits for. What an ordered write covers can be forgotten,
since whatever is ordered after the write is ordered after that too. Nothing is sampled and
nothing cut off.

What does not conflict, although bytes meet:

- a task with itself;
- two accumulating writes;
- tasks of one operator where a slot's rows are picked at run time, or where their bodies
  pick rows by task metadata that differs from task to task, or that write to other ranks;
- repeated work: tasks of one operator that are alike in everything they read, and do not
  read what they write. They write the same values; a reader needs one of them before it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.facts.events import INVALID
from mirage_gate.facts.order.following import Following
from mirage_gate.facts.order.races import (
    CLEAN,
    MOST_RACES,
    EarlyRead,
    Judge,
    Race,
    TensorOrder,
)
from mirage_gate.facts.order.waves import Part, TensorWaves, Wave

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

__all__ = ["MOST_RACES", "EarlyRead", "Order", "Part", "Race", "TensorOrder", "Wave"]


class Order:
    """The order of every tensor's accesses."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._known: dict[str, TensorOrder] = {}

    @cached_property
    def tensors(self) -> dict[str, TensorOrder]:
        """Every tensor that has something wrong, in order of first reference."""
        found: dict[str, TensorOrder] = {}
        for name in self._facts.wiring.accesses:
            order = self.of(name)
            if order is not CLEAN:
                found[name] = order
        return found

    @cached_property
    def following(self) -> Following:
        """Which of it is one finding, and what follows from what."""
        return Following(self._facts)

    def of(self, name: str) -> TensorOrder:
        """Judge the accesses of one tensor."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._judge(name)
        return known

    def _judge(self, name: str) -> TensorOrder:
        short = self._facts.shortened
        if short is not None and short.facts.order.of(short.like(name)) is CLEAN:
            return CLEAN  # what the same layers do to the same tiles, in the same order
        accesses = self._facts.wiring.of(name)
        if name == SENTINEL or not any(access.writes for access in accesses):
            return CLEAN
        return Judge(TensorWaves(self._facts, name, accesses, self._places)).judge()

    @cached_property
    def _places(self) -> list[tuple[int, int, int] | None]:
        """The grid of each group, and the places of the events that it is between.

        None for a group that never runs, or triggers what is not there.
        """
        events = self._facts.events
        places: list[tuple[int, int, int] | None] = []
        for number, (waits, fires) in enumerate(zip(events.waits, events.fires, strict=True)):
            before = events.index[waits] if waits >= 0 else -1
            after = events.index[fires] if fires >= 0 else events.count
            if before < 0 or fires == INVALID or not events.weight[number]:
                places.append(None)
            else:
                # What triggers an event that never fires is before nothing.
                after = events.count if after < 0 else after
                places.append((self.grid[number], before, after))
        return places

    @cached_property
    def grid(self) -> list[int]:
        """The grid of each group, by number: who fills bytes together.

        Groups of one type and variant that write the same tensors and stand side by side, or
        wait for the same event: the blocks of one grid, were the kernel launched alone. That
        is no operator (:mod:`mirage_gate.facts.operators`), which ends where another task
        stands between, and does not where the variant changes.
        """
        facts = self._facts
        names = [tensor.base_ptr for tensor in facts.graph.tensors]
        written: dict[tuple[int, int, int, int], list[tuple[bool, int]]] = {}
        operators: list[int] = []
        known: dict[tuple[object, ...], int] = {}
        last_key: tuple[object, ...] = ()
        count = 0
        for group in facts.wiring.groups:
            shape = (group.task_type, group.variant, len(group.inputs), len(group.outputs))
            slots = written.get(shape)
            if slots is None:
                slots = written[shape] = [
                    (is_input, index)
                    for is_input, operands in ((True, group.inputs), (False, group.outputs))
                    for index in range(len(operands))
                    if facts.wiring.use(group, is_input, index)[2]
                ]
            targets = tuple(
                names[(group.inputs if is_input else group.outputs)[index]]
                for is_input, index in slots
            )
            key = (group.task_type, group.variant, targets)
            under = (key, group.dependent)
            if key == last_key:
                operator = operators[-1]
            elif under in known:
                operator = known[under]
            else:
                operator = count
                count += 1
            known[under] = operator
            last_key = key
            operators.append(operator)
        return operators
