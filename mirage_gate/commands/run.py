"""``run``: run a builder, and audit what it emits before nvcc starts."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import click

from mirage_gate.commands import _asked, _common, _run

if TYPE_CHECKING:
    from mirage_gate.building.gate import Gate
    from mirage_gate.building.watch import Emitted
    from mirage_gate.report import Report


class _Runs(_run.Reporting):
    """A command that leaves all behind the script's name to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # As for `python -m`: what follows the module's name is the module's.
        for at, arg in enumerate(args):
            if arg in ("-m", "--module") and at + 2 < len(args):
                args = [*args[: at + 2], "--", *args[at + 2 :]]
                break
            if arg == "--" or not arg.startswith("-"):
                if at and self._takes_value(ctx, args[at - 1]):
                    continue
                break
        return super().parse_args(ctx, args)

    def _takes_value(self, ctx: click.Context, word: str) -> bool:
        return any(
            isinstance(option, click.Option) and not option.is_flag and word in option.opts
            for option in self.get_params(ctx)
        )


@click.command(
    cls=_Runs,
    short_help="Run a builder and audit what it emits.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command_line", nargs=-1, metavar="SCRIPT [ARGS]...", type=click.UNPROCESSED)
@click.option(
    "-m",
    "--module",
    metavar="MODULE",
    help="Run a module, as `python -m MODULE` does; ARGS are its own.",
)
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write the pairs there, and where each line came from (provenance_N.json).",
)
@click.option(
    "--emit-only",
    is_flag=True,
    help="End the script as soon as a graph has passed: no nvcc, no kernel.",
)
@click.option(
    "--no-gpu",
    is_flag=True,
    help="Emit on this machine's processor: MPK's generator is built, torch is stood in for.",
)
@click.option(
    "--mirage",
    metavar="DIR",
    type=click.Path(),
    help="MPK's sources for --no-gpu.  [default: around the script, else as installed]",
)
@click.option(
    "--gpu",
    type=click.Choice(["a100", "h100", "b200"]),
    default="h100",
    show_default=True,
    help="The GPU that --no-gpu tells the script about.",
)
@click.option(
    "--no-multicast",
    is_flag=True,
    help="These GPUs' switch has no multicast: sums over ranks are gathered.",
)
@click.option(
    "--world-size",
    type=click.IntRange(min=1, max=4096),
    default=1,
    metavar="N",
    help="How many ranks there are without a GPU, one process each; --ranks picks some.",
)
@click.option(
    "--stand-in",
    "stand_ins",
    multiple=True,
    metavar="NAME[=FILE]",
    help="Another module that is stood in for, or the file that stands in; repeatable.",
)
@_asked.options
def command(
    command_line: tuple[str, ...],
    module: str | None,
    keep: str | None,
    emit_only: bool,
    no_gpu: bool,
    mirage: str | None,
    gpu: str,
    no_multicast: bool,
    world_size: int,
    stand_ins: tuple[str, ...],
    **values: Any,
) -> int:
    """Run a builder as `python SCRIPT ARGS` would, and audit every task graph that it emits.

    This runs SCRIPT: the one command that runs anything, because it is asked to. (`check`
    reads files, and never runs what made them.) Each graph is audited before nvcc starts. If
    it fails, the script ends there, with the report; if it passes, the script goes on, or
    ends there with --emit-only. Findings point at the builder's own lines.

    Exits 0 when all graphs passed and the script ended well, 1 when one did not pass, 2 when
    nothing was emitted or there is nothing to run, else with the script's own status.
    """
    asked = _asked.asked(values)
    if asked.look.show_settings:
        return _asked.show_settings(asked, values)
    target, args = _target(command_line, module)
    _run.prepare(asked.written, asked.read)
    if no_gpu:
        from mirage_gate.building.no_gpu.machine import GPUS

        return _without_gpu(
            asked,
            keep,
            target=target,
            args=args,
            module=bool(module),
            gpu=GPUS[gpu],
            mirage=mirage,
            model_config=values["model_config"] or asked.settings.model_config,
            world_size=world_size,
            ranks=tuple(sorted(asked.ranks)),
            multicast=not no_multicast,
            stand_ins=_stand_ins(stand_ins),
        )
    alone = {
        "--mirage": mirage,
        "--no-multicast": no_multicast,
        "--world-size": world_size > 1,
        "--stand-in": stand_ins,
    }
    if given := [name for name, value in alone.items() if value]:
        raise click.UsageError(f"{given[0]} is for --no-gpu alone")
    status = _Run(asked, keep, emit_only).run(target, args, bool(module))
    # As Python itself ends: what the script registered for its end (MPI's is such) has its turn.
    raise SystemExit(status)


def _target(command_line: tuple[str, ...], module: str | None) -> tuple[str, tuple[str, ...]]:
    if module is not None:
        return module, command_line
    if not command_line:
        raise click.UsageError("name a script, or a module with -m")
    return command_line[0], command_line[1:]


def _stand_ins(values: tuple[str, ...]) -> dict[str, str]:
    from mirage_gate.building.no_gpu import session

    try:
        return session.stand_ins(values)
    except session.NotEmitted as error:
        raise click.UsageError(str(error)) from error


def _without_gpu(asked: _asked.Asked, keep: str | None, **plan: Any) -> int:
    """Emit in processes of their own, then audit what lies there as `check` does."""
    from mirage_gate.auditing import ranks as all_ranks
    from mirage_gate.building.no_gpu import session
    from mirage_gate.commands._progress import progress

    folder = keep or tempfile.mkdtemp(prefix="mirage-gate-")
    try:
        found = session.emit(session.Plan(out=folder, **plan), _run.warn, _run.warn)
        with progress(found) as watch:
            report = all_ranks.check(
                found,
                asked.options,
                asked.selection,
                watch,
                memory=asked.memory,
                jobs=asked.jobs or all_ranks.default_jobs(found),
                summarize=True,
                chosen=bool(asked.ranks),
            )
        report = _asked.located(report, asked)
        status = _run.give(report, asked.written, asked.fail_on, asked.look)
    except session.NotEmitted as error:
        raise _common.Refused(str(error)) from error
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return status


class _Run:
    """One run of a script under the gate."""

    def __init__(self, asked: _asked.Asked, keep: str | None, emit_only: bool) -> None:
        from mirage_gate.building.gate import Gate, Settings
        from mirage_gate.building.script import Tally

        self._asked = asked
        self._emit_only = emit_only
        settings = Settings(
            options=asked.options,
            selection=asked.selection,
            memory=asked.memory,
            fail_on=asked.fail_on,
            keep=os.path.abspath(keep) if keep else "",  # noqa: PTH100
            builders=_asked.builders_in(asked.builders),
            locate=asked.locate,
        )
        self._gate: Gate = Gate(settings, self._show, _run.warn)
        self._tally = Tally()
        # Paths on the command line are of the folder that it was typed in.
        self._files = tuple(
            (name, os.path.abspath(file))  # noqa: PTH100 - a script may change the folder
            for name, file in asked.written
            if file
        )
        self._later = tuple(
            (name, file) for name, file in asked.written if not file and name != "text"
        )
        self._now = tuple((name, file) for name, file in asked.written if not file)

    def run(self, target: str, args: tuple[str, ...], module: bool) -> int:
        from mirage_gate.building.gate import GateFailed
        from mirage_gate.building.script import CannotRun, run
        from mirage_gate.building.watch import Watch

        self._name = f"-m {target}" if module else target
        with Watch(self._emitted) as watch:
            self._watch = watch
            try:
                ended = run(target, args, module=module, leave=self._leave)
            except CannotRun as error:
                raise _common.Refused(str(error)) from error
            except GateFailed:  # raised by what the gate itself calls
                return self._end(1, "")
            return self._end(ended.status, ended.raised)

    # --- While it runs ---

    def _emitted(self, emitted: Emitted) -> None:
        from mirage_gate.building.gate import GateFailed

        __tracebackhide__ = True
        status = self._gate.audit(emitted)
        self._tally.add(failed=status != 0)
        if not status and not self._emit_only:
            return
        if threading.current_thread() is not threading.main_thread():
            # SystemExit ends a thread alone, and the others would go on without a kernel.
            os._exit(status)
        raise GateFailed(self._gate.report, status)

    def _show(self, report: Report) -> None:
        sys.stdout.flush()
        if any(name == "text" for name, _file in self._now):
            self._give(report, (("text", ""),))
        if self._files and self._gate.report is not None:
            self._give(self._gate.report, self._files)
        sys.stdout.flush()

    def _give(self, report: Report, outputs: tuple[tuple[str, str], ...]) -> None:
        shown = report.at_least(self._asked.lowest)
        _run.give(shown, outputs, self._asked.fail_on, self._asked.look)

    def _leave(self, status: int) -> int:
        """What ``os._exit`` comes to: the script's word, if the gate has nothing against it."""
        return self._end(status, "", at_once=True)

    # --- When it has ended ---

    def _end(self, status: int, raised: str, *, at_once: bool = False) -> int:
        from mirage_gate.building import together

        report = self._gate.report
        if report is not None and self._later:
            self._give(report, self._later)
        if left := self._gate.close():
            _run.warn(f"the artifacts are in {left}; --keep DIR writes them where you say")
        job = together.job()
        if not self._tally.emitted:
            _run.warn(self._nothing(status, raised, at_once))
            if job.size > 1:
                job.abort(2)
            return 2
        if self._tally.failed:
            return 1
        if status:
            how = f"raised {raised}" if raised else f"ended with status {status}"
            _run.warn(f"all graphs passed; then {self._name} {how}")
            if raised and job.size > 1:
                job.abort(status)
        return status

    def _nothing(self, status: int, raised: str, at_once: bool) -> str:
        if raised:
            how = f"raised {raised} before it emitted a task graph"
        elif at_once:
            how = f"left with os._exit or os.exec ({status}) before it emitted a task graph"
        elif status:
            how = f"ended with status {status} before it emitted a task graph"
        else:
            how = "ended without emitting a task graph"
        why = ""
        if not raised and not self._watch.seen:
            why = "; no module with MPK's KNGraph was imported in this process"
            if not at_once:
                why += " (what it starts as another process is not watched: call "
                why += "mirage_gate.guard() there)"
        elif not raised:
            why = "; nothing called KNGraph.generate_task_graph"
        return f"{self._name} {how}: nothing was audited{why}"
