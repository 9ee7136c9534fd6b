"""The tasks that touch one tensor, gathered into waves; and which of them may meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import METADATA_FIELDS

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.regions import TensorRegions
    from mirage_gate.facts.wiring import Access, Group

Excuse = frozenset[object]
"""What an access is excused by. Two accesses that share an excuse do not conflict."""

ACCUMULATES = "accumulates"
_NONE: Excuse = frozenset()


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


class TensorWaves:
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
        self.masks = {access.tensor: self.regions.mask(access.tensor) for access in accesses}
        beyond = max(mask.bit_length() for mask in self.masks.values())
        for reference, mask in self.masks.items():
            if not mask and 0 not in facts.graph.tensors[reference].dims:
                # Bytes that are unknown are known to be the same in the same reference.
                self.masks[reference] = 1 << beyond
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
                cells, slot = self.masks[access.tensor], access.slot
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
                wave.write_excuse |= {ACCUMULATES}
        remote = all(access.slot.remote for access in writers)
        if remote or any(wave.indexed for wave in waves):
            _excuse(waves, operator)
            return waves
        if adding or not self.own_conflict(parts)[0] or self._tiles_meet(parts):
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

    def own_conflict(self, parts: Sequence[Part], adding: bool = False) -> tuple[int, bool]:
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


def _excuse(waves: list[Wave], operator: int) -> None:
    excuse: Excuse = frozenset({("operator", operator)})
    for wave in waves:
        wave.read_excuse |= excuse
        wave.write_excuse |= excuse


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
