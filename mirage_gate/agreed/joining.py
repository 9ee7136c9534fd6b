"""Ranks put together: the summaries of one run, wherever each was made."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mirage_gate.agreed.summary import Summary


class Ranks(msgspec.Struct, frozen=True):
    """The ranks of one run, by number. ``chosen``: the user asked for these alone.

    ``joined``: they were brought together to be all of them.
    """

    summaries: tuple[Summary, ...]
    chosen: bool = False
    joined: bool = False

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
    """Put together what belongs to one run.

    Files of one folder with one pattern of names are of one run. Folders that each have some of
    the ranks are of one run as well, where what they say of themselves fits: the same number of
    ranks, and each rank in one folder alone.
    """
    families: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        families.setdefault(summary.family, []).append(summary)
    whole: list[list[Summary]] = []
    open_runs: dict[tuple[str, int], list[list[Summary]]] = {}
    for (_, pattern), family in sorted(families.items()):
        world = family[0].world_size or 0
        parts = _numbered(family)
        if world < 2 or len(parts) >= world or any(s.world_size != world for s in family):
            whole.append(family)
            continue
        taken = {summary.rank for summary in parts}
        for run in open_runs.setdefault((pattern, world), []):
            if len(run) < world and taken.isdisjoint(summary.rank for summary in run):
                run += parts
                break
        else:
            open_runs[pattern, world].append(parts)
    whole += [run for found in open_runs.values() for run in found]
    ordered = [tuple(sorted(run, key=lambda summary: summary.rank)) for run in whole]
    return [Ranks(run, chosen) for run in sorted(ordered, key=lambda run: run[0].family)]


def _numbered(family: list[Summary]) -> list[Summary]:
    """Number ranks whose files' names say no number by what their event ids say."""
    return [
        summary
        if summary.named or summary.gpu is None
        else msgspec.structs.replace(summary, rank=summary.gpu)
        for summary in family
    ]
