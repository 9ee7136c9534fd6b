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


def atoms(masks: Iterable[int]) -> tuple[int, dict[int, Runs]]:
    """Divide the cells into atoms: how many, and which of them each mask is made of."""
    found: dict[int, Runs] = {mask: [] for mask in masks if mask}
    # Bit n of a signature: the n-th mask holds the cell. They change where a mask begins or ends.
    changes: dict[int, int] = {}
    for number, mask in enumerate(found):
        bit = 1 << number
        edges = f"{mask ^ mask << 1:b}"[::-1]
        at = edges.find("1")
        while at >= 0:
            changes[at] = changes.get(at, 0) ^ bit
            at = edges.find("1", at + 1)
    signature = 0
    signatures: dict[int, None] = {}
    for at in sorted(changes):
        signature ^= changes[at]
        signatures[signature] = None
    signatures.pop(0, None)
    runs = list(found.values())
    before = 0
    for atom, signature in enumerate([*signatures, 0]):
        changed = signature ^ before
        while changed:
            low = changed & -changed
            runs[low.bit_length() - 1].append(atom)
            changed ^= low
        before = signature
    return len(signatures), found


class Board:
    """The state of each of ``count`` atoms.

    A tree of halves. A node keeps the union of the states beneath, and where all of those are
    one and the same there is nothing beneath it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._size = 1 << max(count - 1, 0).bit_length()
        self._sums: dict[int, State] = {1: {}}
        self._late: dict[int, State] = {}
        """What all atoms beneath a divided node have in addition."""

    def _whole(self, runs: Runs) -> Iterator[tuple[int, int]]:
        for low, high in zip(runs[::2], runs[1::2], strict=True):
            yield low, self._size if high == self._count else high

    def look(self, runs: Runs, apart: bool) -> Iterator[State]:
        """Give states that together are those of some atoms.

        ``apart``: those of which some repeat work not as a union, but as they are.
        """
        for first, last in self._whole(runs):
            stack = [(1, 0, self._size)]
            while stack:
                node, low, high = stack.pop()
                if low >= last or high <= first:
                    continue
                state = self._sums[node]
                inside = first <= low and high <= last
                if node not in self._late or (
                    inside and not (apart and any(key[4] for key in state))
                ):
                    yield state
                    continue
                self._divide(node)
                middle = (low + high) // 2
                stack.append((2 * node + 1, middle, high))
                stack.append((2 * node, low, middle))

    def add(self, runs: Runs, key: Key, places: int) -> None:
        """Add to the state of some atoms."""
        for first, last in self._whole(runs):
            self._add(1, 0, self._size, first, last, key, places)

    def _add(
        self, node: int, low: int, high: int, first: int, last: int, key: Key, places: int
    ) -> None:
        if low >= last or high <= first:
            return
        if first <= low and high <= last:
            if node in self._late:
                _unite(self._late[node], key, places)
        else:
            self._divide(node)
            middle = (low + high) // 2
            self._add(2 * node, low, middle, first, last, key, places)
            self._add(2 * node + 1, middle, high, first, last, key, places)
        _unite(self._sums[node], key, places)

    def replace(self, runs: Runs, left: Callable[[State], State], key: Key, places: int) -> None:
        """Leave of the state of some atoms what ``left`` does, and add to it.

        What ``left`` makes of a union must be the union of what it makes of its parts.
        """
        for first, last in self._whole(runs):
            self._replace(1, 0, self._size, first, last, left, key, places)

    def _replace(
        self,
        node: int,
        low: int,
        high: int,
        first: int,
        last: int,
        left: Callable[[State], State],
        key: Key,
        places: int,
    ) -> None:
        if low >= last or high <= first:
            return
        if first <= low and high <= last:
            state = left(self._sums[node])
            if not state or node not in self._late:
                _unite(state, key, places)
                self._sums[node] = state
                self._late.pop(node, None)  # whatever was beneath is forgotten
                return
        self._divide(node)
        middle = (low + high) // 2
        self._replace(2 * node, low, middle, first, last, left, key, places)
        self._replace(2 * node + 1, middle, high, first, last, left, key, places)
        total = dict(self._sums[2 * node])
        for other, more in self._sums[2 * node + 1].items():
            _unite(total, other, more)
        self._sums[node] = total

    def _divide(self, node: int) -> None:
        """Give the two halves of a node what it has for both."""
        late = self._late.get(node)
        if late is None:
            for half in (2 * node, 2 * node + 1):
                self._sums[half] = dict(self._sums[node])
                self._late.pop(half, None)
        else:
            for half in (2 * node, 2 * node + 1):
                for key, places in late.items():
                    _unite(self._sums[half], key, places)
                    if half in self._late:
                        _unite(self._late[half], key, places)
        self._late[node] = {}


def _unite(state: State, key: Key, places: int) -> None:
    state[key] = state.get(key, 0) | places
