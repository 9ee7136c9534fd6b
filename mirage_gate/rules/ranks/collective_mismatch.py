"""MG603: the ranks do not run the same collectives in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import Collective, Summary
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.ranks._shared import first_difference, odd_ones

RULE = Rule(
    "MG603",
    "collective-mismatch",
    Severity.ERROR,
    "The ranks do not run the same collectives in the same order.",
    why="""
        A collective ends when every rank has done its part. A rank that lacks one, or does
        another first, leaves the others waiting, or adds the wrong things.
    """,
    example="Rank 1 has 11 all-reduces, rank 0 has 12: in layer 4 one is missing.",
    fix="Emit all ranks again with one builder.",
    scope="ranks",
)


_Call = tuple[str, int, tuple[str, ...], tuple[str, ...], tuple[object, ...]]


@RULE.checked_by
def collective_mismatch(ranks: Ranks) -> Iterator[Finding]:
    found = odd_ones(ranks, _calls)
    if found is None:
        return
    usual, odd = found
    expected = _calls(usual)
    for summary, calls in odd:
        at = first_difference(calls, expected)
        mine = summary.collectives[at] if at < len(calls) else None
        theirs = usual.collectives[at] if at < len(expected) else None
        there = (theirs.at.saying(f"rank {usual.rank}'s collective {at}"),) if theirs else ()
        last = summary.collectives[-1].at if summary.collectives else summary.start()
        yield RULE.finding(
            summary.rank,
            (
                f"collective {at} of rank {summary.rank} is {_collective(summary, mine)}, of "
                f"rank {usual.rank} {_collective(usual, theirs)} ({len(calls)} collectives on "
                f"rank {summary.rank}, {len(expected)} on rank {usual.rank})"
            ),
            mine.at if mine else last,
            hint="emit all ranks again with one builder",
            related=there,
        )


def _calls(summary: Summary) -> tuple[_Call, ...]:
    return tuple(
        (summary.type_name(c.task_type), c.tasks, c.inputs, c.outputs, c.tiles)
        for c in summary.collectives
    )


def _collective(summary: Summary, call: Collective | None) -> str:
    if call is None:
        return "none"
    where = "" if call.layer is None else f" in layer {call.layer}"
    moved = f"{', '.join(call.inputs)} to {', '.join(call.outputs)}"
    return f"{summary.type_name(call.task_type)} of {moved}{where}, {plural(call.tasks, 'task')}"
