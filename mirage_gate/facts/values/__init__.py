"""Which write each read sees, and which reads each write serves: values, as a compiler has them.

Reaching definitions over the cells (:mod:`mirage_gate.facts.regions`) of every tensor, in the
order that the events prove. An operator's write to a tensor is a *value*; it lives in its cells
until another operator writes them, and what reads a cell meanwhile sees it. A buffer that every
layer uses again holds many values, one after the other.

The operators are taken in a topological order of the events that they wait for. Where every
conflict of a tensor is ordered any such order gives the same answer; where one is not, the
cells of the conflict are in :meth:`Values.unordered`, and nothing may be claimed about them.
That is asked for only where there is something to claim, which in a correct graph is nowhere.

What is not exact is never claimed either:

- a write whose rows are picked at run time, or that lands on other ranks, may leave some of
  what was there: the value under it is *unsure*;
- a task type that is not known may read and write all that it carries;
- a tensor with tiles of unknown size is one cell, and all of its values are unsure;
- what lives at the end of an iteration is seen by the reads of the next that nothing of their
  own iteration precedes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import BUFFERS, SENTINEL
from mirage_gate.facts.values.living import Living

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values.caches import Lost
    from mirage_gate.facts.wiring import Access

Place = tuple[bool, int]
"""A slot: whether it is an input, and its index."""


class Value(msgspec.Struct, eq=False):
    """What one operator leaves in one tensor, through one of its slots.

    ``cells`` are those it writes; ``read`` those that somebody reads or may read before they
    are overwritten, in this iteration or the next; ``unsure`` those of which that is not
    known. ``left`` are the cells that live to the end of the iteration. ``exact`` says that
    the operator surely writes every cell. ``overwritten`` are the operators that write over
    it, each with the cells that it takes.
    """

    tensor: str
    operator: Operator
    place: Place
    exact: bool
    cells: int = 0
    read: int = 0
    unsure: int = 0
    left: int = 0
    overwritten: list[tuple[Operator, int]] = msgspec.field(default_factory=list)


class Use(msgspec.Struct, eq=False):
    """What one slot of an operator reads of one tensor.

    ``seen`` are the values it sees, in the order in which they were written, each with the
    cells. ``before`` are the cells that nothing wrote earlier in the iteration: what the host
    filled, or what the iteration before left. ``exact`` says that the operator surely reads
    every cell.
    """

    tensor: str
    operator: Operator
    place: Place
    exact: bool
    cells: int = 0
    before: int = 0
    seen: list[tuple[Value, int]] = msgspec.field(default_factory=list)


class TensorValues(msgspec.Struct, eq=False):
    """The values and uses of one tensor, in order.

    ``opaque``: its tiles could not be compared, and it counts as one cell. ``murky`` are the
    cells that a task of an unknown type carries, which may do anything with them.
    """

    values: list[Value]
    uses: list[Use]
    opaque: bool = False
    murky: int = 0


class _Step(msgspec.Struct, eq=False):
    """What one operator does to a tensor, all at once or as far as it waits for one event."""

    operator: Operator
    at: tuple[int, int]
    last: int
    reads: dict[Place, tuple[int, bool]]
    writes: dict[Place, tuple[int, bool]]


class Values:
    """The values of every tensor of a rank, each tensor worked out when it is asked for."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._known: dict[str, TensorValues] = {}
        self._unordered: dict[str, int] = {}
        self._used: dict[str, dict[tuple[int, Place], list[Use]]] = {}

    @cached_property
    def tensors(self) -> dict[str, TensorValues]:
        """Every tensor that tasks carry, in order of first reference; the sentinel aside."""
        return {name: self.of(name) for name in self._facts.wiring.accesses if name != SENTINEL}

    def of(self, name: str) -> TensorValues:
        """Give the values of one tensor."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._new(name)
        return known

    @cached_property
    def uses(self) -> dict[int, dict[Place, list[Use]]]:
        """What each operator reads, by its number and slot."""
        found: dict[int, dict[Place, list[Use]]] = {}
        for tensor in self.tensors.values():
            for use in tensor.uses:
                slots = found.setdefault(use.operator.number, {})
                slots.setdefault(use.place, []).append(use)
        return found

    def uses_in(self, operator: Operator, place: Place) -> list[Use]:
        """What one slot of an operator reads: no tensor is worked out that it does not carry."""
        return [
            use
            for name in operator.slots.get(place, ())
            if name.name != SENTINEL
            for use in self._uses_of(name.name).get((operator.number, place), ())
        ]

    def _uses_of(self, name: str) -> dict[tuple[int, Place], list[Use]]:
        """The uses of one tensor, by operator and slot."""
        found = self._used.get(name)
        if found is None:
            found = self._used[name] = {}
            for use in self.of(name).uses:
                found.setdefault((use.operator.number, use.place), []).append(use)
        return found

    @cached_property
    def written(self) -> dict[int, list[Value]]:
        """The values of each operator, by its number, in the order of its slots."""
        found: dict[int, list[Value]] = {}
        for tensor in self.tensors.values():
            for value in tensor.values:
                found.setdefault(value.operator.number, []).append(value)
        for values in found.values():
            values.sort(key=lambda value: (not value.place[0], value.place[1]))
        return found

    @cached_property
    def lost_rows(self) -> list[Lost]:
        """The caches whose rows one operator writes, and another writes over."""
        from mirage_gate.facts.values.caches import lost_rows

        return list(lost_rows(self._facts))

    @cached_property
    def lost_caches(self) -> frozenset[str]:
        """The names of those caches."""
        return frozenset([lost.value.tensor for lost in self.lost_rows])

    def unordered(self, name: str) -> int:
        """Give the cells of a tensor where some conflict is not ordered: nothing holds there."""
        known = self._unordered.get(name)
        if known is None:
            order = self._facts.order.of(name)
            known = -1 if order.more or not self._complete(name) else 0
            for race in order.races:
                one, other = race.earlier, race.later
                known |= race.cells | one.writes & (other.reads | other.writes)
                known |= one.reads & other.writes
            self._unordered[name] = known
        return known

    def unread(self, value: Value) -> int:
        """Give the cells of a value that surely nobody reads, in any iteration."""
        cells = value.cells & ~value.read & ~value.unsure if value.exact else 0
        return cells & ~self.unordered(value.tensor) if cells else 0

    def _complete(self, name: str) -> bool:
        """Whether every task that carries the tensor has a place in the order of events."""
        events, at = self._facts.events, self._waits
        return all(
            at[access.group.number] >= 0 and events.fires[access.group.number] >= -1
            for access in self._facts.wiring.of(name)
            if events.weight[access.group.number]
        )

    @cached_property
    def _waits(self) -> list[int]:
        """The place in the order of events of what each group waits for; -1 for none."""
        events = self._facts.events
        index = events.index
        return [index[event] if event >= 0 else -1 for event in events.waits]

    # -- one tensor --------------------------------------------------------------------------

    def _new(self, name: str) -> TensorValues:
        facts = self._facts
        accesses = facts.wiring.of(name)
        regions = facts.regions.of(name)
        tensors = facts.graph.tensors
        references = {access.tensor for access in accesses}
        masks = {number: regions.mask(number) for number in references}
        opaque = bool(regions.undecided) or any(
            not mask and 0 not in tensors[number].dims for number, mask in masks.items()
        )
        if opaque:
            masks = {number: int(0 not in tensors[number].dims) for number in references}
        elif any(access.writes and access.slot.remote for access in accesses):
            # The other ranks fill this rank's part, wherever its own tiles lie.
            everything = regions.whole
            for access in accesses:
                if access.writes and access.slot.remote:
                    masks[access.tensor] |= everything
        found = TensorValues([], [], opaque)
        steps = self._steps(accesses, masks, found)
        _sweep(name, steps, found)
        declaration = facts.declared.get(name)
        if opaque or declaration is None or declaration.kind not in BUFFERS:
            for value in found.values:
                value.unsure = value.cells  # the host may read it whenever it likes
        return found

    def _steps(
        self, accesses: Iterable[Access], masks: dict[int, int], found: TensorValues
    ) -> list[_Step]:
        """Gather what each operator does, in an order that the events prove."""
        facts = self._facts
        operators, of_group = facts.layers.operators, facts.layers.operator_numbers
        waits, weight, uses_of = self._waits, facts.events.weight, facts.wiring.uses_of
        steps: dict[int, _Step] = {}
        parts: dict[int, list[tuple[int, Access]]] = {}
        for access in accesses:
            group = access.group
            number = group.number
            mask = masks[access.tensor]
            if not mask or not weight[number]:
                continue
            known = uses_of(group).understood
            if not known:
                found.murky |= mask
            elif not (access.reads or access.writes):
                continue
            at, of = waits[number], of_group[number]
            step = steps.get(of)
            if step is None:
                step = steps[of] = _Step(operators[of], (at, group.first), at, {}, {})
                parts[of] = []
            elif at > step.last:
                step.last = at
            elif at < step.at[0]:
                step.at = (at, step.at[1])
            parts[of].append((at, access))
            _add(step, access, mask, known)
        whole = sorted(steps.values(), key=lambda step: step.at)
        if all(
            step.last == step.at[0] or (not (step.reads and step.writes)) for step in whole
        ) and all(a.last <= b.at[0] for a, b in pairwise(whole)):
            return whole
        split: dict[tuple[int, int], _Step] = {}
        for of, own in parts.items():
            for at, access in own:
                step = split.get((of, at))
                if step is None:
                    step = _Step(operators[of], (at, access.group.first), at, {}, {})
                    split[of, at] = step
                known = uses_of(access.group).understood
                _add(step, access, masks[access.tensor], known)
        return sorted(split.values(), key=lambda step: step.at)


def _add(step: _Step, access: Access, mask: int, known: bool) -> None:
    """Put one slot of a group into its operator's step."""
    place = (access.is_input, access.index)
    slot = access.slot
    exact = known and slot.exact
    # To add to what is there is to read it, and to leave a new value.
    if access.reads or not known or (access.writes and slot.accumulates):
        cells, all_exact = step.reads.get(place, (0, True))
        step.reads[place] = (cells | mask, all_exact and exact)
    if access.writes or not (known or access.reads or access.is_input):
        cells, all_exact = step.writes.get(place, (0, True))
        step.writes[place] = (cells | mask, all_exact and exact)


def _sweep(name: str, steps: Iterable[_Step], found: TensorValues) -> None:
    """Walk the steps: what each reads is what lives, and what it writes lives from then on."""
    steps = list(steps)
    cells_of = [
        cells for step in steps for cells, _ in (*step.reads.values(), *step.writes.values())
    ]
    living = Living(max((cells.bit_length() for cells in cells_of), default=0))
    covered = sure = exposed = 0
    values: dict[tuple[int, Place], Value] = {}
    uses: dict[tuple[int, Place], Use] = {}
    for step in steps:
        number = step.operator.number
        for place, (cells, exact) in step.reads.items():
            use = uses.get((number, place))
            if use is None:
                use = uses[number, place] = Use(name, step.operator, place, exact)
                found.uses.append(use)
            use.exact = use.exact and exact
            use.cells |= cells
            if cells & covered:
                for _, value, lives in living.meeting(cells):
                    both = lives & cells
                    value.read |= both
                    _see(use, value, both)
            use.before |= cells & ~covered
            exposed |= cells & ~sure
        if not step.writes:
            continue
        written = certain = 0
        for cells, exact in step.writes.values():
            written |= cells
            certain |= cells if exact else 0
        if written & covered:
            for key, value, lives in living.meeting(written):
                taken = lives & written
                value.unsure |= taken & ~certain  # rows that are picked may be others
                if value.operator is not step.operator:
                    value.overwritten.append((step.operator, taken))
                living.take(key, taken)
        covered |= written
        sure |= certain
        for place, (cells, exact) in step.writes.items():
            made = values.get((number, place))
            if made is None:
                made = values[number, place] = Value(name, step.operator, place, exact)
                found.values.append(made)
            made.exact = made.exact and exact
            made.cells |= cells
            if not exact:
                made.unsure |= cells
            living.add(made, cells)
    for value, lives in living:
        value.left |= lives
        value.read |= lives & exposed


def _see(use: Use, value: Value, cells: int) -> None:
    if use.seen and use.seen[-1][0] is value:
        use.seen[-1] = (value, use.seen[-1][1] | cells)
    else:
        use.seen.append((value, cells))
