"""One rank of a run without a GPU, in a process of its own: emit the graph, write it, end.

Started by :mod:`.session` with a task in JSON on the command line. What it ends with tells how it
went: 0 emitted, 3 ended without a graph; a traceback of the builder's own is on standard error.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from mirage_gate.artifacts import pairs, provenance
from mirage_gate.building import script
from mirage_gate.building.no_gpu.machine import Machine
from mirage_gate.building.watch import Emitted, Watch

_end_process = os._exit  # while a script runs, its name stands for something else

NOTHING = 3
RAISED = 4
NO_SCRIPT = 5


class Task(msgspec.Struct, frozen=True):
    """What one process is to do."""

    target: str
    args: tuple[str, ...]
    module: bool
    package: str
    core: str
    out: str
    asserts: str
    machine: Machine
    stand_ins: dict[str, str]


def main() -> NoReturn:
    """Do it. ``os._exit`` at the end: nothing of a builder's clean-up is of use any more."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    os.environ["MIRAGE_GATE_ASSERTS"] = task.asserts
    from mirage_gate.building.no_gpu.standing_in import Mirage, StandIns

    Mirage(Path(task.package), Path(task.core)).install()
    StandIns(task.machine, task.stand_ins).install()
    status = NOTHING
    with Watch(lambda emitted: _emitted(task, emitted)):
        try:
            ended = script.run(task.target, task.args, module=task.module, leave=lambda _: NOTHING)
            status = RAISED if ended.raised else NOTHING
        except script.CannotRun as error:
            print(f"mirage-gate: {error}", file=sys.stderr)
            status = NO_SCRIPT
    _leave(status)


def _emitted(task: Task, emitted: Emitted) -> NoReturn:
    cuda = emitted.cuda.encode("utf-8", errors="replace")
    graph = emitted.graph.encode("utf-8", errors="replace")
    made = emitted.record.written(emitted.rank, emitted.world_size, cuda, graph)
    made = msgspec.structs.replace(made, asserts=_asserts(task))
    out = Path(task.out)
    names = (*pairs.FAMILIES[0].names(emitted.rank), provenance.name(emitted.rank))
    for name, text in zip(names, (cuda, graph, provenance.encode(made)), strict=True):
        (out / name).write_bytes(text)
    _leave(0)


def _asserts(task: Task) -> tuple[provenance.Assertion, ...]:
    """Read what did not hold while the graph was made."""
    counted: dict[tuple[str, int, str], int] = {}
    with contextlib.suppress(OSError):
        for line in Path(task.asserts).read_text(errors="replace").split("\n"):
            file, _, rest = line.partition("\t")
            number, _, expression = rest.partition("\t")
            if expression and number.isdecimal():
                key = (file, int(number), expression)
                counted[key] = counted.get(key, 0) + 1
    return tuple(provenance.Assertion(*key, times) for key, times in counted.items())


def _leave(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _end_process(status)


if __name__ == "__main__":
    main()
