"""MG602: the ranks do not allocate the same symmetric memory in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import Summary
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule
from mirage_gate.rules.ranks._shared import first_difference, odd_ones

RULE = Rule(
    "MG602",
    "symmetric-memory-differs",
    Severity.ERROR,
    "The ranks do not allocate the same symmetric memory in the same order.",
    why="""
        `nvshmem_malloc` is a collective: all ranks must call it in the same order with the
        same size. Otherwise the call hangs, or an address means another buffer on each
        rank, and what one rank puts lands in the wrong place on the other.
    """,
    example="Rank 1 allocates 8192 bytes for `all_reduce_buf`, rank 0 allocates 4096.",
    fix="Emit all ranks again with one builder and one set of sizes.",
    scope="ranks",
)


@RULE.checked_by
def symmetric_memory_differs(ranks: Ranks) -> Iterator[Finding]:
    found = odd_ones(ranks, _symmetric)
    if found is None:
        return
    usual, odd = found
    expected = _symmetric(usual)
    for summary, buffers in odd:
        at = first_difference(buffers, expected)
        mine = buffers[at] if at < len(buffers) else None
        theirs = expected[at] if at < len(expected) else None
        name = (mine or theirs or ("", 0))[0]
        here = summary.tensor(mine[0]) if mine else None
        there = usual.tensor(theirs[0]) if theirs else None
        yield RULE.finding(
            summary.rank,
            (
                f"symmetric allocation {at} of rank {summary.rank} is {_buffer(mine)}, of rank "
                f"{usual.rank} {_buffer(theirs)}"
            ),
            summary.declared_at(here) if here else summary.start(),
            hint="emit all ranks again with one builder and one set of sizes",
            related=(usual.declared_at(there, f"rank {usual.rank}'s"),) if there else (),
            tensor=name,
        )


def _symmetric(summary: Summary) -> tuple[tuple[str, int | None], ...]:
    return tuple((w.name, w.nbytes) for w in summary.tensors if w.kind == "symmetric")


def _buffer(buffer: tuple[str, int | None] | None) -> str:
    if buffer is None:
        return "none"
    name, nbytes = buffer
    return name if nbytes is None else f"{name} ({nbytes} bytes)"
