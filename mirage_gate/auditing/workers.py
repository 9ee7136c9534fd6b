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

from mirage_gate import steps


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


def _work(result: Connection, watched: bool, do: Callable[..., object], *arguments: object) -> None:
    try:
        with steps.watching(result.send if watched else None):
            sent = do(*arguments)
    except BaseException as error:  # whatever it is, the parent must hear of it
        sent = Broke(f"the audit broke: {type(error).__name__}: {error}")
    result.send(sent)
    result.close()


def start(do: Callable[..., object], *arguments: object, watched: bool = False) -> Process:
    """Begin something; its result is sent back, and must be small.

    ``watched``: so are its steps, which must then be received, or it waits.
    """
    context: Any = multiprocessing.get_context("fork" if can_fork() else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, watched, do, *arguments), daemon=True)
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

    Gives what each sends, in order, or a :class:`Broke`; their steps are passed on.
    """
    results: dict[int, object] = {}
    waiting = list(range(len(arguments)))[::-1]
    running: dict[int, Process] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index = waiting.pop()
                running[index] = start(do, *arguments[index], watched=steps.watched())
            ready = wait([process.result for process in running.values()])
            for index in [index for index, process in running.items() if process.result in ready]:
                sent = running[index].receive()
                if isinstance(sent, steps.Step):
                    steps.pass_on(sent)
                else:
                    results[index] = running.pop(index).end(sent)
    finally:
        for process in running.values():
            process.stop()
    return [results[index] for index in range(len(arguments))]
