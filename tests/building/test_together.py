"""Ranks that are processes of one job: one verdict for all of them, one report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage_gate.building import together
from tests.building.conftest import Gate, environment
from tests.building.test_run import ATTENTION

Mpirun = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def mpirun(folder: Path) -> Mpirun:
    """Run four processes with a real MPI. In CI it must be there."""
    program = shutil.which("mpirun")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no mpirun")
        pytest.skip("there is no mpirun")

    def mpirun(*command: str, **extra: str) -> subprocess.CompletedProcess[str]:
        options = ["--oversubscribe", "--tag-output", "-np", "4"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--allow-run-as-root")
        return subprocess.run(
            [program, *options, sys.executable, *command],
            cwd=folder,
            env=environment(OMPI_MCA_btl="self,vader", NO_COLOR="1", **extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    return mpirun


STATUS = "import os, subprocess, sys\n"
STATUS += "done = subprocess.run([sys.executable, '-m', 'mirage_gate', *sys.argv[1:]])\n"
STATUS += "print('ended with', done.returncode, flush=True)\n"


def statuses(folder: Path, mpirun: Mpirun, *args: str) -> tuple[list[int], str]:
    """What each of the four ended with, and all they said."""
    (folder / "status.py").write_text(STATUS)
    said = mpirun("status.py", *args).stdout
    return [int(line.split()[-1]) for line in said.split("\n") if "ended with" in line], said


@pytest.mark.slow
def test_four_that_are_right(folder: Path, mpirun: Mpirun) -> None:
    ended, said = statuses(folder, mpirun, "run", "--keep", "out", "demo/builder.py")
    assert ended == [0, 0, 0, 0], said
    assert said.count("mirage-gate: PASSED") == 1
    assert "in 4 ranks" in said
    assert said.count("the kernel runs") == 4
    assert len(list((folder / "out").iterdir())) == 12


def test_one_of_four_is_miswired(folder: Path, mpirun: Mpirun) -> None:
    command = ("run", "demo/builder.py", "--no-rope", "2", "--wrong-ranks", "3")
    ended, said = statuses(folder, mpirun, *command, "--compiled", "nvcc.txt")
    assert ended == [1, 1, 1, 1], said
    assert said.count("mirage-gate: FAILED") == 1
    assert said.count("MG701 layer-outlier error") == 1
    assert f"demo/builder.py:{ATTENTION}:9: MG701 layer-outlier error: layer 2 runs without" in said
    assert "MG601" in said, "what only the ranks together show"
    assert "the kernel runs" not in said
    assert not (folder / "nvcc.txt").exists()
    assert "Traceback" not in said
    assert said.count("the artifacts are in") == 1


def test_one_of_four_raises(folder: Path, mpirun: Mpirun) -> None:
    """The others would wait for it for ever: the job is ended."""
    text = "from mpi4py import MPI\nif MPI.COMM_WORLD.Get_rank() == 2: raise KeyError('mine')\n"
    text += "import runpy\nrunpy.run_path('demo/builder.py', run_name='__main__')\n"
    (folder / "script.py").write_text(text)
    done = mpirun("-m", "mirage_gate", "run", "script.py")
    assert done.returncode != 0
    assert "KeyError: 'mine'" in done.stdout
    assert "script.py raised KeyError before it emitted a task graph" in done.stdout


@pytest.mark.slow
def test_a_guard_in_each(folder: Path, mpirun: Mpirun) -> None:
    text = "import sys\nsys.path.insert(0, 'demo')\nimport builder, mirage_gate\n"
    text += "from mpi4py import MPI\nargs = builder.arguments()\n"
    text += "mpk = builder.build(args, MPI.COMM_WORLD.Get_rank(), 4)\n"
    text += "with mirage_gate.guard(): mpk.compile()\nprint('goes on')\n"
    (folder / "script.py").write_text(text)
    done = mpirun("script.py")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 1
    done = mpirun("script.py", "--no-rope", "1", "--wrong-ranks", "0", "2")
    assert done.returncode == 1
    assert done.stdout.count("FAILED") == 1
    assert "goes on" not in done.stdout


@pytest.mark.usefixtures("mpirun")
def test_a_job_of_one_process(gate: Gate) -> None:
    done = gate("run", "demo/builder.py", "--mpi")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 1
    assert "not emitted here" not in done.stdout


def _world(size: int, rank: int) -> types.SimpleNamespace:
    """torch.distributed, as far as it is asked."""

    def gather(into: list[object], mine: object) -> None:
        into[:] = [mine] * size

    return types.SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: size > 0,
        get_rank=lambda: rank,
        get_world_size=lambda: size,
        all_gather_object=gather,
    )


def test_torch_s_own_communicator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", _world(3, 1))
    job = together.job()
    assert (job.rank, job.size) == (1, 3)
    assert job.gather(b"x") == [b"x"] * 3
    monkeypatch.setitem(sys.modules, "torch.distributed", _world(0, 0))
    assert together.job().size == 1


@pytest.mark.slow
def test_processes_without_a_communicator_say_so(folder: Path, mpirun: Mpirun) -> None:
    text = (
        "import sys, os\nsys.path.insert(0, 'demo')\nimport builder\nargs = builder.arguments()\n"
    )
    text += "builder.build(args, int(os.environ['OMPI_COMM_WORLD_RANK']), 4).compile()\n"
    (folder / "script.py").write_text(text)
    done = mpirun("-m", "mirage_gate", "run", "script.py")
    assert done.returncode == 0, done.stdout
    assert "rank 3 is audited alone: 4 processes were launched" in done.stdout
    assert done.stdout.count("PASSED") == 4
    assert "ranks 0, 1, 2 of 4 were not emitted here: nothing is proven of them" in done.stdout


def test_check_imports_none_of_this(folder: Path) -> None:
    """Neither MPK, nor torch, nor what watches them."""
    program = (
        "import sys\nfrom mirage_gate.cli import main\nmain(['check', 'out'])\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('torch', 'mirage', 'mpi4py')"
        " or m.startswith('mirage_gate.building')])"
    )
    run = [sys.executable, "-m", "mirage_gate", "run", "--keep", "out", "demo/builder.py"]
    subprocess.run(run, cwd=folder, env=environment(), capture_output=True, check=True)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().split("\n")[-1] == "[]"
