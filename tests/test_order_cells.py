"""Atoms and the board of their states, against one state for every cell."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from mirage_gate.facts.order.cells import Board, Key, State, atoms, known_by

CELLS = 13
MASKS = st.integers(1, (1 << CELLS) - 1)
KEYS: list[Key] = [
    (False, False, frozenset(), None, False),
    (True, False, frozenset(), None, False),
    (True, False, frozenset({"twin"}), None, True),
    (True, True, frozenset({"one"}), frozenset({"one"}), False),
]


@given(st.lists(MASKS, min_size=1, max_size=12))
def test_atoms_are_the_cells_that_the_same_masks_hold(masks: list[int]) -> None:
    count, runs = atoms([*masks, 0])
    held = [tuple(bool(mask >> cell & 1) for mask in masks) for cell in range(CELLS)]
    kinds = list(dict.fromkeys(kind for kind in held if any(kind)))
    assert count == len(kinds)
    for number, mask in enumerate(masks):
        lows, highs = runs[known_by(mask)][::2], runs[known_by(mask)][1::2]
        assert all(low < high for low, high in zip(lows, highs, strict=True))
        assert all(high < low for high, low in zip(highs, lows[1:], strict=False))
        inside = {a for low, high in zip(lows, highs, strict=True) for a in range(low, high)}
        assert inside == {atom for atom, kind in enumerate(kinds) if kind[number]}


def without(gone: int, state: State) -> State:
    return {key: places & ~gone for key, places in state.items() if places & ~gone}


STEPS = st.tuples(
    st.sampled_from(["look", "look apart", "add", "replace"]),
    MASKS,
    st.sampled_from(KEYS),
    st.integers(0, 5),
    st.integers(0, 63),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=30))
def test_a_board_knows_what_each_cell_would(steps: list[tuple[str, int, Key, int, int]]) -> None:
    count, runs = atoms([mask for _, mask, *_ in steps])
    board = Board(count)
    cells: list[State] = [{} for _ in range(CELLS)]
    for what, mask, key, place, gone in steps:
        touched = [cell for cell in range(CELLS) if mask >> cell & 1]
        if what.startswith("look"):
            apart = what == "look apart"
            seen = list(board.look(runs[known_by(mask)], apart))
            total: State = {}
            for state in seen:
                for each, places in state.items():
                    total[each] = total.get(each, 0) | places
            expected: State = {}
            for cell in touched:
                for each, places in cells[cell].items():
                    expected[each] = expected.get(each, 0) | places
            assert total == expected
            if apart:
                assert {frozenset(s.items()) for s in seen if any(k[4] for k in s)} == {
                    frozenset(s.items())
                    for s in (cells[cell] for cell in touched)
                    if any(k[4] for k in s)
                }
        elif what == "add":
            board.add(runs[known_by(mask)], key, 1 << place)
            for cell in touched:
                cells[cell][key] = cells[cell].get(key, 0) | 1 << place
        else:
            board.replace(runs[known_by(mask)], partial(without, gone), key, 1 << place)
            for cell in touched:
                cells[cell] = without(gone, cells[cell])
                cells[cell][key] = cells[cell].get(key, 0) | 1 << place
