"""Ranks put together: the summaries of one run, wherever each was made."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mirage_gate.agreed.summary import Summary


class Ranks(msgspec.Struct, frozen=True):
    """The ranks of one run, by number. ``chosen``: the user asked for these alone."""

    summaries: tuple[Summary, ...]
    chosen: bool = False

    @property
    def audited(self) -> tuple[Summary, ...]:
        """Those of which something is known."""
        return tuple(summary for summary in self.summaries if summary.audited)

    @property
    def world_size(self) -> int | None:
        """For how many ranks the kernels were made; None where they do not say or disagree."""
        sizes = {summary.world_size for summary in self.audited}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def complete(self) -> bool:
        """Whether all of the kernel's ranks are here, each once and audited."""
        numbers = [summary.rank for summary in self.summaries if summary.audited]
        return len(numbers) == self.world_size and sorted(numbers) == list(range(len(numbers)))


def runs(summaries: Iterable[Summary], chosen: bool = False) -> list[Ranks]:
    """Put together what belongs to one run: files of one folder with one pattern of names."""
    families: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        families.setdefault(summary.family, []).append(summary)
    return [
        Ranks(tuple(sorted(family, key=lambda summary: summary.rank)), chosen)
        for _, family in sorted(families.items())
    ]
