"""Which shares of their tensors the slots of one task carry, and whether they belong together.

A tile's offset is written as coordinates, one for each dim. Of an axis that two slots share, tiles
are equally long where the unit is the same, and over the tasks of an operator they rise together:
tasks in the order of one slot's tiles are in the order of the other's. More is not certain, for a
fused tensor's parts lie between each other.

Layers are alike up to names, so what is found of one operator holds for all whose tiles are the
same: the work is that of reading each operator's tiles once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.artifacts.names import role_of
from mirage_gate.facts.regions import BITS
from mirage_gate.facts.signatures.notation import RANKS, Axis, Operand, Signature

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

Tile = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Offset in bytes, data type, dims, strides: a reference without its name."""


class Apart(msgspec.Struct, frozen=True):
    """Two slots of some groups that carry different shares.

    ``what``: ``order`` (another share of the axis), ``length`` (a longer or shorter one),
    ``shift`` (all tiles further on, and nobody reads what is before them), ``wrap`` (the tile runs
    past the end of the axis, into the next row), ``transposed`` (rows and columns exchanged),
    ``ranks`` (not one slice for each rank). ``blamed`` is the slot that disagrees, ``other`` the
    one it disagrees with: itself where the tile alone is wrong. ``groups`` are positions in what
    was looked at; ``start`` and ``length`` are those of both on the axis, in the first of them.
    """

    what: str
    axis: str
    blamed: Operand
    other: Operand
    groups: tuple[int, ...]
    dims: tuple[int, int]
    starts: tuple[int, int]
    lengths: tuple[int, int]


class Difference(msgspec.Struct, frozen=True):
    """What :class:`Apart` says, of the groups of one operator and the tensors in their slots."""

    apart: Apart
    groups: tuple[Group, ...]
    signature: Signature


@lru_cache(maxsize=1 << 14)
def coordinates(
    offset: int, data_type: int, dims: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Give where a tile begins, in elements along each of its dims; None if that is not certain.

    ``offset`` in bytes, ``strides`` in elements. A dim of one element has a stride all the same.
    """
    bits = BITS.get(data_type)
    if bits is None or len(dims) != len(strides) or 0 in strides or offset * 8 % bits:
        return None
    rest = offset * 8 // bits
    found = [0] * len(dims)
    before = 0
    for dim in sorted(range(len(dims)), key=lambda d: (-strides[d], d)):
        if strides[dim] == before:
            continue  # one of the two has one element: where it begins is the other's to say
        before = strides[dim]
        found[dim], rest = divmod(rest, before)
    return None if rest else tuple(found)


@lru_cache(maxsize=1 << 12)
def room(dims: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int | None, ...]:
    """Give the length of each axis in the whole tensor; None for the outermost."""
    known: list[int | None] = [None] * len(dims)
    order = sorted(range(len(dims)), key=lambda d: (-strides[d], d))
    for outer, inner in pairwise(order):
        if strides[inner] and strides[outer] != strides[inner]:
            known[inner] = strides[outer] // strides[inner]
    return tuple(known)


class Tiles:
    """The differences of a rank."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._known: dict[object, tuple[Apart, ...]] = {}

    def differences(self) -> Iterator[Difference]:
        """Give what does not belong together, operator by operator."""
        tiles, numbers = self._numbered()
        names = [tensor.base_ptr for tensor in self._facts.graph.tensors]
        of = self._facts.signatures.of
        ragged = self._facts.signatures.ragged
        for operator in self._facts.layers.operators:
            if not self._facts.signatures.readings(operator.task_type):
                continue
            whole = operator.groups
            if ragged:
                whole = [g for g in whole if ragged.isdisjoint(g.inputs + g.outputs)]
            for groups in _parts(whole, names):
                signature = of(groups[0])
                if signature is None:
                    continue
                rows = [tuple([numbers[n] for n in g.inputs + g.outputs]) for g in groups]
                used = self._used(groups[0], signature, names)
                key = (operator.task_type, used, tuple(rows))
                found = self._known.get(key)
                if found is None:
                    found = self._known[key] = tuple(self._judge(signature, used, rows, tiles))
                for apart in found:
                    if apart.what == "shift" and self._begun(groups[0], apart.blamed):
                        continue
                    yield Difference(apart, tuple(groups[i] for i in apart.groups), signature)

    def _numbered(self) -> tuple[list[Tile], list[int]]:
        """Give the distinct tiles, and the number of each reference's."""
        known: dict[Tile, int] = {}
        numbers = [
            known.setdefault((t.offset, t.data_type, t.dims, t.strides), len(known))
            for t in self._facts.graph.tensors
        ]
        return list(known), numbers

    def _used(self, group: Group, signature: Signature, names: list[str]) -> tuple[bool, ...]:
        used = self._facts.signatures.used
        operands = group.inputs + group.outputs
        return tuple(
            names[number] != SENTINEL
            and self._certain(group.task_type, place, number)
            and used(group, operand)
            for place, (operand, number) in enumerate(
                zip(signature.operands, operands, strict=True)
            )
        )

    def _certain(self, task_type: int, place: int, number: int) -> bool:
        """Whether all of a tile's strides mean something.

        No address depends on the stride of a dim of one element. It says where the tile stands all
        the same, if it leaves room for what is inside of it, and all who name the tensor and all
        operators of the type say so.
        """
        tensor = self._facts.graph.tensors[number]
        if 1 not in tensor.dims:
            return True
        if len(self._strides[tensor.base_ptr, len(tensor.dims)]) > 1:
            return False
        if not _leaves_room(tensor.dims, tensor.strides):
            return False
        key = (task_type, place, role_of(tensor.base_ptr), tensor.dims)
        return self._usual.get(key) == tensor.strides

    @cached_property
    def _strides(self) -> dict[tuple[str, int], set[tuple[int, ...]]]:
        found: defaultdict[tuple[str, int], set[tuple[int, ...]]] = defaultdict(set)
        for tensor in self._facts.graph.tensors:
            found[tensor.base_ptr, len(tensor.dims)].add(tensor.strides)
        return found

    @cached_property
    def _usual(self) -> dict[tuple[int, int, str, tuple[int, ...]], tuple[int, ...]]:
        """The strides that a slot mostly has, by its type, its tensor's role and its dims."""
        tensors = self._facts.graph.tensors
        counts: defaultdict[tuple[int, int, str, tuple[int, ...]], Counter[tuple[int, ...]]]
        counts = defaultdict(Counter)
        for operator in self._facts.layers.operators:
            group = operator.groups[0]
            for place, number in enumerate(group.inputs + group.outputs):
                tensor = tensors[number]
                key = (operator.task_type, place, role_of(tensor.base_ptr), tensor.dims)
                counts[key][tensor.strides] += self._facts.times_of_group(group)
        usual = {}
        for key, counted in counts.items():
            (strides, times), *others = counted.most_common(2)
            usual[key] = strides if not others or others[0][1] < times else ()
        return usual

    def _begun(self, group: Group, operand: Operand) -> bool:
        """Whether anybody touches the first byte of a tensor, or it is not said who does."""
        tensor = self._facts.signatures.tensor(group, operand)
        tensors = self._facts.graph.tensors
        return any(
            tensors[access.tensor].offset == 0
            for access in self._facts.wiring.real(tensor.base_ptr)
        )

    def _judge(
        self,
        signature: Signature,
        used: tuple[bool, ...],
        rows: Sequence[tuple[int, ...]],
        tiles: list[Tile],
    ) -> Iterator[Apart]:
        columns: dict[Operand, list[Tile]] = {}
        starts: dict[Operand, list[tuple[int, ...]]] = {}
        for place, operand in enumerate(signature.operands):
            column = [tiles[row[place]] for row in rows]
            if not used[place] or any(0 in dims for _, _, dims, _ in column):
                continue
            begins = [coordinates(*tile) for tile in column]
            if None not in begins:
                columns[operand] = column
                starts[operand] = [begin for begin in begins if begin is not None]
        alone = [*self._alone(columns, starts)]
        yield from alone
        told = {apart.blamed for apart in alone}
        yield from _together(
            {operand: column for operand, column in columns.items() if operand not in told}, starts
        )

    def _alone(
        self, columns: dict[Operand, list[Tile]], starts: dict[Operand, list[tuple[int, ...]]]
    ) -> Iterator[Apart]:
        """Judge each slot's tiles by themselves."""
        for operand, column in columns.items():
            for dim, axis in enumerate(operand.axes):
                begins = [start[dim] for start in starts[operand]]
                found = self._along(operand, dim, axis, column, begins)
                if found:
                    yield found
                    break
            else:
                if operand.row_major and any(axis.related for axis in operand.axes):
                    bad = [i for i, tile in enumerate(column) if not _descends(tile[2], tile[3])]
                    if bad:
                        last = len(operand.axes) - 1
                        length = column[bad[0]][2][last]
                        yield _alone("transposed", operand, last, bad, 0, (length, length))

    def _along(
        self, operand: Operand, dim: int, axis: Axis, column: list[Tile], begins: list[int]
    ) -> Apart | None:
        """Judge one slot's tiles along one of their dims."""
        ranks = self._facts.cuda.world_size or 1
        lengths = [tile[2][dim] for tile in column]
        if axis.name == RANKS and ranks > 1:
            bad = [i for i, length in enumerate(lengths) if length != ranks]
            if bad:
                at = bad[0]
                return _alone("ranks", operand, dim, bad, begins[at], (lengths[at], ranks))
        if not axis.related:
            return None
        rooms = [room(tile[2], tile[3])[dim] for tile in column]
        bad = [
            i
            for i, space in enumerate(rooms)
            if space is not None and lengths[i] > 1 and begins[i] + lengths[i] > space
        ]
        if not bad:
            return None
        at = bad[0]
        return _alone("wrap", operand, dim, bad, begins[at], (lengths[at], rooms[at] or 0))


def _alone(
    what: str, operand: Operand, dim: int, bad: list[int], start: int, lengths: tuple[int, int]
) -> Apart:
    name = operand.axes[dim].name
    return Apart(what, name, operand, operand, tuple(bad), (dim, dim), (start, start), lengths)


def _leaves_room(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether each stride is a multiple of all that stands inside of it."""
    order = sorted(range(len(dims)), key=lambda d: (-strides[d], d))
    return all(
        strides[outer] % max(strides[inner], 1) == 0
        and strides[outer] >= dims[inner] * strides[inner]
        for outer, inner in pairwise(order)
        if strides[outer] != strides[inner]
    )


def _descends(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides fall from the first dim to the last, of those that are ever taken."""
    taken = [stride for dim, stride in zip(dims, strides, strict=True) if dim > 1]
    return all(outer >= inner for outer, inner in pairwise(taken))


def _parts(groups: list[Group], names: list[str]) -> Iterable[list[Group]]:
    """Put together the groups of an operator that carry the same tensors, of one shape of slots."""
    parts: dict[object, list[Group]] = {}
    for group in groups:
        operands = group.inputs + group.outputs
        parts.setdefault((len(group.inputs), tuple([names[n] for n in operands])), []).append(group)
    return parts.values()


def _together(
    columns: dict[Operand, list[Tile]], starts: dict[Operand, list[tuple[int, ...]]]
) -> Iterator[Apart]:
    """Compare the slots that share an axis; of each axis one slot is blamed."""
    sharing: dict[str, list[tuple[Operand, int, Axis]]] = {}
    for operand in columns:
        for dim, axis in enumerate(operand.axes):
            if axis.related and axis.name != RANKS:
                sharing.setdefault(axis.name, []).append((operand, dim, axis))
    told: set[Operand] = set()
    for name, slots in sharing.items():
        pairs: list[Apart] = []
        for one, other in combinations(slots, 2):
            if one[0] is not other[0]:
                pairs += _pair(name, one, other, columns, starts)
        if not pairs:
            continue
        blame: dict[Operand, int] = {}
        for apart in pairs:
            for operand in (apart.blamed, apart.other):
                blame[operand] = blame.get(operand, 0) + 1
        worst = max(blame.values())
        first = next(apart for apart in pairs if worst in (blame[apart.blamed], blame[apart.other]))
        if blame[first.other] == worst and blame[first.blamed] < worst:
            first = _turned(first)
        elif blame[first.blamed] == blame[first.other] and first.what == "order":
            dim = first.dims[0]
            if _rises([start[dim] for start in starts[first.blamed]]):
                first = _turned(first)  # the one that is not in the order of the tasks
        if first.blamed not in told:
            told.add(first.blamed)
            yield first


def _turned(apart: Apart) -> Apart:
    return Apart(
        apart.what,
        apart.axis,
        apart.other,
        apart.blamed,
        apart.groups,
        apart.dims[::-1],
        apart.starts[::-1],
        apart.lengths[::-1],
    )


def _rises(values: list[int]) -> bool:
    return all(low <= high for low, high in pairwise(values))


def _pair(
    name: str,
    one: tuple[Operand, int, Axis],
    other: tuple[Operand, int, Axis],
    columns: dict[Operand, list[Tile]],
    starts: dict[Operand, list[tuple[int, ...]]],
) -> Iterator[Apart]:
    """Compare two slots over an axis. The later one is blamed, until more is known."""
    (left, left_dim, left_axis), (right, right_dim, right_axis) = one, other
    lefts = [start[left_dim] for start in starts[left]]
    rights = [start[right_dim] for start in starts[right]]
    left_lengths = [tile[2][left_dim] for tile in columns[left]]
    right_lengths = [tile[2][right_dim] for tile in columns[right]]

    def apart(what: str, bad: Sequence[int]) -> Apart:
        at = bad[0]
        return Apart(
            what,
            name,
            right,
            left,
            tuple(bad),
            (right_dim, left_dim),
            (rights[at], lefts[at]),
            (right_lengths[at], left_lengths[at]),
        )

    same_unit = left_axis.unit == right_axis.unit
    by, to = right_axis.factor, left_axis.factor
    if same_unit:
        bad = [
            i
            for i, (a, b) in enumerate(zip(left_lengths, right_lengths, strict=True))
            if a * by != b * to
        ]
        if bad:
            yield apart("length", bad)
            return
    if (left_axis.may_stay and len(set(lefts)) == 1) or (
        right_axis.may_stay and len(set(rights)) == 1
    ):
        return
    order = sorted(range(len(lefts)), key=lambda i: (lefts[i], rights[i]))
    expected = sorted(rights)
    # where one slot's tiles are longer, several of the other's belong to one of them
    bad = [i for i, start in zip(order, expected, strict=True) if rights[i] != start]
    if same_unit and not bad:
        first: dict[int, int] = {}
        bad = [i for i in order if first.setdefault(lefts[i], rights[i]) != rights[i]]
    if bad:
        yield apart("order", sorted(bad))
        return
    if same_unit and not (left_axis.unit or right_axis.unit):
        by_shift = {b * to - a * by for a, b in zip(lefts, rights, strict=True)}
        if len(by_shift) == 1 and (shift := by_shift.pop()):
            found = apart("shift", range(len(lefts)))
            yield found if shift > 0 else _turned(found)
