"""MG204: the copies that fill a shuffled tensor do not tile it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import Tensor
from mirage_gate.facts.regions import TensorRegions
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import size
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG204",
    "shuffle-gap",
    Severity.ERROR,
    "The copies that fill a shuffled tensor do not tile it.",
    why="""
        A shuffled tensor is filled by the host, row block by row block, from its sources. A
        gap stays uninitialised, an overlap loses what was copied first.
    """,
    example="`qkv_proj` has 12,582,912 bytes and the copy of V is 1,024 rows short.",
    fix="Make the sources' shapes add up to the shuffled tensor's.",
)


@RULE.checked_by
def shuffle_gap(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind != "shuffled" or declaration.nbytes is None:
            continue
        rows = {
            i: Tensor(name, copy.offset, 930, (copy.height, copy.width), (copy.pitch, 1))
            for i, copy in enumerate(declaration.copies)
        }
        regions = TensorRegions(declaration.nbytes, rows)
        seen = overlap = 0
        for i in rows:
            overlap |= seen & regions.mask(i)
            seen |= regions.mask(i)
        problems = [
            (regions.whole & ~seen, "are filled by no copy"),
            (overlap, "are filled twice"),
            (seen & ~regions.whole, "lie past its end and are written by a copy"),
        ]
        texts = [f"{regions.text(mask)} {what}" for mask, what in problems if mask]
        texts += [
            f"the copy of {copy.source} has rows of {copy.width} bytes, {copy.pitch} apart"
            for copy in declaration.copies
            if copy.width > copy.pitch and copy.height > 1
        ]
        if regions.undecided:
            texts = [f"its copies cannot be compared: {regions.undecided}"]
        if not texts:
            continue
        yield RULE.finding(
            facts.rank,
            f"shuffled {name}{size(declaration)}: {'; '.join(texts)}",
            declaration.location,
            hint="make the sources' shapes add up to the tensor's",
            related=tuple(
                copy.location.saying(f"copies {copy.source}") for copy in declaration.copies[:8]
            ),
            tensor=name,
        )
