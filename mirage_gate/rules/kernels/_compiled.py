"""What rules on compiled-in parameters share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.signatures.constants import Mismatch


def by_branch(facts: RankFacts, *what: str) -> Iterator[list[Mismatch]]:
    """Give the mismatches of each variant."""
    found: dict[tuple[str, int], list[Mismatch]] = {}
    for mismatch in facts.signatures.constants.mismatches:
        if mismatch.what in what:
            branch = mismatch.branch
            found.setdefault((branch.type_name, branch.variant), []).append(mismatch)
    yield from found.values()


def slot(facts: RankFacts, mismatch: Mismatch, note: str = "") -> tuple[Location, ...]:
    """Point at the slot that a mismatch is about, where there is one."""
    operand = mismatch.operand
    if operand is None:
        return ()
    side = "inputs" if operand.is_input else "outputs"
    task = mismatch.groups[0].first
    place = ("all_tasks", task, side, operand.index, mismatch.field)
    return (facts.in_graph(*place, note=note),)
