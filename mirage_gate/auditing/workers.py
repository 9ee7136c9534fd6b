"""Processes: one for each rank, or one beside a big rank that asks half of the rules.

Each sends back a small result. A rank of which a process is killed or breaks was not audited,
and the run does not pass.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec


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


def each(
    do: Callable[..., object],
    arguments: Sequence[tuple[object, ...]],
    at_once: int,
    tell: Callable[[list[int]], None],
) -> list[object]:
    """Do something with each of some arguments, in up to ``at_once`` processes at a time.

    ``tell`` hears which are going on. Gives what each sends, in order, or a :class:`Broke`.
    """
    results: dict[int, object] = {}
    waiting = list(range(len(arguments)))[::-1]
    running: dict[int, Process] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index = waiting.pop()
                running[index] = start(do, *arguments[index])
            tell(list(running))
            ready = wait([process.result for process in running.values()])
            for index in [index for index, process in running.items() if process.result in ready]:
                results[index] = running.pop(index).wait()
    finally:
        for process in running.values():
            process.stop()
    return [results[index] for index in range(len(arguments))]
