"""Processes: one for each rank, or one beside a big rank that asks half of the rules.

Each sends back a small result. A rank of which a process is killed or breaks was not audited,
and the run does not pass.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from mirage_gate.artifacts.pairs import Pair
    from mirage_gate.rank_audit import Job, Outcome


class Broke(msgspec.Struct):
    """Why nothing came of a process."""

    reason: str


class Process(msgspec.Struct, eq=False):
    """Something that goes on in a process of its own."""

    process: BaseProcess
    result: Connection

    def wait(self) -> Any:
        """Give what the process sends, or a :class:`Broke`."""
        try:
            sent = self.result.recv()
        except Exception:  # the pipe ended, or what came cannot be read: all we know is nothing
            sent = None
        self.result.close()
        self.process.join()
        if sent is not None:
            return sent
        code = self.process.exitcode
        killed = code is not None and code < 0
        how = f"was killed by signal {-code}" if killed and code else f"ended with {code}"
        return Broke(f"the process that audited it {how}")

    def stop(self) -> None:
        """End it; what it has done is lost."""
        self.process.terminate()
        self.process.join()
        self.result.close()


def _work(result: Connection, do: Callable[..., object], *arguments: object) -> None:
    try:
        sent = do(*arguments)
    except BaseException as error:  # whatever it is, the parent must hear of it
        sent = Broke(f"the audit broke: {type(error).__name__}: {error}")
    result.send(sent)
    result.close()


def start(do: Callable[..., object], *arguments: object) -> Process:
    """Begin something; its result is sent back, and must be small."""
    context: Any = multiprocessing.get_context("fork" if can_fork() else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, do, *arguments), daemon=True)
    process.start()
    sender.close()
    return Process(process, receiver)


def can_fork() -> bool:
    """Whether a fork, which shares all that is in memory, is safe: with threads about it is not."""
    return sys.platform == "linux" and threading.active_count() == 1


def audit_pairs(
    pairs: Iterable[Pair], job: Job, jobs: int, progress: Callable[[str], None]
) -> list[Outcome]:
    """Audit pairs in up to ``jobs`` processes at a time; the results are in the pairs' order."""
    from mirage_gate.rank_audit import Outcome, audit_pair, not_audited

    pairs = list(pairs)
    outcomes: dict[int, Outcome] = {}
    waiting = list(enumerate(pairs))[::-1]
    running: dict[int, Process] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, pair = waiting.pop()
                running[index] = start(audit_pair, pair, job)
            names = ", ".join(str(pairs[index].rank) for index in running)
            progress(f"auditing rank{'s' * (len(running) > 1)} {names}")
            ready = wait([worker.result for worker in running.values()])
            for index in [index for index, worker in running.items() if worker.result in ready]:
                outcome = running.pop(index).wait()
                if not isinstance(outcome, Outcome):
                    reason = outcome.reason if isinstance(outcome, Broke) else "it gave no result"
                    outcome = not_audited(pairs[index], reason)
                outcomes[index] = outcome
    finally:
        for worker in running.values():
            worker.stop()
    return [outcomes[index] for index in range(len(pairs))]
