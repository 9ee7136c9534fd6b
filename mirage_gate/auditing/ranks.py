"""The audit of all ranks: each on its own, then compared, then held to what was agreed.

One rank is :mod:`mirage_gate.auditing.rank`; each in a process of its own is
:mod:`mirage_gate.auditing.workers`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

import msgspec

from mirage_gate import steps
from mirage_gate.agreed import waivers
from mirage_gate.agreed.joining import Ranks, runs
from mirage_gate.agreed.memory import Memory, Run
from mirage_gate.agreed.summary import Summary
from mirage_gate.artifacts.pairs import Pair
from mirage_gate.auditing.asking import ask
from mirage_gate.auditing.rank import Job, Outcome, audit_halves, audit_pair, not_audited
from mirage_gate.auditing.reading import Half
from mirage_gate.auditing.selection import Selection
from mirage_gate.facts import Options
from mirage_gate.findings import Finding, in_order
from mirage_gate.report import Compared, Meant, RankReport, Report
from mirage_gate.rules.base import Scope

BIG = 32 << 20
"""Below so many bytes of graphs, starting processes costs more than it saves."""


def default_jobs(pairs: Sequence[Pair]) -> int:
    """Give one process per rank, as far as there are processors, where the files are big.

    A big rank alone gets two.
    """
    size = 0
    for pair in pairs:
        try:
            size += os.stat(pair.graph).st_size if pair.graph else 0  # noqa: PTH116 - pathlib is slow to load
        except OSError:
            continue
    return min(max(len(pairs), 2), _processors()) if size >= BIG else 1


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check(
    pairs: Iterable[Pair],
    options: Options | None = None,
    selection: Selection | None = None,
    watch: steps.Watch | None = None,
    *,
    memory: Memory | None = None,
    jobs: int = 1,
    summarize: bool = False,
    by_layer: bool = True,
    chosen: bool = False,
) -> Report:
    """Audit pairs of files on disk.

    ``watch`` hears of each :class:`steps.Step`. ``memory`` is what earlier
    runs and people left: a lock, waivers, a baseline. With ``jobs`` above 1, ranks are audited
    in that many processes, and one big rank in two. ``summarize`` fills ``Report.summaries``
    for a single rank too; ``by_layer`` fills what only drawings show, ``Coverage.layers`` and
    ``RankReport.plan``. ``chosen`` says that the user asked for these ranks and no others. Never
    raises for what the files contain: a rank that cannot be audited says so in its
    :class:`RankReport`.
    """
    started = time.perf_counter()
    pairs, memory = list(pairs), memory or Memory()
    selection = selection or Selection()
    whole = summarize or len(pairs) > 1 or memory.lock is not None
    job = Job(options or Options(), selection, whole, by_layer, jobs > 1 and len(pairs) == 1)
    with steps.watching(watch):
        if jobs > 1 and len(pairs) > 1:
            outcomes = _in_processes(pairs, job, jobs)
        else:
            outcomes = [audit_pair(pair, job) for pair in pairs]
        report = conclude(
            [outcome.report for outcome in outcomes],
            [outcome.summary for outcome in outcomes],
            selection,
            memory,
            chosen=chosen,
        )
    return msgspec.structs.replace(
        report, meant=_meant(job.options), seconds=time.perf_counter() - started
    )


def _meant(options: Options) -> Meant:
    """Say what the model was held to."""
    model, checkpoint = options.model, options.checkpoint
    return Meant(
        config=model.path if model else "",
        name=(model.architecture or model.model_type) if model else "",
        unread=model.unread if model else (),
        checkpoint=checkpoint.path if checkpoint else "",
        weights=len(checkpoint.weights) if checkpoint else 0,
    )


def _in_processes(pairs: Sequence[Pair], job: Job, jobs: int) -> list[Outcome]:
    """Audit pairs in up to ``jobs`` processes at a time; the results are in the pairs' order."""
    from mirage_gate.auditing import workers

    outcomes = []
    results = workers.each(audit_pair, [(pair, job) for pair in pairs], jobs)
    for pair, result in zip(pairs, results, strict=True):
        if not isinstance(result, Outcome):
            reason = result.reason if isinstance(result, workers.Broke) else "it gave no result"
            result = not_audited(pair, reason)
        outcomes.append(result)
    return outcomes


def audit(
    cuda_code: str | bytes,
    task_graph: str | bytes,
    *,
    rank: int = 0,
    options: Options | None = None,
    selection: Selection | None = None,
    cuda_path: str = "",
    graph_path: str = "",
    memory: Memory | None = None,
    by_layer: bool = True,
) -> Report:
    """Audit one rank's two texts, before they are files: for a builder to call.

    The paths are only shown, never opened; their defaults are the demos' names for the rank.
    ``by_layer`` is as for :func:`check`.
    """
    started = time.perf_counter()
    cuda_half = Half(cuda_path or f"kernel_{rank}.cu", _as_bytes(cuda_code))
    graph_half = Half(graph_path or f"task_graph_{rank}.json", _as_bytes(task_graph))
    selection, memory = selection or Selection(), memory or Memory()
    whole = memory.lock is not None
    job = Job(options or Options(), selection, summarize=whole, by_layer=by_layer)
    outcome = audit_halves(rank, cuda_half, graph_half, job)
    report = conclude([outcome.report], [outcome.summary], selection, memory)
    return msgspec.structs.replace(
        report, meant=_meant(job.options), seconds=time.perf_counter() - started
    )


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", errors="replace") if isinstance(text, str) else text


class _Broken(Exception):
    """A rule of the gate itself broke: what it was to prove is not proven."""


def conclude(
    ranks: Sequence[RankReport],
    summaries: Sequence[Summary],
    selection: Selection,
    memory: Memory,
    *,
    chosen: bool = False,
    one_run: bool = False,
    partial: bool = False,
) -> Report:
    """Make the report of a run from what is known of each rank.

    ``chosen`` says that the user asked for these ranks and no others; ``one_run`` that all of
    them are of one, whatever folders they came from, and that none may be missing unless
    ``partial``. Everything here looks at summaries. That
    is why ``merge``, which has nothing else, finds what one run over all ranks finds.
    """
    findings = [finding for summary in summaries for finding in summary.findings]
    groups = []
    if one_run:
        groups = [Ranks(tuple(sorted(summaries, key=lambda s: s.rank)), chosen, joined=not partial)]
    groups = groups or runs(summaries, chosen)
    known: list[Finding] = []
    waived: list[Finding] = []
    try:
        for group in groups:
            findings += _ask("ranks", group, selection)
        findings += _ask("memory", Run(tuple(summaries), memory), selection)
        findings, waived, stale = waivers.apply(findings, memory.waivers, memory.today)
        if all(rank.audited for rank in ranks) and not chosen:
            # A finding of a rank or a rule that was left out is not missed.
            stale = [one for one in stale if one.expired or selection.wants(one.waiver.rule)]
        else:
            stale = [one for one in stale if one.expired]
        findings += _ask("memory", Run((), memory, tuple(stale)), selection)
        if memory.baseline is not None:
            findings, known = memory.baseline.new(in_order(findings))
    except _Broken as broken:
        ranks = [
            msgspec.structs.replace(rank, audited=False, failure=rank.failure or str(broken))
            for rank in ranks
        ]
    return Report(
        ranks=tuple(ranks),
        findings=in_order(findings),
        waived=len(waived),
        known=len(known),
        summaries=tuple(summaries),
        hidden=in_order([*waived, *known]),
        compared=tuple(_compared(group) for group in groups),
        selected=selection.select,
        ignored=selection.ignore,
    )


def _compared(group: Ranks) -> Compared:
    folders = dict.fromkeys(summary.family[0] for summary in group.summaries)
    return Compared(tuple(summary.rank for summary in group.summaries), tuple(folders))


def _ask(scope: Scope, subject: object, selection: Selection) -> list[Finding]:
    found, failure = ask(scope, subject, selection)
    if failure:
        raise _Broken(failure)
    return found
