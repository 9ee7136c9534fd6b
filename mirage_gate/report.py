"""The result of an audit: what was looked at, what was counted, what was found."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from mirage_gate.findings import Finding, Location, Severity, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirage_gate.agreed.summary import Summary

FailOn = Literal["error", "warning", "note", "never"]


class LayerUse(msgspec.Struct, frozen=True, gc=False):
    """What one layer does with one tensor; ``layer`` is None outside the layers.

    ``nbytes`` is the size of the tiles read there, each distinct one counted once;
    ``first_consumer`` is the lowest id of a task that reads it, -1 if none does.
    """

    layer: int | None
    consumers: int
    producers: int
    nbytes: int
    first_consumer: int
    consumer_task_types: tuple[int, ...]


class Coverage(msgspec.Struct, frozen=True):
    """How one declared tensor is wired on one rank.

    ``input_refs`` and ``output_refs`` count every entry of a task's ``inputs`` and
    ``outputs`` that carries the tensor. ``consumers`` counts the tasks that really read it
    (the slot is one that is read, and the dispatch body names it), ``producers`` those
    that really write it; ``consumer_task_types`` are the consumers' codes, sorted.
    ``layers`` has an entry for every layer in which a task reads or writes it, in order.
    """

    tensor: str
    kind: str
    nbytes: int | None
    location: Location
    critical: bool
    input_refs: int
    output_refs: int
    consumers: int
    producers: int
    consumer_task_types: tuple[int, ...]
    producer_task_types: tuple[int, ...]
    layers: tuple[LayerUse, ...] = ()


class PlanLine(msgspec.Struct, frozen=True):
    """One statement of the plan, for a drawing.

    ``values`` are the operands that other statements give, those that are added among them;
    ``weights`` those that the host fills, and ``none``. ``adds``: its result is a sum, or the
    embedding; ``passes``: it is what goes in, summed over the ranks. ``first_tasks`` are its
    first in each layer of the block.
    """

    text: str
    operator: str
    results: tuple[str, ...]
    values: tuple[str, ...]
    weights: tuple[str, ...]
    adds: bool
    passes: bool
    first_tasks: tuple[int, ...]


class PlanBlock(msgspec.Struct, frozen=True):
    """Statements that some layers have alike, or that stand outside of them."""

    title: str
    layers: tuple[int, ...]
    lines: tuple[PlanLine, ...]


class RankReport(msgspec.Struct, frozen=True):
    """One rank's pair of files, and whether the audit of it ran to its end.

    ``cuda_path`` or ``graph_path`` is empty where that half is missing. ``failure`` says in
    a sentence why a rank could not be audited; it is empty exactly when ``audited``.
    ``type_names`` gives the name of each task type code in the graph. ``plan`` is the model
    that it computes, where a report that draws it was asked for. ``unchecked`` says what of
    the kernels nothing was compared with: device functions and their parameters. ``marks`` are
    some lines of the graph and an offset on each, so that they need not be counted again.
    """

    rank: int
    cuda_path: str
    graph_path: str
    audited: bool
    failure: str = ""
    tasks: int = 0
    events: int = 0
    tensors: int = 0
    coverage: tuple[Coverage, ...] = ()
    type_names: dict[int, str] = msgspec.field(default_factory=dict)
    plan: tuple[PlanBlock, ...] = ()
    unchecked: tuple[str, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()


class Meant(msgspec.Struct, frozen=True):
    """What the user said the model is, and the graph was held to.

    ``config`` is the path of the configuration, ``name`` what it calls the model; ``unread``
    are its keys that promise nothing. ``weights`` counts the checkpoint's tensors.
    """

    config: str = ""
    name: str = ""
    unread: tuple[str, ...] = ()
    checkpoint: str = ""
    weights: int = 0


class Compared(msgspec.Struct, frozen=True):
    """The ranks of one run, and the folders that they lie in."""

    ranks: tuple[int, ...]
    folders: tuple[str, ...]


class Report(msgspec.Struct, frozen=True, dict=True):
    """Everything one run has to say. Findings are sorted, most severe first.

    A finding stands in ``findings`` once for each rank that has it; ``distinct`` puts together
    what several ranks say in the same words, and that is what every report counts.
    ``below`` counts the findings that ``at_least`` left out, ``waived`` those that a waiver did,
    ``known`` those that a baseline did; ``hidden`` are these two, each saying why. ``compared``
    are the runs whose ranks were held to each other. ``summaries`` are the ranks as other runs
    may be compared with them. ``meant`` is what the model was held to.
    ``selected`` are the words that name the only rules that were asked, ``ignored`` those that
    name rules that were not.
    """

    ranks: tuple[RankReport, ...]
    findings: tuple[Finding, ...]
    seconds: float = 0.0
    waived: int = 0
    known: int = 0
    summaries: tuple[Summary, ...] = ()
    meant: Meant = Meant()
    below: int = 0
    hidden: tuple[Finding, ...] = ()
    compared: tuple[Compared, ...] = ()
    selected: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @cached_property
    def distinct(self) -> list[list[Finding]]:
        """The findings, those that several ranks share as one; the first rank's leads."""
        return _folded(self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings have exactly this severity, each counted once for all ranks."""
        return sum(same[0].severity is severity for same in self.distinct)

    def at_least(self, severity: Severity) -> Report:
        """Give the report without the findings that are less severe."""
        if severity is Severity.NOTE:
            return self
        left = [f for f in self.findings if f.severity.weight >= severity.weight]
        shown = msgspec.structs.replace(self, findings=tuple(left))
        below = self.below + len(self.distinct) - len(shown.distinct)
        return msgspec.structs.replace(shown, below=below)

    @property
    def failed_ranks(self) -> tuple[RankReport, ...]:
        return tuple(rank for rank in self.ranks if not rank.audited)

    def exit_status(self, fail_on: FailOn = "error") -> int:
        """0 passed; 1 findings at or above ``fail_on``, or a rank that was not audited.

        2 when nothing was audited at all.
        """
        if not any(rank.audited for rank in self.ranks):
            return 2
        if self.failed_ranks:
            return 1
        if fail_on == "never":
            return 0
        bar = Severity(fail_on).weight
        return int(any(finding.severity.weight >= bar for finding in self.findings))


def _folded(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Put together what several ranks say in the same words; the first of each leads.

    A rank that says the same twice, of two places, says it twice.
    """
    groups: dict[object, list[Finding]] = {}
    times: dict[object, int] = {}
    for finding in in_order(findings):
        words = (
            finding.rule,
            finding.severity,
            finding.message,
            finding.hint,
            finding.tensor,
            tuple(place.note for place in finding.related),
            tuple(place.note for place in finding.trace),
        )
        source = (words, finding.rank, os.path.dirname(finding.location.path))  # noqa: PTH120
        times[source] = times.get(source, 0) + 1
        groups.setdefault((words, times[source]), []).append(finding)
    return list(groups.values())
