"""MG407: there are more tasks than the workers' queues can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.events import LAUNCH
from mirage_gate.facts.queues import MOST_WORKERS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG407",
    "queue-overflow",
    Severity.WARNING,
    "There are more tasks than the workers' queues can hold.",
    why="""
        All tasks of an iteration are put into the workers' queues at its start, 8,192
        entries each, round robin. A scheduler does not wait for room: what does not fit
        overwrites tasks that were not taken yet. The check is an assert, compiled out in
        the default build.
    """,
    example="A graph of 1.2 million tasks on 144 workers, with `--workers 144` given.",
    fix="""
        Fewer, larger tasks (wider tiles, fewer prefill chunks in one graph), or a longer
        queue in `persistent_kernel.cuh`.
    """,
    limits="""
        The number of workers is not in the files. Without `--workers` the rule speaks only
        when the tasks do not fit on the largest GPU that MPK knows (144 workers).
    """,
)


QUEUE_LENGTH = 8192
"""Entries of a worker's queue (``per_worker_queue_len`` in ``persistent_kernel.cuh``)."""


@RULE.checked_by
def queue_overflow(facts: RankFacts) -> Iterator[Finding]:
    tasks = len(facts.graph.tasks) - 2
    given = facts.options.workers
    workers = given or MOST_WORKERS
    most = -(-tasks // workers)
    if most <= QUEUE_LENGTH or len(facts.graph.events) <= LAUNCH:
        return
    needed = -(-tasks // QUEUE_LENGTH)
    yield RULE.finding(
        facts.rank,
        (
            f"{tasks:,} tasks are launched at once, {most:,} for each of {workers} workers"
            f"{'' if given else ' (the most that MPK starts)'}, and a worker's queue holds "
            f"{QUEUE_LENGTH:,}"
        ),
        facts.in_graph("all_events", LAUNCH, "last_task_id"),
        hint=f"it takes {needed:,} workers, or larger tasks",
        severity=Severity.ERROR if given else Severity.WARNING,
    )
