"""The engine: audit the ranks, each on its own, then compare them.

One rank is :mod:`mirage_gate.rank_audit`, each in a process of its own
:mod:`mirage_gate.workers`, all of them together :mod:`mirage_gate.across`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mirage_gate.across import conclude
from mirage_gate.artifacts.pairs import Pair
from mirage_gate.facts import Options
from mirage_gate.memory import Memory
from mirage_gate.rank_audit import Half, Job, audit_halves, audit_pair
from mirage_gate.report import Report
from mirage_gate.selection import Selection

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
    progress: Callable[[str], None] = lambda _: None,
    *,
    memory: Memory | None = None,
    jobs: int = 1,
    summarize: bool = False,
    by_layer: bool = True,
    chosen: bool = False,
) -> Report:
    """Audit pairs of files on disk.

    ``progress`` is called with a short text before each rank. ``memory`` is what earlier
    runs and people left: a lock, waivers, a baseline. With ``jobs`` above 1, ranks are audited
    in that many processes, and one big rank in two. ``summarize`` fills ``Report.summaries``
    for a single rank too; ``by_layer`` fills ``Coverage.layers``. ``chosen`` says that the user
    asked for these ranks and no others. Never raises for what the files contain: a rank that
    cannot be audited says so in its :class:`RankReport`.
    """
    started = time.perf_counter()
    pairs, memory = list(pairs), memory or Memory()
    selection = selection or Selection()
    whole = summarize or len(pairs) > 1 or memory.lock is not None
    job = Job(options or Options(), selection, whole, by_layer, jobs > 1 and len(pairs) == 1)
    if jobs > 1 and len(pairs) > 1:
        from mirage_gate.workers import audit_pairs

        outcomes = audit_pairs(pairs, job, jobs, progress)
    else:
        outcomes = []
        for pair in pairs:
            progress(f"auditing rank {pair.rank}")
            outcomes.append(audit_pair(pair, job))
    report = conclude(
        [outcome.report for outcome in outcomes],
        [outcome.summary for outcome in outcomes],
        selection,
        memory,
        chosen=chosen,
    )
    return msgspec.structs.replace(report, seconds=time.perf_counter() - started)


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
) -> Report:
    """Audit one rank's two texts, before they are files: for a builder to call.

    The paths are only shown, never opened; their defaults are the demos' names for the rank.
    """
    started = time.perf_counter()
    cuda_half = Half(cuda_path or f"kernel_{rank}.cu", _as_bytes(cuda_code))
    graph_half = Half(graph_path or f"task_graph_{rank}.json", _as_bytes(task_graph))
    selection, memory = selection or Selection(), memory or Memory()
    job = Job(options or Options(), selection, summarize=memory.lock is not None)
    outcome = audit_halves(rank, cuda_half, graph_half, job)
    report = conclude([outcome.report], [outcome.summary], selection, memory)
    return msgspec.structs.replace(report, seconds=time.perf_counter() - started)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", errors="replace") if isinstance(text, str) else text
