"""What is going on, for whoever watches: which rank, in which phase, how far.

The work says where it is; nobody hears it unless somebody watches, and that costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

_OFTEN = 0.1
"""Seconds between two steps of one rank and phase: a reader sees no more, a pipe takes no more."""


class Step(msgspec.Struct, frozen=True):
    """Where the audit of a rank is: ``done`` of ``total`` bytes or rules, 0 of 0 unknown."""

    rank: int
    phase: str
    done: int = 0
    total: int = 0


Watch = Callable[[Step], None]


class _Now:
    """The one who watches this process, and what was said last."""

    watch: Watch | None = None
    rank = 0
    phase = ""
    until = 0.0


@contextmanager
def watching(watch: Watch | None) -> Iterator[None]:
    """Let somebody hear what goes on; nobody, if that is None."""
    before, _Now.watch, _Now.until = _Now.watch, watch, 0.0
    try:
        yield
    finally:
        _Now.watch = before


def watched() -> bool:
    """Whether anybody hears it."""
    return _Now.watch is not None


def begin(rank: int) -> None:
    """Say which rank all that follows is about."""
    _Now.rank, _Now.phase = rank, ""


def say(phase: str, done: int = 0, total: int = 0) -> None:
    """Say in which phase the audit is, and how far."""
    if _Now.watch is None:
        return
    now = time.monotonic()
    if phase != _Now.phase or now >= _Now.until:
        _Now.phase, _Now.until = phase, now + _OFTEN
        _Now.watch(Step(_Now.rank, phase, done, total))


def pass_on(step: Step) -> None:
    """Say what another process said."""
    if _Now.watch is not None:
        _Now.watch(step)
