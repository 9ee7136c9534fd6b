"""A run without a GPU: build the generator, start a process for each rank, tell how they ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from mirage_gate.artifacts import pairs, provenance
from mirage_gate.building.no_gpu import child, generator, sources
from mirage_gate.building.no_gpu.machine import Gpu, Machine

_RENDEZVOUS = "12355"


class NotEmitted(Exception):
    """A rank came to no graph, or nothing could be started; the message is a sentence."""


class Plan(msgspec.Struct, frozen=True):
    """What is to be run, and as what. ``ranks`` are those wanted of the world; all if none."""

    target: str
    args: tuple[str, ...]
    module: bool
    gpu: Gpu
    out: str
    mirage: str | None = None
    model_config: str | None = None
    world_size: int = 1
    ranks: tuple[int, ...] = ()
    multicast: bool = True
    stand_ins: dict[str, str] = {}


def emit(
    plan: Plan, progress: Callable[[str], None], say: Callable[[str], None]
) -> list[pairs.Pair]:
    """Emit the graphs of a plan into its folder. Raises :class:`NotEmitted`.

    ``progress`` gets what goes on, ``say`` sentences that are to be kept in mind.
    """
    ranks = plan.ranks or tuple(range(plan.world_size))
    if beyond := [rank for rank in ranks if rank >= plan.world_size]:
        raise NotEmitted(f"there is no rank {beyond[0]} in a world of {plan.world_size}")
    config = _config(plan.model_config)
    try:
        found = sources.find(plan.mirage, None if plan.module else plan.target)
        made = generator.build(found, progress)
    except (sources.NoSources, generator.CannotBuild) as error:
        raise NotEmitted(str(error)) from error
    for unit in made.left_out:
        say(f"left out of the generator: {unit}")
    out = Path(plan.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotEmitted(f"{out} cannot be made: {error.strerror}") from error
    with tempfile.TemporaryDirectory(prefix="mirage-gate-") as scratch:

        def run(rank: int) -> int:
            machine = Machine(plan.gpu, rank, plan.world_size, plan.multicast, config)
            task = child.Task(
                target=plan.target,
                args=plan.args,
                module=plan.module,
                package=str(found.package),
                core=str(made.core),
                out=str(out.resolve()),
                asserts=str(Path(scratch) / f"asserts_{rank}"),
                machine=machine,
                stand_ins=plan.stand_ins,
            )
            return _run(task)

        progress(f"emitting {len(ranks)} rank{'s' * (len(ranks) > 1)}")
        with ThreadPoolExecutor(min(len(ranks), os.cpu_count() or 1)) as pool:
            ended = list(pool.map(run, ranks))
    _judge(plan, dict(zip(ranks, ended, strict=True)))
    wanted = pairs.find([str(out)], frozenset(ranks))
    _tell_asserts(wanted, say)
    return wanted


def _config(path: str | None) -> dict[str, object] | None:
    if path is None:
        return None
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, object])
    except OSError as error:
        raise NotEmitted(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise NotEmitted(f"{path} is no model's config.json: {error}") from error


def _run(task: child.Task) -> int:
    """Run one rank to its end, its output being ours."""
    machine = task.machine
    environment = {
        **os.environ,
        "RANK": str(machine.rank),
        "LOCAL_RANK": str(machine.rank),
        "WORLD_SIZE": str(machine.world_size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": os.environ.get("MASTER_PORT", _RENDEZVOUS),
    }
    command = [sys.executable, "-m", child.__name__, msgspec.json.encode(task).decode()]
    root = str(Path(__file__).resolve().parents[3])
    # A child finds this very package, wherever it was started from.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))
    return subprocess.run(  # noqa: S603
        command, env=environment, stdin=subprocess.DEVNULL, check=False
    ).returncode


def _judge(plan: Plan, ended: Mapping[int, int]) -> None:
    name = f"-m {plan.target}" if plan.module else plan.target
    for rank, status in ended.items():
        if not status:
            continue
        if status == child.NO_SCRIPT:
            raise NotEmitted("there was nothing to run")
        where = f" (rank {rank})" if plan.world_size > 1 else ""
        if status == child.RAISED:
            how = "raised before it emitted a task graph, as shown above"
        elif status == child.NOTHING:
            how = "ended without emitting a task graph"
        elif status < 0:
            how = f"was killed by signal {-status} before it emitted a task graph"
        else:
            how = f"ended with status {status} before it emitted a task graph"
        raise NotEmitted(f"{name}{where} {how}: nothing was audited")


def _tell_asserts(found: Iterable[pairs.Pair], say: Callable[[str], None]) -> None:
    """Say which of MPK's asserts did not hold: what a Release build passes over in silence."""
    told: dict[tuple[str, int, str], int] = {}
    for pair in found:
        with contextlib.suppress(OSError, provenance.NotAProvenance):
            for one in provenance.read(provenance.beside(pair.cuda)).asserts:
                key = (one.file, one.line, one.expression)
                told[key] = told.get(key, 0) + one.times
    for (file, line, expression), times in told.items():
        often = f" ({times} times)" if times > 1 else ""
        say(f"note: an assert that a Release build of MPK leaves out does not hold{often}: "
            f"{file}:{line}: {expression}")  # fmt: skip


def stand_ins(values: Sequence[str]) -> dict[str, str]:
    """Read ``--stand-in``: NAME, or NAME=FILE.py. Raises :class:`NotEmitted`."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not all(part.isidentifier() for part in name.split(".")):
            raise NotEmitted(f"--stand-in {value}: {name!r} is no module's name")
        if equals and not Path(file).is_file():
            raise NotEmitted(f"--stand-in {value}: there is no file {file!r}")
        found[name] = str(Path(file).resolve()) if equals else ""
    return found
