"""Slots that look odd only since the operator before them takes another weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirage_gate.rules.layers._shared import is_foreign, last_writer

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.rules.layers._odd_slots import OddSlot


def follows(facts: RankFacts, odd: OddSlot, found: Sequence[OddSlot]) -> bool:
    """Whether a slot carries what the usual operator wrote, of which another slot is odd.

    A buffer goes by the operator that wrote it, and that by its weight. Where the weight is
    another one, the finding says so at the weight's slot; whoever reads the result is right.
    """
    if len(odd.content) != 1 or len(odd.usual) != 1:
        return False
    (mine,), (theirs,) = odd.content, odd.usual
    alike = (mine.kind, mine.writer, mine.slot, mine.back) == (
        theirs.kind,
        theirs.writer,
        theirs.slot,
        theirs.back,
    )
    if mine.kind != "activation" or mine.back < 0 or not alike:
        return False
    return all(_is_said(facts, odd, layer, theirs.name, found) for layer in odd.layers)


def _is_said(
    facts: RankFacts, odd: OddSlot, layer: int, weight: str, found: Sequence[OddSlot]
) -> bool:
    """Whether the writer is its siblings' operator of a weight, and its own one is reported."""
    writer = last_writer(facts, odd.column.operators[layer], odd.index)
    if writer is None or writer.place is None:
        return False
    (role,) = odd.content
    if (writer.task_type, writer.weight) != (role.writer, role.name):
        return False
    column = next(
        (
            column
            for column in odd.column.siblings.columns
            if column.key == (role.writer, weight) and column.operators.get(writer.place) is writer
        ),
        None,
    )
    if column is None:
        return False
    return is_foreign(facts, column, role.name, writer.place) or any(
        other.column is column
        and writer.place in other.layers
        and {r.kind for r in other.content | other.usual} == {"weight"}
        and role.name in {r.name for r in other.content}
        for other in found
    )
