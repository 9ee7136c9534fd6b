"""A bar on standard error while a long audit goes on at a terminal.

It is click's, which is there anyway. rich's is prettier and moves by itself, but with a thread,
and beside a thread no rank's process could be forked.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from mirage_gate.commands import _common
from mirage_gate.steps import Step, Watch

if TYPE_CHECKING:
    from mirage_gate.artifacts.pairs import Pair

_PATIENCE = 0.5
"""Seconds without a bar: what is done by then needs none."""
_OFTEN = 0.1
_PARTS = 1000
"""Of each rank's bar; reading is half of them, judging the other half."""


@contextmanager
def progress(pairs: Iterable[Pair]) -> Iterator[Watch | None]:
    """Give who is to hear of each step of an audit, if anybody is to see them."""
    if not _common.wants_progress():
        yield None
        return
    bar = _Bar({pair.rank: _size(pair.graph) for pair in pairs})
    try:
        yield bar.hear
    finally:
        bar.end()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0  # noqa: PTH116
    except OSError:
        return 0


class _Bar:
    """All ranks in one bar, by the size of their graphs, and the last step in words."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self._sizes = sizes
        self._whole = sum(sizes.values()) or 1
        self._parts = dict.fromkeys(sizes, 0.0)
        self._began = time.monotonic()
        self._due = self._began + _PATIENCE
        self._bar = click.progressbar(
            length=_PARTS,
            label="auditing",
            show_eta=False,
            show_percent=True,
            item_show_func=lambda words: words,
            width=24,
            file=sys.stderr,
        )
        self._at = 0
        self._drawn = False

    def hear(self, step: Step) -> None:
        """Take a step into account, and draw it if the last drawing is old enough."""
        share = step.done / step.total if step.total else 0.0
        reading = step.phase == "reading"
        part = share / 2 if reading else 0.5 + share / 2 if step.total else 1.0
        self._parts[step.rank] = max(part, self._parts.get(step.rank, 0.0))
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _OFTEN
        done = sum(part * self._sizes.get(rank, 0) for rank, part in self._parts.items())
        self._draw(min(int(_PARTS * done / self._whole), _PARTS - 1), self._words(step, now))

    def _words(self, step: Step, now: float) -> str:
        read = ""
        if step.phase == "reading" and step.total:
            read = f" {step.done / 1e6:,.0f} of {step.total / 1e6:,.0f} MB"
        return f"rank {step.rank}: {step.phase}{read}, {now - self._began:.0f} s"

    def _draw(self, at: int, words: str) -> None:
        # Not `update`, which draws nothing where the bar stands still and the words move on.
        self._bar.make_step(max(0, at - self._at))
        self._bar.current_item = words
        self._bar.render_progress()
        self._at = max(self._at, at)
        self._drawn = True

    def end(self) -> None:
        """Leave the bar full, with the time it took; nothing where none was drawn."""
        if self._drawn:
            self._draw(_PARTS, f"{time.monotonic() - self._began:.1f} s")
            self._bar.render_finish()
