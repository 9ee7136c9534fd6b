"""GitHub-flavoured Markdown: the summary page of a job, or a comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mirage_gate.escaping import markdown, markdown_code
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.report import Coverage, RankReport, Report
from mirage_gate.reports import Context, _words
from mirage_gate.reports._paths import shown
from mirage_gate.rules import rule_by_id

NAME = "markdown"
DESCRIPTION = "for a job's summary page: verdict, critical tensors, findings"
BY_LAYER = True

MOST_BYTES = 1_000_000
"""GitHub refuses a summary of more than 1 MiB."""
_MOST_PLACES = 8
_MOST_STEPS = 20
_MOST_TENSORS = 200
_MOST_FAILURES = 100

_MARKS = {"PASSED": "✅", "FAILED": "❌", "NOTHING AUDITED": "❌"}
_LEVELS = {Severity.ERROR: "🔴", Severity.WARNING: "🟡", Severity.NOTE: "🔵"}


def render(report: Report, context: Context) -> str:
    """Give the whole report as one page of Markdown."""
    verdict = _words.verdict(report, context.fail_on)
    page = [
        f"## {_MARKS[verdict]} mirage-gate: {verdict.lower()}",
        f"{_words.found(report).capitalize()} in {_words.size(report)}.",
        *_failures(report, context),
        *_tensors(report),
    ]
    room = MOST_BYTES - sum(_size(part) for part in page)
    page += _findings(report, context, room)
    page.append("*Checked is the structure of the graph, not what the kernels compute.*")
    return "\n\n".join(page) + "\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", errors="backslashreplace")) + 2


def _failures(report: Report, context: Context) -> Iterator[str]:
    for rank in report.failed_ranks[:_MOST_FAILURES]:
        path = rank.cuda_path or rank.graph_path
        where = f" ({markdown_code(shown(path, context.root))})" if path else ""
        yield f"❌ **Rank {rank.rank} was not audited**{where}: {markdown(rank.failure)}"
    if (more := len(report.failed_ranks) - _MOST_FAILURES) > 0:
        yield f"❌ {_words.count(more, 'more rank')} not audited."


# --- Critical tensors ------------------------------------------------------------------


def _tensors(report: Report) -> Iterator[str]:
    """A table of the critical tensors, the ranks that say the same in one row."""
    rows: dict[str, list[int]] = {}
    holed = _words.holed(report)
    for rank in report.ranks:
        for tensor in rank.coverage:
            if tensor.critical:
                rows.setdefault(_row(tensor, rank, holed), []).append(rank.rank)
    if not rows:
        return
    many = len(report.ranks) > 1
    lines = [
        f"| | critical tensor | input_refs | read by | layers |{' ranks |' * many}",
        f"|---|---|--:|---|---|{'---|' * many}",
    ]
    for row, numbers in list(rows.items())[:_MOST_TENSORS]:
        ranks = f" {_words.ranks(numbers).split(' ', 1)[1]} |" if many else ""
        lines.append(f"{row}{ranks}")
    yield "\n".join(lines)
    if (more := len(rows) - _MOST_TENSORS) > 0:
        yield f"{_words.count(more, 'more row')} left out."


def _row(tensor: Coverage, rank: RankReport, holed: set[tuple[str, int]]) -> str:
    at = (tensor.location.path, tensor.location.line)
    mark = "✅" if tensor.consumers and at not in holed else "❌"
    name = markdown_code(tensor.tensor, cell=True)
    kinds = ", ".join(
        f"{markdown_code(rank.type_names.get(code, 'task type'), cell=True)} ({code})"
        for code in tensor.consumer_task_types
    )
    layers = _words.spans(
        use.layer for use in tensor.layers if use.consumers and use.layer is not None
    )
    return (
        f"| {mark} | {name} | {tensor.input_refs:,} | {kinds or '**no task**'} | {layers or '-'} |"
    )


# --- Findings --------------------------------------------------------------------------


def _findings(report: Report, context: Context, room: int) -> Iterator[str]:
    groups = report.distinct
    for severity in Severity:
        same_level = [same for same in groups if same[0].severity is severity]
        if not same_level:
            continue
        heading = f"{_LEVELS[severity]} {_words.count(len(same_level), str(severity))}"
        items: list[str] = []
        for number, same in enumerate(same_level):
            item = "\n".join(_item(same, report, context))
            room -= _size(item)
            if room < 0:
                more = _words.count(len(same_level) - number, f"more {severity}")
                items.append(f"- {more} left out: a summary has no room for them.")
                break
            items.append(item)
        listing = "\n".join(items)
        if severity is Severity.NOTE:
            yield f"<details><summary>{heading}</summary>\n\n{listing}\n\n</details>"
        else:
            yield f"### {heading}\n\n{listing}"


def _item(same: Sequence[Finding], report: Report, context: Context) -> Iterator[str]:
    first = same[0]
    rule = rule_by_id(first.rule)
    label = markdown_code(first.rule)
    link = f"[{label}]({_words.rule_url(rule.id)})" if rule else label
    of = f" ({_words.ranks(finding.rank for finding in same)})" if len(report.ranks) > 1 else ""
    yield f"- **{link}** {markdown(first.message)}{of}  "
    yield f"  {_place(first.location, context)}"
    if first.severity is not Severity.NOTE:
        if first.hint:
            yield f"  - Fix: {markdown(first.hint)}"
        yield from _places(first.related, context)
        if first.trace:
            yield "  - Trace:"
            for number, step in enumerate(first.trace[:_MOST_STEPS], 1):
                yield f"    {number}. {_noted(step, context)}"


def _places(places: Iterable[Location], context: Context) -> Iterator[str]:
    listed = list(dict.fromkeys(_noted(place, context) for place in places))
    for place in listed[:_MOST_PLACES]:
        yield f"  - {place}"
    if (more := len(listed) - _MOST_PLACES) > 0:
        yield f"  - {_words.count(more, 'more place')}"


def _noted(place: Location, context: Context) -> str:
    where = _place(place, context)
    return f"{where}: {markdown(place.note)}" if place.note else where


def _place(place: Location, context: Context) -> str:
    path = shown(place.path, context.root)
    return markdown_code(f"{path}:{place.line}" if place.placed else path)
