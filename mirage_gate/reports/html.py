"""One page for a browser: the verdict, the wiring map, every finding with its code.

The page is one file that fetches nothing. What it shows of the artifacts is escaped by
Jinja2; its one script, which only adds keys and a line of detail to the map, is named by
hash in the page's own security policy, so that no other can run.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.resources import files as resources
from typing import Any

import jinja2
import msgspec

from mirage_gate import __url__, __version__
from mirage_gate.escaping import plain
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.report import Coverage, RankReport, Report
from mirage_gate.reports import Context, _plan, _words
from mirage_gate.reports._drawing import Drawing, drawing
from mirage_gate.reports._excerpts import Excerpts, Line
from mirage_gate.reports._paths import relative, shown
from mirage_gate.reports._wiring_map import Cell, Map, Row, wiring_map
from mirage_gate.rules import Rule, rule_by_id

NAME = "html"
DESCRIPTION = "a page to open: the wiring map, every finding with its code and event path"
BY_LAYER = True

_MOST_CARDS = 200
_MOST_FINDINGS = 2_000
_MOST_PLACES = 8
_MOST_CELLS = 40_000
_MOST_FOLDERS = 4

_RULE_ID = re.compile(r"[A-Z]{2}\d{1,6}")
"""What may stand in a selector; a rule of another version may be called anything."""


class Place(msgspec.Struct, frozen=True):
    """A location as the page shows it."""

    where: str
    note: str
    lines: list[Line]


class Listed(msgspec.Struct, frozen=True):
    """A finding that has a line and no card."""

    rule: str
    severity: Severity
    text: str


class Filters(msgspec.Struct, frozen=True):
    """What the findings can be filtered by: (severity, count) and (rule, its name, count)."""

    severities: list[tuple[Severity, int]]
    rules: list[tuple[str, str, int]]


class Card(msgspec.Struct, frozen=True):
    """Findings in the same words, with all that belongs to them."""

    id: str
    first: Finding
    rule: Rule | None
    ranks: str
    place: Place
    related: list[Place]
    more_places: int
    trace: list[Place]
    drawing: Drawing | None


class Sheet(msgspec.Struct, frozen=True):
    """The map of the ranks that are wired alike."""

    title: str
    map: Map
    drawn: bool
    width: int
    tight: bool
    type_names: dict[int, str]


def render(report: Report, context: Context) -> str:
    """Give the whole report as one HTML page."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_part),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(plain=plain, tip=_tip, short=_short)
    script, style = _part("page.js"), _part("style.css")
    folders = _folders(report, context)
    cards, lines, left_out = _cards(report, context)
    page = environment.get_template("page.html.j2").render(
        title=_title(report, context),
        verdict=_words.verdict(report, context.fail_on),
        found=_words.found(report),
        size=_words.size(report),
        failures=[_failure(rank, context) for rank in report.failed_ranks],
        critical=_critical(report),
        sheets=_sheets(report),
        plans=_plan.sheets(report.ranks, [(card.id, card.first) for card in cards]),
        levels=[(s, [card for card in cards if card.first.severity is s]) for s in Severity],
        lines=lines,
        left_out=left_out,
        filters=_filters(cards, lines),
        folders=folders[:_MOST_FOLDERS],
        more_folders=max(0, len(folders) - _MOST_FOLDERS),
        commit=_commit(report, context),
        anchor=_anchors(cards),
        count=_words.count,
        rule_url=_words.rule_url,
        version=__version__,
        url=__url__,
        script=script,
        script_hash=_hash(script),
        style=style,
    )
    # A lone surrogate is no character of any encoding.
    return page.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _part(name: str) -> str:
    return resources("mirage_gate.reports").joinpath("_page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def _title(report: Report, context: Context) -> str:
    verdict = _words.verdict(report, context.fail_on).lower()
    of = f" ({plain(folders[0])})" if len(folders := _folders(report, context)) == 1 else ""
    return f"mirage-gate: {verdict}, {_words.found(report)}{of}"


def _folders(report: Report, context: Context) -> list[str]:
    """The folders that were audited, in the ranks' order."""
    paths = [shown(rank.cuda_path or rank.graph_path, context.root) for rank in report.ranks]
    return list(dict.fromkeys(os.path.dirname(path) or "." for path in paths if path))  # noqa: PTH120


def _commit(report: Report, context: Context) -> str:
    """The commit that is checked out, where all that was audited lies in its repository."""
    paths = [rank.cuda_path or rank.graph_path for rank in report.ranks]
    return "" if None in (relative(path, context.root) for path in paths) else context.commit


def _failure(rank: RankReport, context: Context) -> dict[str, Any]:
    path = rank.cuda_path or rank.graph_path
    return {"rank": rank.rank, "path": shown(path, context.root), "reason": rank.failure}


# --- Tensors ---------------------------------------------------------------------------


def _critical(report: Report) -> tuple[int, int]:
    """How many critical tensors are read, and how many there are."""
    tensors = [c for rank in report.ranks for c in rank.coverage if c.critical]
    return sum(tensor.consumers > 0 for tensor in tensors), len(tensors)


def _sheets(report: Report) -> list[Sheet]:
    alike: list[tuple[object, list[RankReport]]] = []
    for rank in report.ranks:
        if not rank.audited or not rank.coverage:
            continue
        key = [_unplaced(tensor) for tensor in rank.coverage]
        same = next((ranks for other, ranks in alike if other == key), None)
        if same is None:
            alike.append((key, [rank]))
        else:
            same.append(rank)
    sheets = []
    cells = 0
    for _, ranks in alike:
        first = ranks[0]
        drawn_up = wiring_map(first)
        cells += sum(len(rows) for _, rows in drawn_up.groups) * len(drawn_up.columns)
        title = _words.ranks(rank.rank for rank in ranks)
        width, tight = _measures(drawn_up)
        drawn = cells <= _MOST_CELLS
        sheets.append(Sheet(title, drawn_up, drawn, width, tight, first.type_names))
    return sheets


def _measures(drawn: Map) -> tuple[int, bool]:
    """Give (how wide a map is in rem, whether its many cells are small ones).

    Where there is less room than that, the page says that the map scrolls.
    """
    rows = [row for _, of_group in drawn.groups for row in of_group]
    columns = len(drawn.columns)
    most = max((cell.consumers for row in rows for cell in row.cells), default=0)
    tight = columns > 40 and most < 100
    # The sizes of style.css: a cell of a usual, a dense and a tight map, and a role's column.
    cell = 1.02 if tight else 2.0 if columns > 16 else 2.75
    label = min(21, 0.5 * max((len(row.role) for row in rows), default=0) + 2)
    return round(label + columns * cell) + 1, tight


def _unplaced(tensor: Coverage) -> Coverage:
    return msgspec.structs.replace(tensor, location=Location(""))


def _tip(cell: Cell, row: Row, sheet: Sheet) -> str:
    """All there is to say of a cell, in a line."""
    where = "Outside of the layers" if cell.layer is None else f"Layer {cell.layer}"
    name = plain(cell.declared.tensor if cell.declared else row.role)
    parts = []
    if cell.consumers:
        kinds = ", ".join(
            f"{sheet.type_names.get(code, 'task type')} ({code})" for code in cell.task_types
        )
        parts.append(f"read by {_words.count(cell.consumers, 'task')}")
        parts.append(kinds)
        if cell.first_consumer >= 0:
            parts.append(f"first: task {cell.first_consumer}")
        if cell.nbytes:
            parts.append(_words.count(cell.nbytes, "byte"))
    if cell.producers:
        parts.append(f"written by {_words.count(cell.producers, 'task')}")
    if not parts:
        carried = cell.declared and cell.declared.input_refs and not cell.declared.consumers
        nothing = "carried, and no kernel reads it" if carried else "nothing here"
        missing = {"hole": "no task reads it", "gap": "nothing here, unlike in the other layers"}
        parts.append(missing.get(cell.state, nothing))
    if cell.declared and cell.declared.location.placed:
        parts.append(f"declared at line {cell.declared.location.line:,}")
    return f"{where}, {name}: {'; '.join(parts)}"


def _short(number: int) -> str:
    """A count in at most four characters."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0")[:3].rstrip(".") + unit
    return str(number)


# --- Findings --------------------------------------------------------------------------


def _cards(report: Report, context: Context) -> tuple[list[Card], list[Listed], int]:
    """Give (findings with all their parts, further ones as a line each, how many more)."""
    groups = report.distinct
    whole = groups[:_MOST_CARDS]
    places = [
        place
        for same in whole
        for place in (same[0].location, *same[0].related[:_MOST_PLACES], *same[0].trace)
    ]
    excerpts = Excerpts(places)
    several = len(report.ranks) > 1
    cards = []
    for number, same in enumerate(whole, 1):
        first = same[0]
        cards.append(
            Card(
                id=f"finding-{number}",
                first=first,
                rule=rule_by_id(first.rule),
                ranks=_words.ranks(f.rank for f in same) if several else "",
                place=_place(first.location, excerpts, context, 2),
                related=[_place(p, excerpts, context, 0) for p in first.related[:_MOST_PLACES]],
                more_places=max(0, len(first.related) - _MOST_PLACES),
                trace=[_place(step, excerpts, context, 0) for step in first.trace],
                drawing=drawing(first),
            )
        )
    listed = groups[_MOST_CARDS:_MOST_FINDINGS]
    lines = [_line(same[0], context) for same in listed]
    return cards, lines, max(0, len(groups) - _MOST_FINDINGS)


def _line(finding: Finding, context: Context) -> Listed:
    where = f"{shown(finding.location.path, context.root)}:{max(1, finding.location.line)}"
    text = f"{where}: {_words.name(finding.rule)} {finding.severity}: {finding.message}"
    return Listed(finding.rule, finding.severity, text)


def _filters(cards: Sequence[Card], lines: Sequence[Listed]) -> Filters:
    rules = Counter([*(card.first.rule for card in cards), *(line.rule for line in lines)])
    levels = Counter([*(c.first.severity for c in cards), *(line.severity for line in lines)])
    return Filters(
        [(severity, levels[severity]) for severity in Severity if levels[severity]],
        [
            (rule, _words.name(rule), number)
            for rule, number in sorted(rules.items())
            if _RULE_ID.fullmatch(rule)
        ],
    )


def _place(place: Location, excerpts: Excerpts, context: Context, around: int) -> Place:
    path = shown(place.path, context.root)
    where = f"{path}:{place.line}" if place.placed else path
    return Place(where, place.note, excerpts.of(place, around))


def _anchors(cards: Sequence[Card]) -> Callable[[Row], str]:
    """Give a function that finds the first finding about a row that is no mere note."""
    anchors: dict[str, str] = {}
    for card in cards:
        if card.first.tensor and card.first.severity is not Severity.NOTE:
            anchors.setdefault(card.first.tensor, card.id)
    return lambda row: next((anchors[name] for name in row.tensors if name in anchors), "")
