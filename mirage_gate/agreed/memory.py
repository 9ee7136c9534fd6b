"""What earlier runs and people left for this one: a lock, waivers, a baseline."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.agreed.summary import Summary

if TYPE_CHECKING:
    from mirage_gate.agreed.baseline import Baseline
    from mirage_gate.agreed.lock import Locked
    from mirage_gate.agreed.waivers import Stale, Waiver


class Memory(msgspec.Struct, frozen=True):
    """All of it; empty by default. ``today`` is the day on which waivers are judged."""

    lock: Locked | None = None
    waivers: tuple[Waiver, ...] = ()
    baseline: Baseline | None = None
    today: date = msgspec.field(default_factory=date.today)


class Run(msgspec.Struct, frozen=True):
    """What the rules of memory look at: the ranks of a run, and what is remembered.

    ``stale`` are the waivers that did nothing; they are known when all else has been said,
    and no rank is looked at again then.
    """

    summaries: tuple[Summary, ...]
    memory: Memory
    stale: tuple[Stale, ...] = ()
