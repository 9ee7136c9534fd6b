"""MG210: a kernel leaves out bytes of a buffer that it fills elsewhere, and they are read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, size, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG210",
    "stale-range",
    Severity.WARNING,
    "A kernel leaves out bytes of a buffer that it fills elsewhere, and they are read again.",
    why="""
        A scratch buffer serves layer after layer: it is filled, read, and filled again. Where
        an operator has lost a tile, every byte is still written by somebody and read by
        somebody; but what reads it gets some rows of the layer before.
    """,
    example="""
        Of 8 tasks that normalise a row of `rmsnorm_out` each, one is gone: the projection
        reads seven new rows, and one that has been read already.
    """,
    fix="Give the operator as many tiles as it has where it fills all that is read.",
    limits="""
        Only where another run of the same kernel fills the same buffer further. Buffers that
        are also accessed with rows picked at run time, or from other ranks, are left out.
    """,
)


@RULE.checked_by
def stale_range(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration, accesses in touched_tensors(facts):
        fuller = _fuller_runs(facts, name, accesses) if declaration.kind in BUFFERS else {}
        if not fuller or not all(a.slot.exact for a in accesses):
            continue
        regions = facts.regions.of(name)
        for readers, writer, other, old in _stale(facts, name, accesses, fuller):
            yield RULE.finding(
                facts.rank,
                (
                    f"{regions.text(old)} of {name}{size(declaration)} are read by "
                    f"{tasks(facts, groups_of(readers))} as they were read before: the operator "
                    "that filled the rest since leaves them out, and elsewhere its kernel does not"
                ),
                slot_field(facts, writer, "offset"),
                hint=f"give the operator as many tiles of {name} as it has elsewhere",
                related=(
                    *declared(facts, name),
                    slot_field(facts, readers[0], "offset", "read here"),
                    slot_field(facts, other, "offset", "the same kernel fills them here"),
                ),
                tensor=name,
            )


def _fuller_runs(
    facts: RankFacts, name: str, accesses: list[Access]
) -> dict[int, tuple[Access, int]]:
    """Give the operators that leave out what another run of their kernel fills as well.

    Operator to (one write of the other run, what is left out). Whoever updates in place what
    it reads leaves nothing stale.
    """
    numbers, regions = facts.layers.operator_numbers, facts.regions.of(name)
    kernels: dict[object, dict[int, list[Access]]] = {}
    updating = {access.group.number for access in accesses if access.reads}
    for access in accesses:
        group = access.group
        if access.writes and group.number not in updating:
            slot = (group.task_type, group.variant, access.is_input, access.index)
            kernels.setdefault(slot, {}).setdefault(numbers[group.number], []).append(access)
    fuller: dict[int, tuple[Access, int]] = {}
    for runs in kernels.values():
        filled = {run: regions.union(a.tensor for a in own) for run, own in runs.items()}
        masks = sorted(set(filled.values()), key=int.bit_count, reverse=True)
        first = {mask: own for own, mask in reversed(filled.items())}
        for run, mask in filled.items() if len(masks) > 1 else ():
            # The fullest of those that fill all that this one fills.
            full = next(m for m in masks if m & mask == mask)
            if full != mask:
                left = full & ~mask
                writes = runs[first[full]]
                fuller[run] = (next(a for a in writes if regions.mask(a.tensor) & left), left)
    return fuller


def _stale(
    facts: RankFacts, name: str, accesses: list[Access], fuller: dict[int, tuple[Access, int]]
) -> Iterator[tuple[list[Access], Access, Access, int]]:
    """Give (readers, a writer before them, a write of its kernel's other run, stale bytes).

    Stale is what was left out, and was read since it was last written; where nobody reads
    what was filled, nothing is. The second round is the second iteration: what comes first in
    it comes after all others.
    """
    numbers, regions = facts.layers.operator_numbers, facts.regions.of(name)
    runs: dict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        runs[numbers[access.group.number]].append(access)
    consumed = 0
    left_out: dict[int, int] = {}  # by operator, not written since it ran
    stale: dict[int, tuple[list[Access], int]] = {}  # by operator, who reads it and what
    fresh: set[int] = set()  # operators of which what they filled has been read
    told: set[int] = set()
    written_by = {
        culprit: regions.union(a.tensor for a in runs[culprit] if a.writes) for culprit in fuller
    }
    for operator in (*sorted(runs), *sorted(runs)):
        reads = [a for a in runs[operator] if a.reads and not a.slot.accumulates]
        read = regions.union(a.tensor for a in reads)
        for culprit, left in left_out.items() if read else ():
            if read & written_by[culprit]:
                fresh.add(culprit)
            if read & left and culprit not in stale:
                readers = [a for a in reads if regions.mask(a.tensor) & left]
                stale[culprit] = (readers, read & left)
            if culprit in stale and culprit in fresh:
                told.add(culprit)
                readers, old = stale[culprit]
                writer = next(a for a in runs[culprit] if a.writes)
                yield readers, writer, fuller[culprit][0], old
        consumed |= read
        written = regions.union(a.tensor for a in runs[operator] if a.writes)
        kept = {culprit: mask & ~written for culprit, mask in left_out.items()}
        # Nothing more comes of one that is told of, or of which all has been written.
        left_out = {c: mask for c, mask in kept.items() if c not in told and (mask or c in stale)}
        consumed &= ~written
        if operator in fuller and operator not in told:
            left_out[operator] = fuller[operator][1] & consumed
            fresh.discard(operator)
