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

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import BUFFERS, LOADED, SENTINEL
from mirage_gate.artifacts.graph import METADATA_FIELDS
from mirage_gate.facts.events import INVALID

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.regions import TensorRegions
    from mirage_gate.facts.wiring import Access, Group

MOST_RACES = 2000
"""Pairs of waves that are listed of one tensor; more than that only add to the count."""

Excuse = frozenset[object]
"""What an access is excused by. Two accesses that share an excuse do not conflict."""

_DIRECTIONS = ((True, True), (True, False), (False, True))
_NONE: Excuse = frozenset()
_ACCUMULATES = "accumulates"


_State = dict[tuple[bool, bool, Excuse, "Excuse | None"], int]
"""What whoever touches an atom next must come after.

(is a write, rows picked at run time, excuse, covered by) to the places of the events
triggered. What an excused write covers is still to be compared with those that share the
excuse, since they are not compared with the write.
"""


class Part(msgspec.Struct, frozen=True, eq=False):
    """What one group does to one tensor: its accesses, and the cells that it reads and writes."""

    group: Group
    accesses: tuple[Access, ...]
    reads: int
    writes: int


class Wave(msgspec.Struct, eq=False):
    """Tasks of one operator that wait for one event and trigger one event.

    ``waits`` and ``fires`` are places in the topological order. ``indexed`` says that a slot
    picks its rows at run time, so that the cells are only those that may be touched. A wave
    that repeats one task has ``repeats`` set.
    """

    operator: int
    waits: int
    fires: int
    indexed: bool
    parts: list[Part]
    reads: int = 0
    writes: int = 0
    read_excuse: Excuse = _NONE
    write_excuse: Excuse = _NONE
    repeats: bool = False

    @property
    def first(self) -> Group:
        return self.parts[0].group


class Race(msgspec.Struct, frozen=True):
    """Two waves that touch the same cells with no order between them.

    ``earlier`` comes first in the order in which the builder laid its tasks out.
    ``earlier_writes`` and ``later_writes`` say what each does; one of them is True.
    ``certain`` is False where a slot picks its rows at run time, so that the bytes may not
    meet, and the reader may have its rows of somebody else. ``unprovided``: the earlier one
    reads, and no writer of those bytes is before it.
    """

    tensor: str
    earlier: Wave
    later: Wave
    earlier_writes: bool
    later_writes: bool
    cells: int
    certain: bool
    unprovided: bool = False


class EarlyRead(msgspec.Struct, frozen=True):
    """A read of bytes that are written later in the iteration only."""

    tensor: str
    reader: Wave
    writer: Wave
    cells: int


class TensorOrder(msgspec.Struct, frozen=True):
    """What is wrong with the order of one tensor's accesses. ``more`` races were not listed."""

    races: tuple[Race, ...] = ()
    more: int = 0
    early: tuple[EarlyRead, ...] = ()


_CLEAN = TensorOrder()


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
            if order is not _CLEAN:
                found[name] = order
        return found

    def of(self, name: str) -> TensorOrder:
        """Judge the accesses of one tensor."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._judge(name)
        return known

    def _judge(self, name: str) -> TensorOrder:
        accesses = self._facts.wiring.of(name)
        if name == SENTINEL or not any(access.writes for access in accesses):
            return _CLEAN
        return _Tensor(self._facts, name, accesses, self._places).judge()

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


class _Tensor:
    """The accesses of one tensor, as waves."""

    def __init__(
        self,
        facts: RankFacts,
        name: str,
        accesses: Sequence[Access],
        places: list[tuple[int, int, int] | None],
    ) -> None:
        self.facts = facts
        self.name = name
        self.regions: TensorRegions = facts.regions.of(name)
        self._places = places
        self.incomplete = False
        self._provisions: dict[tuple[int, int], bool] = {}
        self._masks = {access.tensor: self.regions.mask(access.tensor) for access in accesses}
        beyond = max(mask.bit_length() for mask in self._masks.values())
        for reference, mask in self._masks.items():
            if not mask and 0 not in facts.graph.tensors[reference].dims:
                # Bytes that are unknown are known to be the same in the same reference.
                self._masks[reference] = 1 << beyond
                beyond += 1
        self.waves = self._waves(accesses)

    def _waves(self, accesses: Sequence[Access]) -> list[Wave]:
        """Gather the groups that touch the tensor into waves, sorted by the event they wait for."""
        waves: dict[tuple[int, int, int, bool], Wave] = {}
        for group, own in _by_group(accesses):
            places = self._places[group.number]
            if places is None:
                self.incomplete = True  # MG402 and MG405 say why
                continue
            reads = writes = 0
            indexed = False
            for access in own:
                cells, slot = self._masks[access.tensor], access.slot
                if access.reads and not slot.accumulates:
                    reads |= cells  # to add is to read, but not what another adds
                if access.writes:
                    writes |= cells
                indexed |= slot.indexed
            key = (*places, indexed)
            wave = waves.get(key)
            if wave is None:
                wave = waves[key] = Wave(*key, parts=[])
            wave.parts.append(Part(group, own, reads, writes))
            wave.reads |= reads
            wave.writes |= writes
        by_operator: dict[int, list[Wave]] = {}
        for wave in waves.values():
            by_operator.setdefault(wave.operator, []).append(wave)
        found = [wave for own in by_operator.values() for wave in self._excused(own)]
        found.sort(key=lambda wave: (wave.waits, wave.first.first))
        return found

    # -- within one operator -----------------------------------------------------------------

    def _excused(self, waves: list[Wave]) -> list[Wave]:
        """Work out which conflicts among one operator's own tasks are none."""
        if not any(wave.writes for wave in waves):
            return waves
        operator = waves[0].operator
        parts = [part for wave in waves for part in wave.parts]
        writers = [access for part in parts for access in part.accesses if access.writes]
        adding = all(access.slot.accumulates for access in writers)
        if adding:
            for wave in waves:
                wave.write_excuse |= {_ACCUMULATES}
        remote = all(access.slot.remote for access in writers)
        if remote or any(wave.indexed for wave in waves):
            _excuse(waves, operator)
            return waves
        if adding or not self._own_conflict(parts)[0] or self._tiles_meet(parts):
            return waves  # nothing more to excuse, or tiles that differ and overlap
        repeats = self._repeated(waves, parts)
        if repeats is None:
            return waves
        if not repeats:
            _excuse(waves, operator)
            return waves
        split = []
        for wave in waves:
            tiles: dict[tuple[int, ...], list[Part]] = {}
            for part in wave.parts:
                tiles.setdefault(_references(part), []).append(part)
            for tile, own in tiles.items():
                excuse: Excuse = frozenset({("repeats", operator, tile, wave.waits)})
                split.append(
                    Wave(
                        operator,
                        wave.waits,
                        wave.fires,
                        wave.indexed,
                        own,
                        own[0].reads,
                        own[0].writes,
                        wave.read_excuse,
                        wave.write_excuse | excuse,
                        repeats=True,
                    )
                )
        return split

    def _own_conflict(self, parts: Sequence[Part], adding: bool = False) -> tuple[int, bool]:
        """Give the cells where some two tasks conflict, and whether both write there.

        ``adding``: they all add into what they write, so that only a read can be a conflict.
        """
        written = repeatedly = 0
        for part in parts:
            repeatedly |= part.writes & written
            if self.facts.events.weight[part.group.number] > 1:
                repeatedly |= part.writes
            written |= part.writes
        if repeatedly and not adding:
            return repeatedly, True
        read = 0
        for part in parts:
            read |= part.reads & (repeatedly | written & ~part.writes)
        return read, False

    def _tiles_meet(self, parts: Iterable[Part]) -> bool:
        """Whether tasks that write different tiles meet."""
        written: dict[tuple[int, ...], int] = {}
        union = 0
        for part in parts:
            tile = _references(part)
            if tile not in written:
                if part.writes & union:
                    return True
                written[tile] = part.writes
                union |= part.writes
        return any(part.reads & union & ~part.writes for part in parts)

    def _repeated(self, waves: list[Wave], parts: list[Part]) -> bool | None:
        """Tasks write the very same tile: say how that can be right.

        False: their bodies pick rows by metadata (and where that is equal, repeat one
        another's work). True: they repeat one another's work. None: neither.
        """
        group = parts[0].group
        branch = self.facts.wiring.branch(group.task_type, group.variant)
        if self._told_apart(parts, branch):
            return False
        for part in parts:
            if part.reads & part.writes:
                return None
        # Alike in everything: for each tile written, one set of operands and one event waited for.
        operands: dict[tuple[int, ...], tuple[object, ...]] = {}
        for wave in waves:
            for part in wave.parts:
                own = (part.group.inputs, part.group.outputs, wave.waits)
                if operands.setdefault(_references(part), own) != own:
                    return None
        return branch is None or branch.metadata.isdisjoint(METADATA_FIELDS)

    def _told_apart(self, parts: list[Part], branch: Branch | None) -> bool:
        """Whether tasks that write the same tile differ in the metadata that their body reads."""
        wiring, weight = self.facts.wiring, self.facts.events.weight
        for own in _by_tile(parts).values():
            if sum(weight[part.group.number] for part in own) < 2:
                continue
            if branch is None:
                return False
            values = [value for part in own for value in wiring.metadata_in(part.group, branch)]
            if len(set(values)) < len(values):
                return False
        return True

    # -- the sweep ---------------------------------------------------------------------------

    def judge(self) -> TensorOrder:
        """Find every pair of waves that nothing orders, and reads that come before all writes."""
        if not self.waves:
            return _CLEAN
        races, more = self._races(self._sweep())
        racing = {id(wave) for race in races for wave in (race.earlier, race.later)}
        early = tuple(self._early(racing))
        if not races and not early:
            return _CLEAN
        return TensorOrder(tuple(races), more, early)

    def _atoms(self) -> dict[int, list[int]]:
        """Divide the cells into atoms, so that every wave touches whole ones: mask to atoms."""
        masks = {wave.reads for wave in self.waves} | {wave.writes for wave in self.waves}
        masks.discard(0)
        whole = 0
        for mask in masks:
            whole |= mask
        atoms = [whole]
        for mask in sorted(masks, key=int.bit_count):
            if mask == whole:
                continue
            divided: list[int] = []
            for atom in atoms:
                inside = atom & mask
                if inside and inside != atom:
                    divided += [inside, atom & ~mask]
                else:
                    divided.append(atom)
            atoms = divided
        return {mask: [i for i, atom in enumerate(atoms) if atom & mask] for mask in masks}

    def _sweep(self) -> list[tuple[Wave, int]]:
        """Give the waves that are not ordered after all that they conflict with, and what lacks.

        What lacks is a bit set of the places that the others trigger.
        """
        missing = self.facts.events.before.missing
        atoms = self._atoms()
        count = 1 + max((place for places in atoms.values() for place in places), default=0)
        states: list[_State] = [{} for _ in range(count)]
        late: list[tuple[Wave, int]] = []
        for wave in self.waves:
            lacking = 0
            for mask, excuse, writes in (
                (wave.reads, wave.read_excuse, False),
                (wave.writes, wave.write_excuse, True),
            ):
                if not mask:
                    continue
                for atom in atoms[mask]:
                    for (is_write, _, other, covered), places in states[atom].items():
                        if not (writes or is_write) or excuse & other:
                            continue
                        if covered is not None and not covered & excuse:
                            continue
                        rest = missing(places, wave.waits)
                        if rest and not (rest != places and not writes and _repeats(other)):
                            lacking |= rest
            if lacking:
                late.append((wave, lacking))
            own = 1 << wave.fires
            if wave.reads:
                key = (False, wave.indexed, wave.read_excuse, None)
                for atom in atoms[wave.reads]:
                    state = states[atom]
                    state[key] = state.get(key, 0) | own
            if wave.writes:
                key = (True, wave.indexed, wave.write_excuse, None)
                for atom in atoms[wave.writes]:
                    state = states[atom] = self._covered(states[atom], wave)
                    state[key] = state.get(key, 0) | own
        return late

    def _covered(self, state: _State, wave: Wave) -> _State:
        """Give an atom's state without what is ordered before a write, and so covered by it.

        A write whose rows are picked at run time covers only others of that kind: what it
        conflicts with is no more than a warning.
        """
        missing = self.facts.events.before.missing
        excuse = wave.write_excuse
        after: _State = {}
        for key, places in state.items():
            is_write, indexed, other, covered = key
            rest = places
            if indexed or not wave.indexed:
                rest = missing(places, wave.waits)
                gone = places & ~rest
                left = excuse if covered is None else covered & excuse
                if gone and left:
                    beneath = (is_write, indexed, other, left)
                    after[beneath] = after.get(beneath, 0) | gone
            if rest:
                after[key] = after.get(key, 0) | rest
        return after

    def _alone(self) -> Iterator[Race]:
        """Find waves whose own tasks conflict, which nothing can order."""
        for wave in self.waves:
            if not wave.writes or wave.repeats or wave.write_excuse - {_ACCUMULATES}:
                continue
            adding = _ACCUMULATES in wave.write_excuse
            cells, both_write = self._own_conflict(wave.parts, adding)
            if cells:
                yield self._race(wave, wave, cells, True, both_write)

    # -- what to report ----------------------------------------------------------------------

    def _races(self, late: list[tuple[Wave, int]]) -> tuple[list[Race], int]:
        """List the races of the waves that are late, and how many more there are."""
        races = list(self._alone())
        certain = any(race.certain for race in races)
        more = 0
        if not late:
            return races, more
        firing: dict[int, list[Wave]] = {}
        for wave in self.waves:
            firing.setdefault(wave.fires, []).append(wave)
        at = {id(wave): number for number, wave in enumerate(self.waves)}
        for second, lacking in late:
            for place in _places(lacking):
                for first in firing[place]:
                    if at[id(first)] >= at[id(second)]:
                        continue
                    if len(races) >= MOST_RACES and certain:
                        more += self._meets(first, second)
                        continue
                    race = self._between(first, second)
                    if race is not None:
                        races.append(race)
                        certain = certain or race.certain
        return races, more

    def _between(self, first: Wave, second: Wave) -> Race | None:
        """Give the race of two unordered waves, a certain one if there is; None if they miss."""
        found: Race | None = None
        for writes in _DIRECTIONS:
            cells = self._conflict(first, second, *writes)
            if cells:
                race = self._race(first, second, cells, *writes)
                if race.certain:
                    return race
                if found is None and not self._paired(race):
                    found = race
        return found

    def _meets(self, first: Wave, second: Wave) -> bool:
        return any(self._conflict(first, second, *writes) for writes in _DIRECTIONS)

    def _conflict(self, first: Wave, second: Wave, first_writes: bool, second_writes: bool) -> int:
        """Give the cells where two unordered waves conflict in the given directions."""
        cells = (first.writes if first_writes else first.reads) & (
            second.writes if second_writes else second.reads
        )
        if not cells:
            return 0
        one = first.write_excuse if first_writes else first.read_excuse
        other = second.write_excuse if second_writes else second.read_excuse
        if one & other:
            return 0
        if not first.repeats or second_writes:
            return cells
        # One of those that do the same work is enough before a reader.
        twins = self._twins[first.write_excuse]
        return 0 if any(self._ordered(twin, second) for twin in twins) else cells

    def _ordered(self, first: Wave, second: Wave) -> bool:
        events = self.facts.events
        return first.fires < events.count and events.before.holds(first.fires, second.waits)

    def _paired(self, race: Race) -> bool:
        """Whether the later one has a partner of its own in the earlier one's operator.

        Both pick their rows at run time. As many tasks of one operator as of the other, each
        ordered after its own, are no race, although by their tiles they may meet others.
        """
        if not (race.earlier.indexed and race.later.indexed):
            return False
        touched = race.later.reads | race.later.writes
        return any(
            (wave.writes if race.earlier_writes else wave.reads) & touched
            and self._ordered(wave, race.later)
            for wave in self._by_operator[race.earlier.operator]
        )

    @cached_property
    def _twins(self) -> dict[Excuse, list[Wave]]:
        """The waves that repeat the same work, by their excuse."""
        found: dict[Excuse, list[Wave]] = {}
        for wave in self.waves:
            if wave.repeats:
                found.setdefault(wave.write_excuse, []).append(wave)
        return found

    @cached_property
    def _by_operator(self) -> dict[int, list[Wave]]:
        found: dict[int, list[Wave]] = {}
        for wave in self.waves:
            found.setdefault(wave.operator, []).append(wave)
        return found

    def _race(
        self, one: Wave, other: Wave, cells: int, one_writes: bool, other_writes: bool
    ) -> Race:
        if other.first.first < one.first.first:
            one, other = other, one
            one_writes, other_writes = other_writes, one_writes
        unprovided = not one_writes and not self._provided(one, cells)
        certain = not (one.indexed or other.indexed)
        if not certain and one_writes != other_writes:
            # Whatever rows the reader picks, nobody has written any of them.
            reader = other if one_writes else one
            tiles = {part.reads for part in reader.parts if part.reads & cells}
            certain = not all(self._provided(reader, tile) for tile in tiles)
        return Race(self.name, one, other, one_writes, other_writes, cells, certain, unprovided)

    def _provided(self, reader: Wave, cells: int) -> bool:
        """Whether a wave that is ordered before ``reader`` writes some of the cells."""
        known = self._provisions.get((reader.waits, cells))
        if known is None:
            declaration = self.facts.declared.get(self.name)
            known = declaration is not None and declaration.kind in LOADED
            known = known or any(
                wave.writes & cells and self._ordered(wave, reader) for wave in self.waves
            )
            self._provisions[reader.waits, cells] = known
        return known

    def _early(self, racing: set[int]) -> Iterator[EarlyRead]:
        """Find reads of a buffer that only tasks fill, of bytes that none has written yet."""
        declaration = self.facts.declared.get(self.name)
        if declaration is None or declaration.kind not in BUFFERS:
            return
        if self.incomplete:
            return
        written, ever = 0, 0
        for wave in self.waves:
            ever |= wave.writes
        for at, wave in enumerate(self.waves):
            unwritten = wave.reads & ever & ~written
            if unwritten and id(wave) not in racing:
                exact = 0
                for part in wave.parts:
                    for access in part.accesses:
                        slot = access.slot
                        if access.reads and slot.exact and not slot.writes:
                            exact |= self._masks[access.tensor]
                unwritten &= exact
                writer = next((w for w in self.waves[at:] if w.writes & unwritten), None)
                if writer is not None:
                    yield EarlyRead(self.name, wave, writer, unwritten)
            written |= wave.writes


def _places(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _excuse(waves: list[Wave], operator: int) -> None:
    excuse: Excuse = frozenset({("operator", operator)})
    for wave in waves:
        wave.read_excuse |= excuse
        wave.write_excuse |= excuse


def _repeats(excuse: Excuse) -> bool:
    return any(isinstance(reason, tuple) and reason[0] == "repeats" for reason in excuse)


def _by_group(accesses: Sequence[Access]) -> Iterator[tuple[Group, tuple[Access, ...]]]:
    """Gather the accesses of each group that touch anything; a group's stand side by side."""
    own: list[Access] = []
    for access in accesses:
        if not (access.reads or access.writes):
            continue
        if own and own[0].group is not access.group:
            yield own[0].group, tuple(own)
            own = []
        own.append(access)
    if own:
        yield own[0].group, tuple(own)


def _references(part: Part) -> tuple[int, ...]:
    """The references of a part that are written."""
    return tuple(access.tensor for access in part.accesses if access.writes)


def _by_tile(parts: Iterable[Part]) -> dict[tuple[int, ...], list[Part]]:
    tiles: dict[tuple[int, ...], list[Part]] = {}
    for part in parts:
        tiles.setdefault(_references(part), []).append(part)
    return tiles
