"""Where the time and the memory of one audit go.

    python benchmarks/phases.py FOLDER [--json]

Takes the steps of ``mirage-gate check FOLDER -o sarif`` one by one, in the order in which a
run takes them, and says of each how long it took and how high the memory had been by then.
Facts that several rules share are derived first, each as a step of its own, so that a rule's
time is its own. The parts of a run that happen outside of it (starting Python, ending it)
are in ``run.py``'s figures and not in these.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage_gate.findings import Finding

FACTS = tuple(
    f"facts.{name}" for name in ("events", "layers", "order", "regions", "siblings", "wiring")
)
"""Loaded when a rule asks for them; here before, so that a step's time is its own."""

STEPS: list[tuple[str, float, float]] = []
"""(Name, seconds, highest memory so far in MiB) of each step."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Take the CPU time of one step."""
    start = time.process_time()
    yield
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    STEPS.append((name, seconds, peak / (2**20 if sys.platform == "darwin" else 2**10)))


def audit(folder: str) -> None:
    """Take every step of an audit of the first rank in a folder."""
    with step("import"):
        for module in ("cli", "agreed.summarizing", "artifacts.positions", *FACTS):
            import_module(f"mirage_gate.{module}")
        from mirage_gate.artifacts import cuda as cuda_files
        from mirage_gate.artifacts import files, graph, loader, pairs
        from mirage_gate.artifacts.graph_text import GraphText
        from mirage_gate.auditing.asking import silent_in_short
        from mirage_gate.facts import Options, RankFacts
        from mirage_gate.findings import in_order
        from mirage_gate.report import RankReport, Report
        from mirage_gate.reports import Context, load
        from mirage_gate.rules import all_rules

        rules = all_rules()
    pair = pairs.find([folder])[0]
    gc.disable()  # as an audit does
    with step("read the .cu"):
        cuda = cuda_files.parse(pair.cuda, files.read(pair.cuda))
    with step("read the graph and decode it"):
        text = GraphText.open(pair.graph)
        decoded = loader.load(text)
    if isinstance(decoded, graph.Refusal):
        raise SystemExit(f"{pair.graph}: the schema refuses it")
    facts = RankFacts(pair.rank, cuda, decoded, pair.graph, Options())
    with step("facts: layers that repeat"):
        short = facts.shortened
    for whole, of in ((False, short.facts if short else facts), (True, facts)):
        if whole and not short:
            continue
        name = "the whole" if whole or not short else "the short graph"
        with step(f"facts of {name}: wiring"):
            of.wiring.groups if whole else of.wiring.accesses  # noqa: B018 - derived when looked at
        with step(f"facts of {name}: layers"):
            of.layers.of_group  # noqa: B018
        if whole:
            continue  # the rest only if a rule finds something
        with step(f"facts of {name}: regions"):
            for tensor in of.regions.names:
                of.regions.of(tensor)
        with step(f"facts of {name}: events"):
            of.events.before, of.events.run  # noqa: B018
        with step(f"facts of {name}: order"):
            of.order.tensors  # noqa: B018
    found: list[Finding] = []
    for rule in rules:
        if rule.check is not None and rule.scope == "rank":
            with step(f"rule {rule.id} {rule.name}"):
                if not silent_in_short(rule, facts):
                    found += rule.check(facts)
    with step("place the findings"):
        text.placer(place for finding in found for place in finding.places)
    with step("report as SARIF"):
        rank = RankReport(pair.rank, pair.cuda, pair.graph, audited=True)
        context = Context(root=folder, fail_on="error", color=False, verbosity=0)
        load("sarif").render(Report((rank,), in_order(found), 0.0), context)
    with step("let go of the facts"):
        facts.release()
        del decoded


def main(arguments: list[str]) -> int:
    """Print the steps of one audit."""
    folder, *options = arguments or ["."]
    audit(folder)
    if "--json" in options:
        print(json.dumps(STEPS))
        return 0
    total = sum(seconds for _, seconds, _ in STEPS)
    for name, seconds, peak in STEPS:
        if seconds >= total / 200:
            print(f"{name:<42}{seconds:8.3f} s {seconds / total:6.1%}{peak:8.0f} MiB")
    small = sum(seconds for _, seconds, _ in STEPS if seconds < total / 200)
    print(f"{'all other steps':<42}{small:8.3f} s {small / total:6.1%}")
    print(f"{'in all':<42}{total:8.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
