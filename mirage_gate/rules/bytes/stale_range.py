"""MG210: a kernel leaves out bytes of a buffer that it fills elsewhere, and they are read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import outdated
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
    repeats=True,
)


@RULE.checked_by
def stale_range(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration, accesses in touched_tensors(facts):
        fuller = _fuller_runs(facts, name, accesses) if declaration.kind in BUFFERS else {}
        if not fuller or not all(a.slot.exact for a in accesses):
            continue
        regions = facts.regions.of(name)
        for readers, writer, other, old in _stale(facts, name, accesses, fuller):
            numbers = facts.layers.operator_numbers
            operators = {numbers[access.group.number] for access in readers}
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
                follows=[outdated(name, n, old) for n in operators if len(operators) == 1],
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
    if not fuller:
        return
    numbers, regions = facts.layers.operator_numbers, facts.regions.of(name)
    runs: dict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        runs[numbers[access.group.number]].append(access)
    filled = {
        culprit: regions.union(a.tensor for a in runs[culprit] if a.writes) for culprit in fuller
    }
    consumed = 0
    reads: list[int] = []  # of every operator so far
    writes: list[int] = []
    left_out: dict[int, tuple[int, int]] = {}  # by operator: when it ran, and what it left out
    missing = 0  # what of all that has not been written since
    stale: dict[int, tuple[list[Access], int]] = {}  # by operator, who reads it and what
    unread: set[int] = set()  # of those, whose own bytes nobody has read
    for operator in (*sorted(runs), *sorted(runs)):
        reading = [a for a in runs[operator] if a.reads and not a.slot.accumulates]
        read = regions.union(a.tensor for a in reading)
        known = {culprit for culprit in unread if read & filled[culprit]}
        if read & missing:
            missing = 0
            for culprit, left in _still_left(left_out, writes):
                if not read & left:
                    missing |= left
                    continue
                readers = [a for a in reading if regions.mask(a.tensor) & left]
                stale[culprit] = (readers, read & left)
                since, _ = left_out.pop(culprit)
                own = filled[culprit]
                (known if any(own & r for r in (*reads[since:], read)) else unread).add(culprit)
        for culprit in sorted(known):
            readers, old = stale[culprit]
            writer = next(a for a in runs[culprit] if a.writes)
            yield readers, writer, fuller[culprit][0], old
        unread -= known
        written = regions.union(a.tensor for a in runs[operator] if a.writes)
        consumed = (consumed | read) & ~written
        missing &= ~written
        reads.append(read)
        writes.append(written)
        if operator in fuller and operator not in stale:
            left = fuller[operator][1] & consumed
            left_out[operator] = (len(writes), left)
            missing |= left


def _still_left(left_out: dict[int, tuple[int, int]], writes: list[int]) -> list[tuple[int, int]]:
    """Give what of each that was left out nobody has written since."""
    found = []
    written, at = 0, len(writes)
    for culprit, (since, left) in sorted(left_out.items(), key=lambda item: -item[1][0]):
        while at > since:
            at -= 1
            written |= writes[at]
        found.append((culprit, left & ~written))
    return found
