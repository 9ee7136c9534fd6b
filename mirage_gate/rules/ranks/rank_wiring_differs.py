"""MG601: a tensor is wired on one rank otherwise than on the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import Summary, Tasks, Wired
from mirage_gate.artifacts.cuda import LOADED, SENTINEL
from mirage_gate.artifacts.names import role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.ranks._shared import odd_ones

RULE = Rule(
    "MG601",
    "rank-wiring-differs",
    Severity.ERROR,
    "A tensor is wired on one rank otherwise than on the others.",
    why="""
        The ranks of one run are one program over slices of the weights. A rank that was
        emitted by another version of the builder, or with another option, computes
        something else, and the sum over the ranks is wrong.
    """,
    example="On rank 3 no task reads `rope_cos`; on ranks 0 to 2 it is read by 36.",
    fix="Emit all ranks again with one builder and one set of options.",
    limits="""
        An error for a critical tensor, a warning for others. A residual that the kernel
        reads on the first rank alone is how MPK adds it once, and is not reported.
    """,
    scope="ranks",
)


@RULE.checked_by
def rank_wiring_differs(ranks: Ranks) -> Iterator[Finding]:
    if len(ranks.audited) < 2:
        return
    tensors = {s.rank: {wired.name: wired for wired in s.tensors} for s in ranks.audited}
    names = dict.fromkeys(name for by_name in tensors.values() for name in by_name)
    names.pop(SENTINEL, None)
    alike: dict[tuple[int, int, bool, str, str], list[str]] = defaultdict(list)
    for name in names:
        found = odd_ones(ranks, lambda s, name=name: _wiring(s, tensors[s.rank].get(name)))  # type: ignore[misc]
        if found is None:
            continue
        usual, odd = found
        for summary, _ in odd:
            mine, theirs = tensors[summary.rank].get(name), tensors[usual.rank].get(name)
            critical = any(wired.critical for wired in (mine, theirs) if wired)
            differs = _difference(summary, mine, usual, theirs)
            role = name if critical else role_of(name)
            alike[summary.rank, usual.rank, critical, role, differs].append(name)
    by_rank = {summary.rank: summary for summary in ranks.audited}
    for (rank, other, critical, _, differs), same in alike.items():
        summary, usual = by_rank[rank], by_rank[other]
        first = same[0]
        mine, theirs = tensors[summary.rank].get(first), tensors[usual.rank].get(first)
        more = f" and {len(same) - 1} more of its role" if len(same) > 1 else ""
        yield RULE.finding(
            summary.rank,
            f"on rank {rank}, {first}{more} {differs}",
            summary.declared_at(mine) if mine else summary.start(),
            hint="emit all ranks again with one builder",
            severity=Severity.ERROR if critical else Severity.WARNING,
            related=(usual.declared_at(theirs, f"rank {other}'s {first}"),) if theirs else (),
            tensor=first,
            others=same,
        )


def _tasks(summary: Summary, tasks: Tasks) -> str:
    if not tasks:
        return "no task"
    kinds = ", ".join(f"{count} {summary.type_name(code)}" for code, count in tasks.items())
    return kinds if len(tasks) < 4 else plural(sum(tasks.values()), "task")


def _by_name(summary: Summary, tasks: Tasks) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((summary.type_name(code), count) for code, count in tasks.items()))


def _wiring(summary: Summary, wired: Wired | None) -> tuple[object, ...] | None:
    """What must be equal on all ranks.

    What fills or reads an activation may be compiled out on a rank, as the residual is on all
    but the first: so slots are compared there, and only of what the host loads, tasks that
    really read.
    """
    if wired is None:
        return None
    if wired.critical or wired.kind in LOADED:
        return _by_name(summary, wired.readers), _by_name(summary, wired.writers), wired.layers
    return _by_name(summary, wired.inputs), _by_name(summary, wired.outputs)


def _difference(summary: Summary, mine: Wired | None, usual: Summary, theirs: Wired | None) -> str:
    of = f"on rank {usual.rank}"
    if mine is None:
        return f"is not declared; {of} it is"
    if theirs is None:
        return f"is declared; {of} it is not"
    read, written = (mine.readers, theirs.readers), (mine.writers, theirs.writers)
    if not (mine.critical or mine.kind in LOADED):
        read, written = (mine.inputs, theirs.inputs), (mine.outputs, theirs.outputs)
    for verb, (here, there) in (("is read by", read), ("is written by", written)):
        if _by_name(summary, here) != _by_name(usual, there):
            return f"{verb} {_tasks(summary, here)}, {of} by {_tasks(usual, there)}"
    where = f"in layers {mine.layers}" if mine.layers else "in no layer"
    return f"is read {where}, {of} in layers {theirs.layers or 'none'}"
