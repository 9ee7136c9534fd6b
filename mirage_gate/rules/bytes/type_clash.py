"""MG206: the same bytes are used under two data types of different size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import BITS, type_name
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG206",
    "type-clash",
    Severity.WARNING,
    "The same bytes are used under two data types of different size.",
    why="""
        A writer of bfloat16 and a reader of float32 over the same bytes do not mean the same
        numbers, and not the same number of them.
    """,
    example="`lse` is written as float32 and read as bfloat16.",
    fix="Give the tensor one data type in the builder.",
    limits="A buffer that is deliberately reused under another type can be waived.",
)


@RULE.checked_by
def type_clash(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name, _, accesses in touched_tensors(facts):
        if len(facts.regions.of(name).data_types) < 2:
            continue
        by_bits: dict[int, list[Access]] = defaultdict(list)
        for access in accesses:
            bits = BITS.get(tensors[access.tensor].data_type)
            if bits is not None:
                by_bits[bits].append(access)
        if len(by_bits) < 2:
            continue
        regions = facts.regions.of(name)
        masks = {bits: regions.union(a.tensor for a in found) for bits, found in by_bits.items()}
        usual = max(by_bits, key=lambda bits: (len(by_bits[bits]), bits))
        for bits, found in sorted(by_bits.items()):
            both = masks[bits] & masks[usual]
            if bits == usual or not both:
                continue
            odd = next(a for a in found if regions.mask(a.tensor) & both)
            other = next(a for a in by_bits[usual] if regions.mask(a.tensor) & both)
            yield RULE.finding(
                facts.rank,
                (
                    f"{regions.text(both)} of {name} are {_type(facts, odd)} to "
                    f"{tasks(facts, groups_of(found))} and {_type(facts, other)} to others"
                ),
                slot_field(facts, odd, "data_type"),
                hint=f"give {name} one data type",
                related=(
                    *declared(facts, name),
                    slot_field(facts, other, "data_type", "the other type"),
                ),
                tensor=name,
            )


def _type(facts: RankFacts, access: Access) -> str:
    code = facts.graph.tensors[access.tensor].data_type
    return f"{type_name(code)} ({BITS[code]} bits)"
