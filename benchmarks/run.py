"""The gate beside the naive audit: time, memory, where they go, and how they grow.

    python benchmarks/run.py                      everything: half an hour and 6 GB of disk
    python benchmarks/run.py --quick              the small graph alone, in seconds
    python benchmarks/run.py --only deepseek-tp8 --repeat 7
    python benchmarks/run.py --real DIR           folders of pairs from elsewhere as well

Every figure is of a whole command, start-up included, run as a process of its own. The
commands compared take turns (A B C A B C), so that a machine that slows down slows all of
them; the median counts. CPU time is that of all processes of a command, user's and system's,
and what a busy machine disturbs the least. Memory is the largest resident size of any process
of the command. All of it is printed as Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
sys.path.insert(0, str(ROOT))

from benchmarks import graphs  # noqa: E402

SIDE_BY_SIDE = (
    "qwen3-4-layers",
    "qwen3-36-layers",
    "deepseek-tp8",
    "deepseek-findings",
    "chunked-prefill",
    "eight-ranks",
)
WORST = {
    "variants": 5_000,
    "chains": 4_000,
    "reading-all": 4_000,
    "operators": 1_000,
    "overlapping": 20_000,
    "circle": 40_000,
}
"""The worst shapes, each of this size and of twice that."""
PHASES = ("qwen3-4-layers", "qwen3-36-layers", "deepseek-tp8", "chunked-prefill")
LAYERS = (1, 4, 16, 61, 280)
STARTING = ("import", "report as SARIF")
"""Steps that a graph's size has no part in: for most of the latter, loading the object model."""

BIG = 100_000_000
"""Bytes of graphs from which a second process is worth a row."""

Commands = dict[str, list[str]]


class Cost(NamedTuple):
    """What one run of a command took: CPU and elapsed seconds, and memory."""

    cpu: float
    seconds: float
    mebibytes: float

    def beside(self, other: Cost) -> str:
        """The columns of a table: each figure, and what part of another's it is."""
        return (
            f"{self.cpu:.3f} | {self.cpu / other.cpu:.2f} | "
            f"{self.seconds:.3f} | {self.seconds / other.seconds:.2f} | "
            f"{self.mebibytes:,.0f} | {self.mebibytes / other.mebibytes:.2f}"
        )


HEADING = """\
| graph | command | CPU, s | of naive's | wall, s | of naive's | MiB | of naive's |
|---|---|---:|---:|---:|---:|---:|---:|"""


def environment(scratch: Path) -> dict[str, str]:
    """As for an installed package: compiled once, and nothing found beside it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(scratch / "pycache")}


def cost(command: Sequence[str], scratch: Path) -> Cost:
    """Run a command to its end. A verdict of the gate is fine, a crash is not."""
    start = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=scratch,
        env=environment(scratch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2) or b"Traceback" in errors:
        raise SystemExit(f"{' '.join(command)}:\n{errors.decode(errors='replace')}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Cost(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / unit)


def in_turn(commands: Commands, repeat: int, scratch: Path) -> dict[str, Cost]:
    """Run each command once to warm up and then ``repeat`` times in turn; give the medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(repeat + 1):
        for name, command in commands.items():
            found = cost(command, scratch)
            if turn:
                costs[name].append(found)
    return {
        name: Cost(*(statistics.median(column) for column in zip(*some, strict=True)))
        for name, some in costs.items()
    }


def commands_for(name: str, folder: Path, scratch: Path) -> Commands:
    """The commands to compare on one graph."""
    python = sys.executable
    gate = [python, "-m", "mirage_gate", "check", str(folder)]
    sarif = ["-o", f"sarif={scratch / 'report.sarif'}"]
    commands = {"naive": [python, str(HERE / "naive.py"), str(folder)]}
    if name in (*SIDE_BY_SIDE, "schema-errors"):
        commands["limit"] = [python, str(HERE / "limit.py"), str(folder)]
    if name == "eight-ranks":
        return commands | {"gate, SARIF, --jobs 2": [*gate, *sarif, "--jobs", "2"]}
    commands["gate, text"] = [*gate, "--jobs", "1"]
    commands["gate, SARIF"] = [*gate, *sarif, "--jobs", "1"]
    if size_of(folder) > BIG:
        commands["gate, SARIF, two processes"] = [*gate, *sarif, "--jobs", "2"]
    return commands


def emit(name: str, folder: Path) -> None:
    """Write a graph, unless it is there, in a process that ends.

    A command that is started counts as its own what memory the one that starts it has held.
    """
    if not folder.exists():
        subprocess.run([sys.executable, str(HERE / "graphs.py"), name, str(folder)], check=True)


def size_of(folder: Path) -> int:
    """The bytes of a folder's graphs."""
    return sum(file.stat().st_size for file in folder.glob("task_graph_*.json"))


def side_by_side(name: str, folder: Path, repeat: int, scratch: Path) -> Iterator[str]:
    """Rows of the comparison on one graph."""
    costs = in_turn(commands_for(name, folder, scratch), repeat, scratch)
    size = size_of(folder) / 1e6
    for command, found in costs.items():
        yield f"| {name}, {size:,.1f} MB | {command} | {found.beside(costs['naive'])} |"


def starting(repeat: int, scratch: Path) -> Iterator[str]:
    """Rows of what it takes to start."""
    python = sys.executable
    commands = {
        "python": [python, "-c", ""],
        "python, click and msgspec": [python, "-c", "import click, msgspec"],
        "gate, --version": [python, "-m", "mirage_gate", "--version"],
    }
    costs = in_turn(commands, 3 * repeat, scratch)
    for command, found in costs.items():
        yield f"| nothing | {command} | {found.beside(costs['python, click and msgspec'])} |"


def worst(folder: Path, repeat: int, scratch: Path) -> Iterator[str]:
    """A table of the worst shapes: what twice the size costs."""
    yield "| shape | size | naive, CPU s | gate, CPU s | twice the size | times |"
    yield "|---|---:|---:|---:|---:|---:|"
    for shape, size in WORST.items():
        found = []
        for name in (f"{shape}-{size}", f"{shape}-{2 * size}"):
            emit(name, folder / name)
            commands = commands_for(name, folder / name, scratch)
            commands.pop("gate, SARIF")
            found.append(in_turn(commands, max(1, repeat // 2), scratch))
        naive, one, two = found[0]["naive"], *(costs["gate, text"].cpu for costs in found)
        yield (
            f"| {shape} | {size:,} | {naive.cpu:.3f} | {one:.3f} | {two:.3f} | {two / one:.2f} |"
        )


def real(folder: Path) -> dict[str, Path]:
    """The folders of pairs in a folder, or itself, by name."""
    places = [folder, *sorted(folder.iterdir())]
    return {place.name: place for place in places if any(place.glob("task_graph_*.json"))}


def steps(folder: Path, repeat: int, scratch: Path) -> dict[str, float]:
    """The median seconds of each step of an audit."""
    command = [sys.executable, str(HERE / "phases.py"), str(folder), "--json"]
    runs: list[list[tuple[str, float, float]]] = []
    for turn in range(repeat + 1):
        done = subprocess.run(
            command, cwd=scratch, env=environment(scratch), stdout=subprocess.PIPE, check=True
        )
        if turn:
            runs.append(json.loads(done.stdout))
    return {
        same[0][0]: statistics.median(seconds for _, seconds, _ in same)
        for same in zip(*runs, strict=True)
    }


def by_family(seconds: dict[str, float]) -> dict[str, float]:
    """The steps, with the rules of each family together."""
    families: dict[str, float] = {}
    for name, found in seconds.items():
        family = f"rules {name[5:8]}" if name.startswith("rule ") else name
        families[family] = families.get(family, 0) + found
    return families


def phases(folders: dict[str, Path], repeat: int, scratch: Path) -> Iterator[str]:
    """A table of the steps, one column for each graph."""
    columns = {name: by_family(steps(folder, repeat, scratch)) for name, folder in folders.items()}
    yield f"| step, ms | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for step in next(iter(columns.values())):
        figures = (f"{column[step] * 1e3:,.0f}" for column in columns.values())
        yield f"| {step} | {' | '.join(figures)} |"
    totals = (f"{sum(column.values()) * 1e3:,.0f}" for column in columns.values())
    yield f"| in all | {' | '.join(totals)} |"


def growth(folder: Path, repeat: int, scratch: Path) -> Iterator[str]:
    """A table of the time per task, from a thousand tasks to three quarters of a million."""
    yield "| layers | tasks | audit, s | per task, µs |"
    yield "|---:|---:|---:|---:|"
    for layers in LAYERS:
        graph = folder / f"layers-{layers}"
        emit(graph.name, graph)
        found = steps(graph, max(1, repeat // 2), scratch)
        audit = sum(seconds for step, seconds in found.items() if step not in STARTING)
        with (graph / "task_graph_0.json").open("rb") as file:
            tasks = sum(b'"task_type"' in line for line in file)
        yield f"| {layers} | {tasks:,} | {audit:.3f} | {audit / tasks * 1e6:.2f} |"


def broken(folder: Path, repeat: int, scratch: Path) -> Iterator[str]:
    """What it takes to list a thousand schema errors, beyond decoding the graph."""
    costs = in_turn(commands_for("schema-errors", folder, scratch), repeat, scratch)
    gate, limit = costs["gate, SARIF"].cpu, costs["limit"].cpu
    yield f"A graph of {graphs.SCHEMA_ERRORS:,} schema errors: {gate:.3f} s of CPU in all, "
    yield f"{gate - limit:.3f} s of it beyond reading and decoding it once ({limit:.3f} s)."


def main(arguments: Sequence[str]) -> int:
    """Measure, and print Markdown."""
    names = [*SIDE_BY_SIDE, "starting", "worst", "phases", "growth", "schema-errors"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only the small graph, two runs")
    parser.add_argument("--only", action="append", choices=names, help="only this; repeatable")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each command [5]")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir(), "mirage-gate-graphs"),
        help="where the graphs are written, and left for the next time [%(default)s]",
    )
    parser.add_argument(
        "--real", type=Path, metavar="DIR", help="a folder of pairs, or of folders of pairs"
    )
    options = parser.parse_args(arguments)
    found = real(options.real.absolute()) if options.real else {}
    wanted = options.only or ([SIDE_BY_SIDE[0], "phases"] if options.quick else names)
    repeat = 2 if options.quick else options.repeat

    def graph(name: str) -> Path:
        folder: Path = options.folder / name
        emit(name, folder)
        return folder

    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors.")
    print(f"Medians of {repeat} runs.\n")
    with tempfile.TemporaryDirectory() as path:
        scratch = Path(path)
        shown = [name for name in SIDE_BY_SIDE if name in wanted]
        if shown or found or "starting" in wanted:
            print(HEADING)
        if "starting" in wanted:
            for line in starting(repeat, scratch):
                print(line, flush=True)
        for name, place in [*((name, graph(name)) for name in shown), *found.items()]:
            for line in side_by_side(name, place, repeat, scratch):
                print(line, flush=True)
        if "worst" in wanted:
            print()
            for line in worst(options.folder, repeat, scratch):
                print(line, flush=True)
        if "phases" in wanted:
            print()
            folders = {name: graph(name) for name in (PHASES[:1] if options.quick else PHASES)}
            print("\n".join(phases(folders, repeat, scratch)), flush=True)
        if "growth" in wanted:
            print()
            for line in growth(options.folder, repeat, scratch):
                print(line, flush=True)
        if "schema-errors" in wanted:
            print()
            print("\n".join(broken(graph("schema-errors"), repeat, scratch)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
