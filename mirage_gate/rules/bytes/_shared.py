"""Which tensors the rules on bytes look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access


def touched_tensors(facts: RankFacts) -> Iterator[tuple[str, Declaration, list[Access]]]:
    """Give every declared tensor that tasks really touch, with those accesses."""
    for name, declaration in facts.declared.items():
        accesses = facts.wiring.real(name)
        if accesses and declaration.kind != "sentinel":
            yield name, declaration, accesses
