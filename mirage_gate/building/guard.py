"""``mirage_gate.guard``: the gate around a builder that is not started by ``mirage-gate run``."""

from __future__ import annotations

import os
import sys
from contextlib import ContextDecorator
from types import TracebackType
from typing import TYPE_CHECKING

from mirage_gate.building.gate import Gate, Settings
from mirage_gate.building.watch import Watch

if TYPE_CHECKING:
    from mirage_gate.building.terms import Builders, Strings
    from mirage_gate.config import Locate
    from mirage_gate.report import FailOn, Report


class NothingEmitted(RuntimeError):
    """What was guarded ended well, and no graph was audited in it."""


class guard(ContextDecorator):  # noqa: N801 - used as a function is
    """Audit every task graph that is emitted inside, before nvcc starts.

    As a context manager or a decorator::

        with mirage_gate.guard(keep="out"):
            mpk.compile()

    A graph that fails raises :class:`SystemExit` with status 1 out of
    ``generate_task_graph``, after its report was printed: the script ends there, without a
    traceback. In a job of several ranks (mpi4py, torch.distributed) all of them get the one
    verdict, and rank 0 prints it. Nothing emitted raises :class:`RuntimeError` at the end:
    the gate does not pass what it has not seen.

    The options are those of ``mirage-gate check`` and mean what they mean there; ``keep`` is
    a folder for the pairs, ``output`` a format for standard output, or None for silence.
    Raises :class:`ValueError` for an option that cannot be used.
    """

    def __init__(
        self,
        *,
        critical: Strings = None,
        select: Strings = None,
        ignore: Strings = None,
        fail_on: FailOn | None = None,
        lock: str | os.PathLike[str] | None = None,
        baseline: str | os.PathLike[str] | None = None,
        builder: Builders = (),
        locate: Locate | None = None,
        model_config: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        runtime_header: str | os.PathLike[str] | None = None,
        workers: int | None = None,
        config: str | os.PathLike[str] | None = None,
        keep: str | os.PathLike[str] | None = None,
        output: str | None = "text",
    ) -> None:
        from mirage_gate.building.terms import terms
        from mirage_gate.reports import format_names

        if output is not None and output not in format_names():
            raise ValueError(f"{output!r} is no format: {', '.join(format_names())}")
        asked = terms(
            critical=critical,
            select=select,
            ignore=ignore,
            fail_on=fail_on,
            lock=lock,
            baseline=baseline,
            builder=builder,
            locate=locate,
            model_config=model_config,
            weights=weights,
            runtime_header=runtime_header,
            workers=workers,
            config=config,
            nearest=True,
        )
        self._settings = Settings(
            options=asked.options,
            selection=asked.selection,
            memory=asked.memory,
            fail_on=asked.fail_on,
            keep=os.path.abspath(keep) if keep else "",  # noqa: PTH100
            builders=asked.builders,
            locate=asked.locate,
        )
        self._output = output
        self._entered: list[tuple[Gate, Watch]] = []

    def __enter__(self) -> Gate:
        gate = Gate(self._settings, self._show, _warn)
        watch = Watch(gate.judge)
        watch.__enter__()
        self._entered.append((gate, watch))
        return gate

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gate, watch = self._entered.pop()
        watch.__exit__(kind, error, trace)
        if left := gate.close():
            _warn(f"the artifacts are in {left}; guard(keep=…) writes them where you say")
        if gate.report is None and kind is None:
            raise NothingEmitted(
                "mirage_gate.guard: no task graph was emitted inside, so nothing was audited"
            )

    def _show(self, report: Report) -> None:
        if self._output is None:
            return
        from mirage_gate.reports import render

        text = render(report, self._output, fail_on=self._settings.fail_on)
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()


def _warn(text: str) -> None:
    print(f"mirage-gate: {text}", file=sys.stderr)
