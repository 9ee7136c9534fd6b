"""MG604: the files are not those of the ranks that they are named for, or a rank's are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise

from mirage_gate.agreed.joining import Ranks
from mirage_gate.agreed.summary import Summary
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG604",
    "rank-set",
    Severity.ERROR,
    "The files are not those of the ranks that they are named for, or a rank's are missing.",
    why="""
        The gate proves nothing of a rank that is not there. And a rank's files under
        another rank's name make two processes believe they are the same one.
    """,
    example="`kernel_1.cu` and `task_graph_1.json` whose event ids carry rank 0.",
    fix="""
        Put every rank's own files into the folder. Ranks emitted on different hosts are
        audited there with `-o summary=FILE` and joined with `mirage-gate merge`.
    """,
    limits="""
        Fewer ranks than the kernel has are a note where they can be one host's share: a
        whole block, such as 0 to 3 or 4 to 7 of 8. `--ranks` says on purpose which ones.
        `merge` brings all of them together: there a missing one is an error, unless
        `--partial` says that more are to come.
    """,
    scope="ranks",
)


@RULE.checked_by
def rank_set(ranks: Ranks) -> Iterator[Finding]:
    for summary in ranks.audited:
        yield from _misnamed(summary)
    times = Counter(summary.rank for summary in ranks.summaries)
    for summary in ranks.summaries:
        if times[summary.rank] > 1 and summary.named:
            times[summary.rank] = 0
            yield RULE.finding(
                summary.rank,
                f"rank {summary.rank} is there more than once",
                summary.start(),
                hint="give each rank's files or summary once",
            )
    sizes = {summary.world_size: summary for summary in ranks.audited if summary.world_size}
    if len(sizes) > 1:
        small, big = min(sizes), max(sizes)
        yield RULE.finding(
            sizes[small].rank,
            (
                f"rank {sizes[small].rank} was made for {plural(small, 'rank')}, "
                f"rank {sizes[big].rank} for {big}"
            ),
            sizes[small].start(),
            hint="emit all ranks again, together",
            related=(sizes[big].start(f"rank {sizes[big].rank} was made for {big} ranks"),),
        )
    named = ranks.summaries and all(summary.named for summary in ranks.summaries)
    if named and not ranks.chosen:
        yield from _missing(ranks)


def _gaps(numbers: Collection[int], low: int, high: int) -> list[range]:
    """Give what lies from ``low`` to ``high`` and is not there: a kernel may say any number."""
    ends = [low - 1, *sorted(number for number in numbers if low <= number < high), high]
    return [range(a + 1, b) for a, b in pairwise(ends) if a + 1 < b]


def _misnamed(summary: Summary) -> Iterator[Finding]:
    if not summary.named or summary.gpu is None or summary.gpu_at is None:
        return
    world = summary.world_size
    if summary.gpu != summary.rank:
        yield RULE.finding(
            summary.rank,
            (
                f"the files are named for rank {summary.rank}, and their event ids are those "
                f"of rank {summary.gpu}"
            ),
            summary.gpu_at,
            hint=f"put rank {summary.rank}'s own files there",
            related=(summary.start("the CUDA file beside it"),),
        )
    elif world is not None and summary.rank >= world:
        yield RULE.finding(
            summary.rank,
            f"there is no rank {summary.rank}: the kernel was made for {plural(world, 'rank')}",
            summary.start(),
            hint="emit all ranks again, together",
        )


def _missing(ranks: Ranks) -> Iterator[Finding]:
    numbers = {summary.rank for summary in ranks.summaries}
    first, last, count, world = min(numbers), max(numbers), len(numbers), ranks.world_size
    if last + 1 - first > count:
        severity, missing = Severity.ERROR, _gaps(numbers, first, last + 1)
        of = f"ranks {first} to {last}"
    elif world is not None and count < world:
        # One host's share: as many ranks on each host, in one block.
        share = world % count == 0 and first % count == 0 and not ranks.joined
        severity = Severity.NOTE if share else Severity.ERROR
        missing = _gaps(numbers, 0, world)
        of = str(world)
    else:
        return
    listed = ", ".join(f"{gap[0]}-{gap[-1]}" if len(gap) > 1 else str(gap[0]) for gap in missing)
    at = ranks.audited[0] if ranks.audited else ranks.summaries[0]
    few = len(missing) == 1 and len(missing[0]) == 1
    yield RULE.finding(
        at.rank,
        (
            f"rank{'s' * (not few)} {listed} of {of} {'is' if few else 'are'} not here: "
            f"nothing was proven of {'it' if few else 'them'}"
        ),
        at.start(),
        hint="audit every rank, or join the hosts' summaries with `mirage-gate merge`",
        severity=severity,
    )
