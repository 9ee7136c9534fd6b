"""MG609: a residual enters a sum over the ranks on more than one rank, or on none."""

from __future__ import annotations

from collections.abc import Iterator

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import Residual, Summary
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import in_layers, plural
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG609",
    "counted-per-rank",
    Severity.ERROR,
    "A residual enters a sum over the ranks on more than one rank, or on none.",
    why="""
        What every rank has alike must be added to a sum over the ranks by one of them. Added by
        each, the residual stream counts once per rank, and grows with every layer; added by
        none, the layers forget what came before.
    """,
    example="Rank 1's body of the residual linear names input 2, as rank 0's does.",
    fix="Compile the residual out on all ranks but one, or ask for `my_gpu_id == 0`.",
    limits="""
        A residual that is itself a part of a sum is right on every rank; one of which that is
        not known is not judged. A body that asks for `my_gpu_id` is taken to add on rank 0. That
        no rank adds it shows only where all of them are here.
    """,
    scope="ranks",
)

_Added = list[tuple[Summary, Residual]]


@RULE.checked_by
def counted_per_rank(ranks: Ranks) -> Iterator[Finding]:
    rows: dict[str, _Added] = {}
    for summary in ranks.audited:
        for residual in summary.residuals:
            rows.setdefault(residual.weight, []).append((summary, residual))
    again: dict[tuple[int, int, int], _Added] = {}
    never: dict[tuple[int, int], _Added] = {}
    firsts: dict[str, tuple[Summary, Residual]] = {}
    for weight, row in rows.items():
        adding = [one for one in row if _adds(*one)]
        counted = [one for one in adding if one[1].whole and one[1].summed]
        if len(counted) > 1 and len(counted) == len(adding):
            firsts[weight] = counted[0]
            for summary, residual in counted[1:]:
                key = summary.rank, residual.task_type, residual.body.line
                again.setdefault(key, []).append((summary, residual))
        elif not adding and ranks.complete and len(row) == len(ranks.audited) > 1:
            residual = row[0][1]
            never.setdefault((residual.task_type, residual.body.line), []).append(row[0])
    for found in again.values():
        summary, residual = found[0]
        first, theirs = firsts[residual.weight]
        yield RULE.finding(
            summary.rank,
            (
                f"rank {summary.rank} adds {residual.tensor} to what "
                f"{summary.type_name(residual.task_type)} makes with {residual.weight}, and so "
                f"does rank {first.rank}: the sum over the ranks has it more than once"
                f"{_where(found)}"
            ),
            residual.body,
            hint="compile the residual out on all ranks but one",
            related=(
                theirs.body.saying(f"rank {first.rank}'s body"),
                residual.at.saying("the residual"),
            ),
            tensor=residual.tensor,
        )
    for found in never.values():
        summary, residual = found[0]
        yield RULE.finding(
            summary.rank,
            (
                f"no rank adds {residual.tensor} to what {summary.type_name(residual.task_type)} "
                f"makes with {residual.weight}{_where(found)}"
            ),
            residual.body,
            hint="let one rank add the residual",
            related=(residual.at.saying("the residual"),),
            tensor=residual.tensor,
        )


def _adds(summary: Summary, residual: Residual) -> bool:
    return residual.reads and (not residual.guarded or summary.rank == 0)


def _where(found: _Added) -> str:
    layers = {residual.layer for _, residual in found if residual.layer is not None}
    if len(found) == 1:
        return ""
    return f" (so in {plural(len(found), 'operator')} of {in_layers(layers)})" if layers else ""
