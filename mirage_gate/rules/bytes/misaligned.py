"""MG205: a tile does not start at a multiple of its element's size, or of what TMA needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import BITS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG205",
    "misaligned",
    Severity.ERROR,
    "A tile does not start at a multiple of its element's size, or of what TMA needs.",
    why="""
        A misaligned load faults, or reads halves of two elements. A TMA descriptor's base
        address must be a multiple of 16 bytes; there it is a warning, for the allocation's
        own address is not in the files.
    """,
    example="A bfloat16 tile at byte 4097.",
    fix="Correct the offset: offsets are bytes, dims and strides are elements.",
    repeats=True,
)


@RULE.checked_by
def misaligned(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    suspects = {number for number, tensor in enumerate(tensors) if tensor.offset % 16}
    if not suspects:
        return
    for name, _, accesses in touched_tensors(facts):
        odd: dict[int, list[Access]] = defaultdict(list)
        for access in accesses:
            if access.tensor not in suspects:
                continue
            tensor = tensors[access.tensor]
            element = max(BITS.get(tensor.data_type, 8) // 8, 1)
            if tensor.offset % element:
                odd[element].append(access)
            elif tensor.offset % 16 and _by_tma(facts, access):
                odd[16].append(access)
        for need, found in sorted(odd.items()):
            tma = need == 16
            offset = tensors[found[0].tensor].offset
            yield RULE.finding(
                facts.rank,
                (
                    f"{'TMA tile' if tma else 'tile'} of {name} at byte {offset} is not aligned to "
                    f"{need} bytes; so are the tiles of {tasks(facts, groups_of(found))}"
                ),
                slot_field(facts, found[0], "offset"),
                hint="correct the offset: it is in bytes, dims and strides in elements",
                severity=Severity.WARNING if tma else Severity.ERROR,
                related=declared(facts, name),
                tensor=name,
            )


def _by_tma(facts: RankFacts, access: Access) -> bool:
    branch = facts.wiring.branch(access.group.task_type, access.group.variant)
    if branch is None:
        return False
    return access.index in (branch.tma_inputs if access.is_input else branch.tma_outputs)
