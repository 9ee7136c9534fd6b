"""How the loader puts a shuffled tensor together, and how the kernels behind it take it apart.

A shuffled tensor is the weight of a linear operator, its rows the parts of several sources in
turns. Attention takes a tile of the result for one KV head's queries, key and value; silu takes
one half of its tile for the gate and the other for what it multiplies. So who reads the result
says in which order and in what turns the rows have to lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import Copy, Declaration
from mirage_gate.facts.regions import BITS

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.signatures import Operand
    from mirage_gate.facts.wiring import Group


class Taken(msgspec.Struct, frozen=True):
    """What an operator takes of a shuffled tensor's rows, through the linear operator between.

    ``reader`` reads the result through input ``slot``. ``turn`` is the length in bytes of the rows
    that one task of it takes, ``parts`` the lengths of the parts in them, in order; ``words`` are
    what each part is by name.
    """

    tensor: str
    reader: Group
    slot: int
    turn: int
    parts: tuple[int, ...]
    words: tuple[str, ...]


def turn_of(declaration: Declaration) -> int | None:
    """Give how many bytes one turn of all parts has, None where they have none in common."""
    copies = declaration.copies
    heights = {copy.height for copy in copies}
    if len(heights) != 1 or declaration.nbytes is None:
        return None
    height = heights.pop()
    if height == 1:
        return declaration.nbytes
    pitches = {copy.pitch for copy in copies}
    return pitches.pop() if len(pitches) == 1 else None


def in_turn(declaration: Declaration) -> list[Copy]:
    """Give the copies in the order in which they lie in a turn."""
    return sorted(declaration.copies, key=lambda copy: copy.offset)


def taken(facts: RankFacts) -> Iterator[Taken]:
    """Give what attention and silu take of each shuffled tensor, each kind once."""
    shuffled = {name for name, d in facts.declared.items() if len(d.copies) > 1}
    if not shuffled:
        return
    seen: set[tuple[str, int, tuple[int, ...]]] = set()
    for operator in facts.layers.operators:
        form = _form(facts, operator)
        if form is None:
            continue
        operand, columns, words = form
        place = (True, operand.index)
        for use in facts.values.uses_in(operator, place):
            for value, _ in use.seen:
                rows = _rows(facts, value.operator, use.tensor)
                if rows is None or rows[0] not in shuffled:
                    continue
                name, row = rows
                parts = tuple(part * row for part in columns)
                if (name, sum(parts), parts) in seen:
                    continue
                seen.add((name, sum(parts), parts))
                reader = operator.groups[0]
                yield Taken(name, reader, operand.index, sum(parts), parts, words)


def _form(
    facts: RankFacts, operator: Operator
) -> tuple[Operand, tuple[int, ...], tuple[str, ...]] | None:
    """Give (slot, columns of the parts of its tile, their words) where an operator takes parts."""
    group = operator.groups[0]
    signature = facts.signatures.of(group)
    if signature is None:
        return None
    for operand in signature.inputs:
        if not operand.axes or not facts.signatures.used(group, operand):
            continue
        tile = facts.signatures.tensor(group, operand)
        if operand.axes[-1].factor == 2 and tile.dims[-1] % 2 == 0:
            return operand, (tile.dims[-1] // 2,) * 2, ("gate", "up")
        cache = signature.named("k")
        if operand.name == "qkv" and cache is not None:
            keys = facts.signatures.tensor(group, cache).dims
            if len(keys) != 4 or keys[2] != 1:
                return None  # how the parts of several KV heads lie in a tile is not known
            queries = tile.dims[-1] - 2 * keys[3]
            return (operand, (queries, keys[3], keys[3]), ("q", "k", "v")) if queries > 0 else None
    return None


def _rows(facts: RankFacts, operator: Operator, result: str) -> tuple[str, int] | None:
    """Give (weight, bytes of its row) of a linear operator, if its columns are the weight's rows.

    ``result`` is the tensor that it fills.
    """
    group = operator.groups[0]
    signature = facts.signatures.of(group)
    weight, output = (signature.named("w"), signature.named("y")) if signature else (None, None)
    if weight is None or output is None or len(weight.axes) != 2 or len(output.axes) != 2:
        return None
    if weight.axes[0] != output.axes[1]:
        return None
    rows, columns = (facts.signatures.tensor(group, operand) for operand in (weight, output))
    declaration = facts.declared.get(rows.base_ptr)
    if columns.base_ptr != result or declaration is None or declaration.nbytes is None:
        return None
    row = rows.strides[0] * BITS.get(rows.data_type, 0) // 8
    whole = row and row * columns.strides[0] == declaration.nbytes
    return (rows.base_ptr, row) if whole else None
