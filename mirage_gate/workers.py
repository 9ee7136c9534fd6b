"""One process per rank: each audits its pair and sends back a small result.

A rank whose process is killed or breaks was not audited, and the run does not pass.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from mirage_gate.artifacts.pairs import Pair
from mirage_gate.rank_audit import Job, Outcome, audit_pair, not_audited


class _Worker(msgspec.Struct, eq=False):
    index: int
    process: BaseProcess
    result: Connection


def _work(pair: Pair, job: Job, result: Connection) -> None:
    try:
        outcome: Outcome | str = audit_pair(pair, job)
    except BaseException as error:  # whatever it is, the parent must hear of it
        outcome = f"the audit broke: {type(error).__name__}: {error}"
    result.send(outcome)
    result.close()


def audit_pairs(
    pairs: Iterable[Pair], job: Job, jobs: int, progress: Callable[[str], None]
) -> list[Outcome]:
    """Audit pairs in up to ``jobs`` processes at a time; the results are in the pairs' order."""
    # A fork shares what is already imported; with threads about it is not safe.
    fork = sys.platform == "linux" and threading.active_count() == 1
    context: Any = multiprocessing.get_context("fork" if fork else "spawn")
    pairs = list(pairs)
    outcomes: dict[int, Outcome] = {}
    waiting = list(enumerate(pairs))[::-1]
    running: list[_Worker] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, pair = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(pair, job, sender), daemon=True)
                process.start()
                sender.close()
                running.append(_Worker(index, process, receiver))
            names = ", ".join(str(pairs[worker.index].rank) for worker in running)
            progress(f"auditing rank{'s' * (len(running) > 1)} {names}")
            ready = wait([worker.result for worker in running])
            for worker in [worker for worker in running if worker.result in ready]:
                running.remove(worker)
                outcomes[worker.index] = _collect(worker, pairs[worker.index])
    finally:
        for worker in running:
            worker.process.terminate()
            worker.process.join()
            worker.result.close()
    return [outcomes[index] for index in range(len(pairs))]


def _collect(worker: _Worker, pair: Pair) -> Outcome:
    try:
        outcome = worker.result.recv()
    except Exception:  # the pipe ended, or what came cannot be read: all we know is nothing
        outcome = None
    worker.result.close()
    worker.process.join()
    if isinstance(outcome, Outcome):
        return outcome
    if isinstance(outcome, str):
        return not_audited(pair, outcome)
    code = worker.process.exitcode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with {code}"
    return not_audited(pair, f"the process that audited it {how}")
