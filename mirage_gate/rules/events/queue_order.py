"""MG408: the workers' queues all wait at their heads for a task that stands behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.queues import MOST_WORKERS, queue_stall
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG408",
    "queue-order",
    Severity.ERROR,
    "The workers' queues all wait at their heads for a task that stands behind them.",
    why="""
        The tasks of an iteration are handed to the workers in order of their ids, and a worker
        takes those of its queue in order. When as many tasks as there are workers wait for one
        with a higher id, that one is never reached: the kernel hangs, although every count is
        right and no event waits for itself.
    """,
    example="""
        The embedding has the last id of the graph: all workers take a task of layer 0 first,
        and wait.
    """,
    fix="Give producers lower ids than their consumers: emit operators in order of the data.",
    limits="""
        The number of workers is not in the files. Without `--workers` the rule speaks where
        even the most that MPK starts (144) would all wait; with more than that it might run.
    """,
)


@RULE.checked_by
def queue_order(facts: RankFacts) -> Iterator[Finding]:
    given = facts.options.workers
    workers = given or MOST_WORKERS
    stall = queue_stall(facts, workers)
    if stall is None:
        return
    tasks = facts.graph.tasks
    kinds = [
        facts.task_type(tasks[number].task_type).name for number in (stall.waiting, stall.missing)
    ]
    up_to = "" if given else "up to "
    yield RULE.finding(
        facts.rank,
        f"{up_to}{workers} workers wait for tasks with higher ids: task {stall.waiting} "
        f"({kinds[0]}) waits for event {stall.event}, which task {stall.missing} ({kinds[1]}) "
        "triggers, and that is behind all of them in the queues",
        facts.in_graph("all_tasks", stall.waiting, "dependent_event"),
        hint=f"give task {stall.missing} an id below those that wait for it",
        related=(
            facts.in_graph(
                "all_tasks",
                stall.missing,
                "trigger_event",
                note=f"task {stall.missing} triggers event {stall.event}",
            ),
        ),
    )
