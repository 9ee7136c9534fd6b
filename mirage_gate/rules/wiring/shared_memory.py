"""MG114: two buffers lie in one piece of memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import Declaration
from mirage_gate.facts.regions import extent_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import slot_field
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

RULE = Rule(
    "MG114",
    "shared-memory",
    Severity.ERROR,
    "Two buffers lie in one piece of memory.",
    why="""
        Each buffer has its own name in the graph, and every order between tasks goes by names.
        Two names in one allocation overwrite each other, and no event keeps them apart. It is
        an error where an operator writes the one while the other still holds what somebody
        reads, else a warning.
    """,
    example='`all_tensors["silu_mul_out"] = mlp_mid;`',
    fix="Give each buffer an allocation of its own.",
    limits="""
        Two buffers in parts of one allocation that no task of the other touches are right.
        Operators are taken in the order of their tasks.
    """,
)

_MOST = 64
"""So many names of one allocation are held to each other."""


@RULE.checked_by
def shared_memory(facts: RankFacts) -> Iterator[Finding]:
    sharing: dict[str, list[Declaration]] = {}
    for d in facts.declared.values():
        if d.memory.startswith("@"):
            sharing.setdefault(d.memory, []).append(d)
    for entered in sharing.values():
        found = [d for d in entered if len(entered) > 1 and facts.wiring.real(d.name)]
        told: set[str] = set()
        for one, other in combinations(found[:_MOST], 2):
            if other.name in told or not _overlap(facts, one, other):
                continue
            told.add(other.name)
            clash = _clash(facts, one.name, other.name) or _clash(facts, other.name, one.name)
            access = facts.wiring.real(other.name)[0]
            where = f" ({_what(clash)})" if clash else ""
            yield RULE.finding(
                facts.rank,
                f"{other.name} lies in the memory of {one.name}{where}",
                other.location,
                hint=f"give {other.name} an allocation of its own",
                severity=Severity.ERROR if clash else Severity.WARNING,
                related=(
                    one.location.saying(f"{one.name} is entered here"),
                    *((one.allocation.saying("allocated here"),) if one.allocation else ()),
                    slot_field(facts, access, "base_ptr", f"{other.name} is touched here"),
                ),
                tensor=other.name,
            )


def _overlap(facts: RankFacts, one: Declaration, other: Declaration) -> bool:
    """Whether the tiles of two tensors of one allocation can meet."""
    if one.shift is None or other.shift is None:
        return True
    first, second = sorted((one, other), key=lambda d: d.shift or 0)
    return (first.shift or 0) + _extent(facts, first) > (second.shift or 0)


def _extent(facts: RankFacts, d: Declaration) -> int:
    """One past the last byte of a tensor that a task touches."""
    tensors = facts.graph.tensors
    ends = [extent_of(tensors[access.tensor]) for access in facts.wiring.real(d.name)]
    return max((end if end is not None else d.nbytes or 0 for end in ends), default=0)


_Clash = tuple["Operator", str, str]


def _clash(facts: RankFacts, one: str, other: str) -> _Clash | None:
    """Find an operator that writes ``other`` while ``one`` holds what is still to be read."""
    values = facts.values
    last: dict[int, int] = {}
    for use in values.of(one).uses:
        for value, _ in use.seen:
            number = value.operator.number
            last[number] = max(last.get(number, number), use.operator.number)
    writers = sorted({value.operator.number for value in values.of(other).values})
    if not facts.wiring.producers(one):  # what the host has filled is wanted for good
        reads = [use.operator.number for use in values.of(one).uses if use.before]
        last = {-1: max(reads)} if reads else {}
    operators = facts.layers.operators
    for made, read in last.items():
        for number in writers[bisect_left(writers, made) :]:
            if number > read:
                break
            if (made < number < read) or not _in_place(facts, operators[number], one, other):
                return operators[number], other, one
    return None


def _in_place(facts: RankFacts, operator: Operator, one: str, other: str) -> bool:
    """Whether an operator's tasks each touch the same bytes of both tensors."""
    tensors = facts.graph.tensors
    for group in operator.groups:
        tiles: dict[str, set[object]] = {one: set(), other: set()}
        for number in group.inputs + group.outputs:
            tile = tensors[number]
            if tile.base_ptr in tiles:
                tiles[tile.base_ptr].add((tile.offset, tile.dims, tile.strides))
        if tiles[one] and tiles[other] and tiles[one] != tiles[other]:
            return False
    return True


def _what(clash: _Clash) -> str:
    operator, written, kept = clash
    return f"task {operator.first} writes {written} while what is in {kept} is still to be read"
