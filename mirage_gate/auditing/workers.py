"""Processes: one for each rank, or for some of many, or one beside a big rank.

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

from mirage_gate import steps

_PROCESSES = 8
"""Processes, for each of those at a time, in which many things are done: few have one each."""


class Broke(msgspec.Struct):
    """Why nothing came of a process."""

    reason: str


class Process(msgspec.Struct, eq=False):
    """Something that goes on in a process of its own."""

    process: BaseProcess
    result: Connection

    def receive(self) -> Any:
        """Give what the process sends next: a :class:`Step`, or its result; None for nothing."""
        try:
            return self.result.recv()
        except Exception:  # the pipe ended, or what came cannot be read: all we know is nothing
            return None

    def wait(self) -> Any:
        """Give what the process sends, or a :class:`Broke`."""
        return self.end(self.receive())

    def end(self, sent: Any) -> Any:
        """Give what the process sent last, or a :class:`Broke`, once it has ended."""
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


def _work(
    result: Connection,
    watched: bool,
    do: Callable[..., object],
    arguments: Sequence[tuple[object, ...]],
) -> None:
    for some in arguments:
        try:
            with steps.watching(result.send if watched else None):
                sent = do(*some)
        except BaseException as error:  # whatever it is, the parent must hear of it
            sent = Broke(f"the audit broke: {type(error).__name__}: {error}")
        result.send(sent)
    result.close()


def start(do: Callable[..., object], *arguments: object) -> Process:
    """Begin something; its result is sent back, and must be small."""
    return _start(do, [arguments], watched=False)


def _start(
    do: Callable[..., object], arguments: Sequence[tuple[object, ...]], watched: bool
) -> Process:
    """Begin something with each of some arguments in turn; every result is sent back.

    ``watched``: so are its steps, which must then be received, or it waits.
    """
    context: Any = multiprocessing.get_context("fork" if can_fork() else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, watched, do, arguments), daemon=True)
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
) -> list[object]:
    """Do something with each of some arguments, in up to ``at_once`` processes at a time.

    Where there are many, a process does some of them, one after the other. Gives what comes of
    each, in order, or a :class:`Broke`; their steps are passed on.
    """
    many = max(1, len(arguments) // (at_once * _PROCESSES))
    waiting = [
        list(range(first, min(first + many, len(arguments))))
        for first in range(0, len(arguments), many)
    ][::-1]
    results: dict[int, object] = {}
    running: list[tuple[Process, list[int]]] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                left = waiting.pop()
                some = [arguments[index] for index in left]
                running.append((_start(do, some, steps.watched()), left))
            ready = wait([process.result for process, _ in running])
            for work in [work for work in running if work[0].result in ready]:
                process, left = work
                sent = process.receive()
                if isinstance(sent, steps.Step):
                    steps.pass_on(sent)
                    continue
                index = left.pop(0)
                if sent is None or not left:
                    running.remove(work)
                    results[index] = process.end(sent)
                    if left:  # it died of one of them: another does the others
                        waiting.append(left)
                else:
                    results[index] = sent
    finally:
        for process, _ in running:
            process.stop()
    return [results[index] for index in range(len(arguments))]
