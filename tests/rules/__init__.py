"""Cases for the rules: for each, pairs on which it fires and nearest neighbours it passes.

A module here is found by itself. A case is a function that returns a pair:

    @fires("MG101", cuda='all_tensors["rope_cos"]')
    def no_layer_reads_the_tables() -> Pair: ...

    @silent("MG101")
    def one_layer_is_enough() -> Pair: ...

``cuda`` is the text of the line the finding must be on, ``graph`` the path of the JSON value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirage_gate.auditing.ranks import audit
from mirage_gate.facts import Options
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import Report
from tests.emitter import Pair

Build = Callable[[], Pair]
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """One pair and what one rule must say of it."""

    rule: str
    build: Build
    fires: bool
    severity: Severity = Severity.ERROR
    cuda: str = ""
    graph: Path | Callable[[Pair], Path] = ()
    says: tuple[str, ...] = ()
    notes: bool = False
    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.build.__name__}"


CASES: list[Case] = []


def fires(
    rule: str,
    severity: Severity = Severity.ERROR,
    *,
    cuda: str = "",
    graph: Path | Callable[[Pair], Path] = (),
    says: tuple[str, ...] = (),
    options: Options | None = None,
) -> Callable[[Build], Build]:
    """The rule must fire, with this severity, exactly on this line, and say these words."""

    def decorate(build: Build) -> Build:
        case = Case(rule, build, True, severity, cuda, graph, says, options=options or Options())
        CASES.append(case)
        return build

    return decorate


def silent(
    rule: str, *, notes: bool = False, options: Options | None = None
) -> Callable[[Build], Build]:
    """The rule must say nothing, or nothing above a note."""

    def decorate(build: Build) -> Build:
        CASES.append(Case(rule, build, False, notes=notes, options=options or Options()))
        return build

    return decorate


def report_of(pair: Pair, options: Options | None = None) -> Report:
    """Audit a pair's texts."""
    return audit(pair.cuda_text(), pair.json_text(), rank=pair.rank, options=options)


def findings_of(case: Case) -> list[Finding]:
    """What the case's rule says of its pair."""
    report = report_of(case.build(), case.options)
    return [finding for finding in report.findings if finding.rule == case.rule]


def line_of(text: str, part: str) -> int:
    """The 1-based number of the first line that contains ``part``."""
    return next(n for n, line in enumerate(text.split("\n"), 1) if part in line)


def graph_line(pair: Pair, path: Path) -> int:
    """The line of a JSON value: where a marker in its place would stand."""
    marker = 987_654_321_012
    graph: Any = copy.deepcopy(pair.graph)
    node = graph
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = marker
    marked = copy.copy(pair)
    marked.graph = graph
    return line_of(marked.json_text(), str(marker))


def where(pair: Pair, task_type: int, *path: str | int, nth: int = 0) -> Path:
    """The path of something in the nth task of a type."""
    tasks = [i for i, t in enumerate(pair.graph["all_tasks"]) if t["task_type"] == task_type]
    return ("all_tasks", tasks[nth], *path)


def with_text(pair: Pair, text: str) -> Pair:
    """A pair whose .cu is this text."""

    class Texted(Pair):
        def cuda_text(self) -> str:
            return text

    pair.__class__ = Texted
    return pair
