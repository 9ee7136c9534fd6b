"""The plan as the page draws it: a row for each operator, the residual stream beside them.

The drawing is boxes and lines of the page's own style sheet: it grows with the text, reflows on
a narrow screen, and needs no script.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mirage_gate.escaping import visible
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import PlanBlock, PlanLine, RankReport
from mirage_gate.reports import _words

_TASK = re.compile(r"/all_tasks/(\d+)(?:/|$)")
_MOST_LINES = 3_000
_MOST_MARKS = 6


class Mark(msgspec.Struct, frozen=True):
    """A finding that lies in an operator, and its card. ``where`` is the layer."""

    rule: str
    severity: Severity
    card: str
    where: str


class Row(msgspec.Struct, frozen=True):
    """One operator of the drawing.

    ``takes``: a value of the stream goes to it; ``gives``: its result goes to the stream;
    ``follows``: what the row above gives goes to it.
    """

    line: PlanLine
    takes: bool
    gives: bool
    follows: bool
    marks: list[Mark]


class Drawn(msgspec.Struct, frozen=True):
    """One class of layers, or what stands outside of them."""

    title: str
    layers: int
    rows: list[Row]


class Sheet(msgspec.Struct, frozen=True):
    """The plan of the ranks that compute the same; ``left_out`` rows are not drawn."""

    title: str
    blocks: list[Drawn]
    left_out: int


def sheets(ranks: Sequence[RankReport], cards: Iterable[tuple[str, Finding]]) -> list[Sheet]:
    """Draw the plans of some ranks, those that are the same once."""
    alike: dict[object, list[RankReport]] = {}
    for rank in ranks:
        if rank.plan:
            key = tuple((b.title, tuple(line.text for line in b.lines)) for b in rank.plan)
            alike.setdefault(key, []).append(rank)
    found = list(cards)
    drawn: list[Sheet] = []
    ambiguous = len({rank.rank for rank in ranks}) < len(ranks)
    for same in alike.values():
        title = _words.ranks(rank.rank for rank in same)
        files = {path for rank in same for path in (rank.cuda_path, rank.graph_path)}
        if ambiguous:  # several folders: a rank's number does not tell which
            folders = dict.fromkeys(os.path.dirname(rank.cuda_path) or "." for rank in same)  # noqa: PTH120
            title += f" ({', '.join(map(visible, folders))})"
        own = [
            (card, finding)
            for card, finding in found
            if any(place.path in files for place in finding.places)
        ]
        left = _MOST_LINES - sum(len(b.rows) for sheet in drawn for b in sheet.blocks)
        drawn.append(_sheet(title, same[0].plan, own, left))
    return drawn


def _sheet(
    title: str, plan: Sequence[PlanBlock], found: list[tuple[str, Finding]], most: int
) -> Sheet:
    marks = _marks(plan, found)
    stream: set[str] = set()
    blocks: list[Drawn] = []
    left_out = 0
    for b, block in enumerate(plan):
        rows: list[Row] = []
        for n, line in enumerate(block.lines):
            takes = any(value in stream for value in line.values)
            # What two branches give is no stream before it meets the stream.
            gives = line.passes or (line.adds and (takes or line.operator == "embedding"))
            if gives:
                stream |= set(line.results)
            else:
                stream -= set(line.results)
            above = block.lines[n - 1].results if n else ()
            follows = any(value in above for value in line.values) and not (n and rows[-1].gives)
            rows.append(Row(line, takes, gives, follows, marks.get((b, n), [])))
        left_out += max(0, len(rows) - max(0, most))
        rows = rows[: max(0, most)]
        most -= len(rows)
        if rows:
            blocks.append(Drawn(block.title, len(block.layers), rows))
    return Sheet(title, blocks, left_out)


def _marks(
    plan: Sequence[PlanBlock], found: list[tuple[str, Finding]]
) -> dict[tuple[int, int], list[Mark]]:
    """Find the operator that each finding's task is of: the last that begins before it."""
    begins = sorted(
        (task, b, n, at)
        for b, block in enumerate(plan)
        for n, line in enumerate(block.lines)
        for at, task in enumerate(line.first_tasks)
    )
    marks: dict[tuple[int, int], list[Mark]] = {}
    for card, finding in found:
        if finding.severity is Severity.NOTE:
            continue
        place = next(_tasks(finding), None)
        at = bisect_right(begins, place, key=lambda begin: begin[0]) - 1 if place else -1
        if at < 0:
            continue
        _, b, n, layer = begins[at]
        block = plan[b]
        where = f"layer {block.layers[layer]}" if len(block.layers) > 1 else ""
        own = marks.setdefault((b, n), [])
        if len(own) < _MOST_MARKS:
            own.append(Mark(finding.rule, finding.severity, card, where))
    return marks


def _tasks(finding: Finding) -> Iterator[int]:
    for place in (finding.location, *finding.related, *finding.trace):
        if task := _TASK.match(place.pointer):
            yield int(task[1])
