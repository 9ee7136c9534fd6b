"""What is known of each cell of a tensor, kept for whole ranges of cells at once.

Cells that the same masks hold are one *atom*. Numbered by their first cells, the atoms of
real tiles stand side by side, a whole tensor is one run of them, and a tree over the atoms
keeps one state for all of a run that share it. So ten thousand tiles that one task reads,
or ten thousand tasks that read one tensor, are some dozens of looks each and not a look for
each tile and task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mirage_gate.facts.order.waves import Excuse

Key = tuple[bool, bool, Excuse, "Excuse | None", bool]
"""(Is a write, rows picked at run time, excuse, covered by, one of a wave that repeats work).

What an excused write covers is still to be compared with those that share the excuse, since
they are not compared with the write.
"""

State = dict[Key, int]
"""What whoever touches an atom next must come after: bit sets of the places of events."""

Runs = list[int]
"""Atoms as runs [low, high), ascending: low, high, low, high…"""


Known = tuple[int, int]
"""A mask, to look things up by."""


def known_by(mask: int) -> Known:
    """Give what to look a mask up by.

    Not itself: ``hash(1 << n)`` is one of 61 numbers, and a table of tiles one row.
    """
    return mask.bit_length(), mask


def atoms(masks: Iterable[int]) -> tuple[int, dict[Known, Runs]]:
    """Divide the cells into atoms: how many, and which of them each mask is made of."""
    found: dict[Known, Runs] = {known_by(mask): [] for mask in masks if mask}
    # Bit n of a signature: the n-th mask holds the cell. They change where a mask begins or ends.
    changes: dict[int, int] = {}
    for number, (_, mask) in enumerate(found):
        bit = 1 << number
        for at in _bits(mask ^ mask << 1):
            changes[at] = changes.get(at, 0) ^ bit
    signature = 0
    signatures: dict[Known, None] = {}
    for at in sorted(changes):
        signature ^= changes[at]
        signatures[known_by(signature)] = None
    signatures.pop(known_by(0), None)
    runs = list(found.values())
    before = 0
    for atom, (_, signature) in enumerate([*signatures, known_by(0)]):
        changed = signature ^ before
        while changed:
            low = changed & -changed
            runs[low.bit_length() - 1].append(atom)
            changed ^= low
        before = signature
    return len(signatures), found


_FEW = 16
"""Bits that are looked for one by one: each is a pass over the digits, of thirty bits each."""


def _bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending: one by one if they are few."""
    if mask.bit_count() <= _FEW:
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low
        return
    text = f"{mask:b}"[::-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


_PARTS = 16
"""Of a node of the tree: so few that a union is cheap, so many that a single atom is near."""


class _Node:
    """Some atoms in a row.

    Where all of them have one state it is ``base``, and ``parts`` is None. Else ``parts`` are
    nodes, or None where the state is ``base`` still; ``late`` is what the nodes among them
    are to have in addition, and ``union`` the union of all states, None if it is not known.
    No state is ever changed: nodes share them.
    """

    __slots__ = ("base", "late", "parts", "union")

    def __init__(self, base: State) -> None:
        self.base = base
        self.late: State = {}
        self.parts: list[_Node | None] | None = None
        self.union: State | None = None

    def state(self) -> State:
        """The union of the states of all atoms."""
        if self.parts is None:
            return self.base
        if self.union is None:
            total: State = dict(self.base) if None in self.parts else {}
            for part in self.parts:
                if part is not None:
                    for key, places in part.state().items():
                        total[key] = total.get(key, 0) | places
            for key, places in self.late.items():
                total[key] = total.get(key, 0) | places
            self.union = total
        return self.union

    def add(self, key: Key, places: int) -> None:
        """Add to the state of every atom."""
        self.base = _with(self.base, key, places)
        if self.parts is not None:
            self.late = _with(self.late, key, places)
            if self.union is not None:
                self.union = _with(self.union, key, places)

    def hand_on(self) -> None:
        """Give the parts what they are to have."""
        if self.late and self.parts is not None:
            for part in self.parts:
                if part is not None:
                    for key, places in self.late.items():
                        part.add(key, places)
            self.late = {}


class Board:
    """The state of each of ``count`` atoms: a tree, whose leaves are where states differ."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._size = 1
        while self._size < count:
            self._size *= _PARTS
        self._root = _Node({})

    def look(self, runs: Runs, apart: bool) -> list[State]:
        """Give states that together are those of some atoms.

        ``apart``: those of which some repeat work not as a union, but as they are.
        """
        found: list[State] = []
        for first, last in zip(runs[::2], runs[1::2], strict=True):
            self._look(self._root, 0, self._size, first, last, apart, found)
        return found

    def _look(
        self,
        node: _Node,
        low: int,
        width: int,
        first: int,
        last: int,
        apart: bool,
        found: list[State],
    ) -> None:
        if node.parts is None:
            found.append(node.base)
            return
        if first <= low and min(low + width, self._count) <= last:
            state = node.state()
            if not (apart and any(key[4] for key in state)):
                found.append(state)
                return
        node.hand_on()
        width //= _PARTS
        base_too = False
        for at in self._within(low, width, len(node.parts), first, last):
            part = node.parts[at]
            if part is not None:
                self._look(part, low + at * width, width, first, last, apart, found)
            elif not base_too:
                base_too = True
                found.append(node.base)

    def _within(self, low: int, width: int, parts: int, first: int, last: int) -> range:
        """Which of a node's parts have some of the atoms ``first`` to ``last``."""
        return range(max(first - low, 0) // width, min((last - low - 1) // width + 1, parts))

    def _divide(self, node: _Node, low: int, width: int) -> list[_Node | None]:
        """Give the parts of a node, each of ``width``, up to date."""
        if node.parts is None:
            node.parts = [None] * min(_PARTS, (self._count - low - 1) // width + 1)
            node.union = node.base
        node.hand_on()
        return node.parts

    def add(self, runs: Runs, key: Key, places: int) -> None:
        """Add to the state of some atoms."""
        for first, last in zip(runs[::2], runs[1::2], strict=True):
            self._add(self._root, 0, self._size, first, last, key, places)

    def _add(
        self, node: _Node, low: int, width: int, first: int, last: int, key: Key, places: int
    ) -> None:
        if first <= low and min(low + width, self._count) <= last:
            node.add(key, places)
            return
        width //= _PARTS
        parts = self._divide(node, low, width)
        for at in self._within(low, width, len(parts), first, last):
            part = parts[at]
            if part is None:
                part = parts[at] = _Node(node.base)
            self._add(part, low + at * width, width, first, last, key, places)
        if node.union is not None:
            node.union = _with(node.union, key, places)

    def replace(self, runs: Runs, left: Callable[[State], State], key: Key, places: int) -> None:
        """Leave of the state of some atoms what ``left`` does, and add to it.

        What ``left`` makes of a union must be the union of what it makes of its parts.
        """
        for first, last in zip(runs[::2], runs[1::2], strict=True):
            self._replace(self._root, 0, self._size, first, last, left, key, places)

    def _replace(
        self,
        node: _Node,
        low: int,
        width: int,
        first: int,
        last: int,
        left: Callable[[State], State],
        key: Key,
        places: int,
    ) -> None:
        inside = first <= low and min(low + width, self._count) <= last
        if inside:
            state = left(node.state())
            if not state or node.parts is None:
                node.base = _with(state, key, places)
                node.parts, node.late, node.union = None, {}, None
                return
        width //= _PARTS
        parts = self._divide(node, low, width)
        for at in self._within(low, width, len(parts), first, last):
            part = parts[at]
            if part is None:
                if inside:
                    continue
                part = parts[at] = _Node(node.base)
            self._replace(part, low + at * width, width, first, last, left, key, places)
        if inside:
            node.base = _with(left(node.base), key, places)
        node.union = None


def _with(state: State, key: Key, places: int) -> State:
    return {**state, key: state.get(key, 0) | places}
