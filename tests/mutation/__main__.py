"""The whole run: `python -m tests.mutation`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from .registry import DEFECTS
from .run import UNUSUAL, Outcome, Tally, mutants, operators, run
from .subjects import names, ranks_of


def _work(job: tuple[str, int, tuple[str, ...], int, int]) -> list[Outcome]:
    name, rank, wanted, most, seed = job
    return list(run(name, rank, operators(wanted), most, seed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("operators", nargs="*", help="names, or how they begin; default all")
    parser.add_argument("--subject", action="append", help="only subjects that contain this")
    parser.add_argument(
        "--each",
        type=int,
        default=5,
        help="mutants per operator and subject; fewer of the big ones",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=3, help="failures to print per operator")
    parser.add_argument("--write", type=Path, help="a folder for the files of what went wrong")
    options = parser.parse_args()
    started = time.perf_counter()
    jobs = [
        (name, rank, tuple(options.operators), options.each, options.seed)
        for name in names()
        if not options.subject or any(part in name for part in options.subject)
        for rank in sorted({0, min(1, ranks_of(name) - 1)})
    ]
    if not options.subject or UNUSUAL in options.subject:
        jobs.append((UNUSUAL, 0, tuple(options.operators), options.each, options.seed))
    tallies: dict[str, Tally] = defaultdict(Tally)
    with ProcessPoolExecutor(options.jobs) as pool:
        for outcomes in pool.map(_work, reversed(jobs)):
            for outcome in outcomes:
                tallies[outcome.operator].add(outcome)
    wrong = _table("defects", [o for o in tallies if o in DEFECTS], tallies, options.show)
    wrong += _table("harmless", [o for o in tallies if o not in DEFECTS], tallies, options.show)
    if options.write:
        for tally in tallies.values():
            for outcome in tally.bad:
                _write(outcome, options.write)
    print(f"{time.perf_counter() - started:.0f} s, seed {options.seed}")
    return int(wrong > 0)


def _table(kind: str, listed: list[str], tallies: dict[str, Tally], show: int) -> int:
    if not listed:
        return 0
    word = "stopped" if kind == "defects" else "silent"
    print(f"{kind:52} {'made':>6} {word:>8} {'error':>6} {'line':>11}")
    total = Tally()
    for name in listed:
        tally = tallies[name]
        _row(name, tally)
        for part in ("made", "good", "error", "line", "lined"):
            setattr(total, part, getattr(total, part) + getattr(tally, part))
    _row("all", total)
    for name in listed:
        for outcome in tallies[name].bad[:show]:
            place = f"{outcome.subject}/{outcome.rank} seed {outcome.seed} #{outcome.number}"
            print(f"\n{name} {place}: {outcome.what}")
            for said in outcome.verdict.said[:4] or ("nothing was said",):
                print(f"    {said}")
    return total.made - total.good


def _write(outcome: Outcome, folder: Path) -> None:
    """Make a mutant once more, and write its files."""
    (operator,) = (op for op in operators([outcome.operator]) if op.name == outcome.operator)
    made = mutants(operator, outcome.subject, outcome.rank, outcome.seed)
    mutant = next(islice(made, outcome.number, None))
    rank = outcome.rank
    names = (f"kernel_{rank}.cu", f"task_graph_{rank}.json")
    files = mutant.files or dict(zip(names, (mutant.cuda, mutant.graph), strict=True))
    place = folder / f"{outcome.operator}-{outcome.subject}-{rank}-{outcome.number}"
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (place / name).write_bytes(data)


def _row(name: str, tally: Tally) -> None:
    lined = f"{tally.line}/{tally.lined}" if tally.lined else ""
    rate = f"{100 * tally.good / tally.made:.1f}%" if tally.made else ""
    print(f"{name:52} {tally.made:6} {tally.good:6} {rate:>6} {tally.error:6} {lined:>11}")


if __name__ == "__main__":
    sys.exit(main())
