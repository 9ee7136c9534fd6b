"""MG204: the copies that fill a shuffled tensor do not tile it, or not as it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import Tensor
from mirage_gate.facts.regions import TensorRegions
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import misfilled
from mirage_gate.rules._words import size
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._copies import Orders

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG204",
    "shuffle-gap",
    Severity.ERROR,
    "The copies that fill a shuffled tensor do not tile it, or not as it is read.",
    why="""
        A shuffled tensor is filled by the host, row block by row block, from its sources. A
        gap stays uninitialised, an overlap loses what was copied first. A source that is copied
        twice takes another's place. And the rows have to lie as they are taken apart again:
        attention takes one KV head's queries, key and value from a tile, silu the gate from one
        half of its tile and what it multiplies from the other.
    """,
    example="""
        `qkv_proj` has 12,582,912 bytes and the copy of V is 1,024 rows short; or Q, K and V
        are copied one behind the other, and attention takes them a KV head at a time.
    """,
    fix="""
        Make the sources' shapes add up to the shuffled tensor's, and shuffle them in the order
        and the groups that its reader takes.
    """,
    limits="""
        Who reads it is known for the attention and silu kernels whose slots are known, behind a
        linear operator. Which part is which goes by the sources' names.
    """,
    repeats=True,
)


@RULE.checked_by
def shuffle_gap(facts: RankFacts) -> Iterator[Finding]:
    shuffled = {n: d for n, d in facts.declared.items() if d.kind == "shuffled"}
    orders = Orders(facts) if shuffled else None
    for name, declaration in shuffled.items():
        if declaration.nbytes is None or orders is None or declaration.unclear:
            continue  # what cannot be read proves nothing
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
        out_of_order = list(orders.problems(name, declaration))
        texts += out_of_order
        if not texts:
            continue
        yield RULE.finding(
            facts.rank,
            f"shuffled {name}{size(declaration)}: {'; '.join(texts)}",
            declaration.location,
            hint="make the sources add up to the tensor, in the order in which it is read",
            related=(
                *(c.location.saying(f"copies {c.source}") for c in declaration.copies[:8]),
                *(
                    facts.in_graph(
                        "all_tasks", one.reader.first, "inputs", one.slot, "dims", note="taken so"
                    )
                    for one in orders.readers(name)[:2]
                ),
            ),
            tensor=name,
            causes=[misfilled(name)] if regions.whole & ~seen or overlap or out_of_order else (),
        )
