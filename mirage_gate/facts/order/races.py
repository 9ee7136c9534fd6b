"""What of one tensor's accesses no event orders."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial

import msgspec

from mirage_gate.artifacts.cuda import BUFFERS, LOADED
from mirage_gate.facts.order.cells import Board, Known, State, atoms, known_by
from mirage_gate.facts.order.waves import ACCUMULATES, Excuse, TensorWaves, Wave

MOST_RACES = 2000
"""Pairs of waves that are listed of one tensor: whether there are more is all that is said."""

_DIRECTIONS = ((True, True), (True, False), (False, True))


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
    """What is wrong with the order of one tensor's accesses; ``more`` races are not listed."""

    races: tuple[Race, ...] = ()
    more: bool = False
    early: tuple[EarlyRead, ...] = ()


CLEAN = TensorOrder()


class Judge:
    """The waves of one tensor, swept in the order of what they wait for."""

    def __init__(self, tensor: TensorWaves) -> None:
        self.facts = tensor.facts
        self.name = tensor.name
        self.waves = tensor.waves
        self._tensor = tensor
        self._provisions: dict[tuple[int, int], bool] = {}

    # -- the sweep ---------------------------------------------------------------------------

    def judge(self) -> TensorOrder:
        """Find every pair of waves that nothing orders, and reads that come before all writes."""
        if not self.waves:
            return CLEAN
        races, more = self._races()
        racing = {id(wave) for race in races for wave in (race.earlier, race.later)}
        early = tuple(self._early(racing))
        if not races and not early:
            return CLEAN
        return TensorOrder(tuple(races), more, early)

    def _sweep(self) -> Iterator[tuple[Wave, int]]:
        """Give the waves that are not ordered after all that they conflict with, and what lacks.

        What lacks is a bit set of the places that the others trigger.
        """
        count, runs = atoms(mask for wave in self.waves for mask in (wave.reads, wave.writes))
        board = Board(count)
        for wave in self.waves:
            lacking = 0
            if wave.reads:
                for state in board.look(runs[known_by(wave.reads)], apart=True):
                    lacking |= self._lacking(state, wave, writes=False)
            if wave.writes:
                for state in board.look(runs[known_by(wave.writes)], apart=False):
                    lacking |= self._lacking(state, wave, writes=True)
            if lacking:
                yield wave, lacking
            own = 1 << wave.fires
            if wave.reads:
                key = (False, wave.indexed, wave.read_excuse, None, False)
                board.add(runs[known_by(wave.reads)], key, own)
            if wave.writes:
                key = (True, wave.indexed, wave.write_excuse, None, wave.repeats)
                board.replace(runs[known_by(wave.writes)], partial(self._uncovered, wave), key, own)

    def _lacking(self, state: State, wave: Wave, writes: bool) -> int:
        """What of a state a wave conflicts with and does not come after."""
        missing = self.facts.events.before.missing
        excuse = wave.write_excuse if writes else wave.read_excuse
        lacking = 0
        for (is_write, _, other, covered, repeats), places in state.items():
            if not (writes or is_write) or excuse & other:
                continue
            if covered is not None and not covered & excuse:
                continue
            rest = missing(places, wave.waits)
            # One of those that repeat the same work is enough before a reader.
            if rest and not (rest != places and not writes and repeats):
                lacking |= rest
        return lacking

    def _uncovered(self, wave: Wave, state: State) -> State:
        """Give a state without what is ordered before a write, and so covered by it.

        A write whose rows are picked at run time covers only other writes of that kind: what
        it conflicts with is no more than a warning, and a read before it may be more.
        """
        missing = self.facts.events.before.missing
        excuse = wave.write_excuse
        after: State = {}
        for key, places in state.items():
            is_write, indexed, other, covered, repeats = key
            rest = places
            if not wave.indexed or (indexed and is_write):
                rest = missing(places, wave.waits)
                gone = places & ~rest
                left = excuse if covered is None else covered & excuse
                if gone and left:
                    beneath = (is_write, indexed, other, left, repeats)
                    after[beneath] = after.get(beneath, 0) | gone
            if rest:
                after[key] = after.get(key, 0) | rest
        return after

    def _alone(self) -> Iterator[Race]:
        """Find waves whose own tasks conflict, which nothing can order."""
        for wave in self.waves:
            if not wave.writes or wave.repeats or wave.write_excuse - {ACCUMULATES}:
                continue
            adding = ACCUMULATES in wave.write_excuse
            cells, both_write = self._tensor.own_conflict(wave.parts, adding)
            if cells:
                yield self._race(wave, wave, cells, True, both_write)

    # -- what to report ----------------------------------------------------------------------

    def _races(self) -> tuple[list[Race], bool]:
        """List the races, and say whether there are more than are listed.

        The sweep ends where nothing can change what is said.
        """
        races = list(self._alone())
        certain = any(race.certain for race in races)
        more = False
        firing: dict[int, list[Wave]] = {}
        for wave in self.waves:
            firing.setdefault(wave.fires, []).append(wave)
        at = {id(wave): number for number, wave in enumerate(self.waves)}
        for second, lacking in self._sweep():
            for place in _places(lacking):
                for first in firing[place]:
                    if at[id(first)] >= at[id(second)]:
                        continue
                    if len(races) < MOST_RACES or not certain:
                        race = self._between(first, second)
                        if race is None:
                            continue
                        if len(races) < MOST_RACES or race.certain:
                            races.append(race)
                            certain = certain or race.certain
                        else:
                            more = True
                    elif self._meets(first, second):
                        return races, True
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
        if self._tensor.incomplete:
            return
        written, ever, places = 0, 0, 0
        found: dict[Known, int] = {}
        apart: dict[Known, int] = {}
        for wave in self.waves:
            ever |= wave.writes
            places |= 1 << wave.fires if wave.reads else 0
        for at, wave in enumerate(self.waves):
            unwritten = wave.reads & ever & ~written
            if unwritten and id(wave) not in racing:
                exact = 0
                for part in wave.parts:
                    for access in part.accesses:
                        slot = access.slot
                        if access.reads and slot.exact and not slot.writes:
                            exact |= self._tensor.masks[access.tensor]
                unwritten &= exact
                key = known_by(unwritten)
                if key not in apart:
                    apart[key] = self._apart(unwritten, places)
                if apart[key] >> wave.fires & 1:
                    unwritten = self._surely_later(wave, unwritten)
                    key = known_by(unwritten)
                later = range(max(at, found.get(key, 0)), len(self.waves))
                where = next((i for i in later if self.waves[i].writes & unwritten), None)
                if where is not None:
                    found[key] = where
                    yield EarlyRead(self.name, wave, self.waves[where], unwritten)
            written |= wave.writes

    def _apart(self, cells: int, places: int) -> int:
        """Of what some reads trigger, what some write of the cells does not come after."""
        missing = self.facts.events.before.missing
        found = 0
        for wave in self.waves:
            if wave.writes & cells:
                found |= missing(places, wave.waits)
        return found

    def _surely_later(self, reader: Wave, cells: int) -> int:
        """Of some cells those that every other wave which writes them does after a read.

        The sweep's order is one of many: what it has later may come first, and be a race that
        is said of another read or write of the same cells.
        """
        holds = self.facts.events.before.holds
        for wave in self.waves:
            if wave is not reader and wave.writes & cells and not holds(reader.fires, wave.waits):
                cells &= ~wave.writes
        return cells


def _places(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
