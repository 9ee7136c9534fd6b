"""The gate between a builder and nvcc: each graph that is emitted is audited, then let on.

In a job of several processes each audits its own rank, and all of them get the one verdict.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.agreed.memory import Memory
from mirage_gate.agreed.summary import Summary
from mirage_gate.artifacts import pairs, provenance
from mirage_gate.artifacts.provenance import Provenance
from mirage_gate.auditing.selection import Selection
from mirage_gate.building import together
from mirage_gate.config import Locate
from mirage_gate.facts import Options
from mirage_gate.findings import in_order
from mirage_gate.report import FailOn, RankReport, Report

if TYPE_CHECKING:
    from mirage_gate.artifacts.builder import Builder
    from mirage_gate.building.watch import Emitted

_NAMES = pairs.FAMILIES[0]


class GateFailed(SystemExit):
    """The gate did not pass, and the builder goes no further. ``report`` says why."""

    def __init__(self, report: Report | None, status: int) -> None:
        super().__init__(status)
        self.report = report

    def __str__(self) -> str:
        return f"mirage-gate: the graph did not pass the gate (exit status {self.code})"


class Settings(msgspec.Struct, frozen=True):
    """What the graphs are held to. ``keep`` is the folder that gets the pairs, if any."""

    options: Options
    selection: Selection
    memory: Memory
    fail_on: FailOn = "error"
    keep: str = ""
    builders: tuple[Builder, ...] = ()
    locate: Locate = "auto"
    jobs: int = 1


class Told(msgspec.Struct, frozen=True):
    """What a process says of its rank to the others."""

    report: RankReport
    summary: Summary
    provenance: Provenance | None


class Gate:
    """Audits what is emitted. ``show`` gets each report, in the one process that says it.

    ``warn`` gets sentences that are no findings. ``report`` is all that was found so far,
    ``status`` the exit status that it asks for; None before anything was emitted.
    """

    def __init__(
        self,
        settings: Settings,
        show: Callable[[Report], None],
        warn: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._show = show
        self._warn = warn
        self._owner = os.getpid()
        self._folder = ""
        self._sets: list[list[Told]] = []
        self._reports: list[Report] = []
        self.report: Report | None = None
        self.status: int | None = None

    def judge(self, emitted: Emitted) -> None:
        """Audit a graph. Raises :class:`GateFailed` if that or an earlier one did not pass."""
        __tracebackhide__ = True  # what pytest leaves out
        status = self.audit(emitted)
        if status:
            raise GateFailed(self.report, status)

    def audit(self, emitted: Emitted) -> int:
        """Audit a graph, and give the exit status that all so far ask for."""
        started = time.perf_counter()
        job = together.job()
        mine = self._mine(emitted)
        gathered = [mine]
        if job.size > 1:
            gathered = [
                msgspec.msgpack.decode(text, type=Told)
                for text in job.gather(msgspec.msgpack.encode(mine))
            ]
        elif together.launched() > 1 and emitted.world_size > 1:
            self._warn(
                f"rank {emitted.rank} is audited alone: {together.launched()} processes were "
                "launched, and none of them has started mpi4py or torch.distributed"
            )
        self._sets[-1] += gathered
        report = self._concluded(self._sets[-1], alone=job.size == 1)
        seconds = self._reports[-1].seconds + time.perf_counter() - started
        self._reports[-1] = msgspec.structs.replace(report, seconds=seconds)
        self.report = _joined(self._reports)
        self.status = self.report.exit_status(self._settings.fail_on)
        if self.status == 2:  # emitted, and not audited: a failure, not a lack of artifacts
            self.status = 1
        if job.rank == 0:
            self._show(self._reports[-1])
        return self.status

    # --- One rank ---

    def _mine(self, emitted: Emitted) -> Told:
        from mirage_gate.auditing.rank import Job, audit_pair, not_audited

        cuda = emitted.cuda.encode("utf-8", errors="replace")
        graph = emitted.graph.encode("utf-8", errors="replace")
        made = emitted.record.written(emitted.rank, emitted.world_size, cuda, graph)
        try:
            pair = self._written(emitted.rank, cuda, graph)
        except OSError as error:
            name = error.filename or self._settings.keep
            pair = pairs.Pair(emitted.rank, *_NAMES.names(emitted.rank))
            outcome = not_audited(pair, f"{name} cannot be written: {error.strerror or error}")
            return Told(outcome.report, outcome.summary, made)
        settings = self._settings
        outcome = audit_pair(
            pair, Job(settings.options, settings.selection, True, True, settings.jobs > 1)
        )
        file = Path(pair.cuda).parent / provenance.name(emitted.rank)
        try:
            file.write_bytes(provenance.encode(made))
        except OSError as error:
            self._warn(f"{file} cannot be written: {error.strerror or error}")
        return Told(outcome.report, outcome.summary, made)

    def _written(self, rank: int, cuda: bytes, graph: bytes) -> pairs.Pair:
        """Write the pair under MPK's names: a second graph of a rank in a folder of its own."""
        if not self._sets or any(told.report.rank == rank for told in self._sets[-1]):
            self._sets.append([])
            self._reports.append(Report((), ()))
        folder = Path(self._settings.keep or self._temporary())
        if len(self._sets) > 1:
            folder /= str(len(self._sets))
        folder.mkdir(parents=True, exist_ok=True)
        halves = [folder / name for name in _NAMES.names(rank)]
        for file, text in zip(halves, (cuda, graph), strict=True):
            file.write_bytes(text)
        return pairs.Pair(rank, *map(str, halves))

    def _temporary(self) -> str:
        if not self._folder or self._owner != os.getpid():
            self._folder = tempfile.mkdtemp(prefix="mirage-gate-")
            self._owner = os.getpid()
        return self._folder

    # --- All of them ---

    def _concluded(self, told: Sequence[Told], *, alone: bool) -> Report:
        from mirage_gate.auditing.ranks import conclude
        from mirage_gate.locate import Known, known_at, locate

        told = sorted(told, key=lambda one: one.report.rank)
        settings = self._settings
        report = conclude(
            [one.report for one in told],
            [one.summary for one in told],
            settings.selection,
            settings.memory,
            # Ranks that this process has not emitted yet, or never will, are no fault of the graph.
            chosen=alone,
            one_run=True,
        )
        known: dict[str, Known] = {}
        for one in told:
            if one.provenance is not None:
                known |= known_at(one.provenance, one.report.cuda_path, one.report.graph_path)
        return locate(report, settings.builders, settings.locate, known)

    def close(self) -> str:
        """Remove what nobody asked to keep; give the folder that is left to be looked at.

        Ranks that never came are told: nothing was proven of them.
        """
        for told in self._sets:
            world = max((one.summary.world_size or 1 for one in told), default=1)
            missing = set(range(world)).difference(one.report.rank for one in told)
            if missing and together.job().rank == 0:
                those = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, sorted(missing)[:8]))}"
                self._warn(f"{those} of {world} were not emitted here: nothing is proven of them")
        if not self._folder or self._owner != os.getpid():
            return ""
        if self.status:
            return self._folder if together.job().rank == 0 else ""
        shutil.rmtree(self._folder, ignore_errors=True)
        return ""


def _joined(reports: Sequence[Report]) -> Report:
    """Give the reports of several graphs as one."""
    if len(reports) == 1:
        return reports[0]
    return Report(
        ranks=tuple(rank for report in reports for rank in report.ranks),
        findings=in_order(finding for report in reports for finding in report.findings),
        waived=sum(report.waived for report in reports),
        known=sum(report.known for report in reports),
        hidden=in_order(finding for report in reports for finding in report.hidden),
        compared=tuple(run for report in reports for run in report.compared),
        seconds=sum(report.seconds for report in reports),
        summaries=tuple(summary for report in reports for summary in report.summaries),
    )
