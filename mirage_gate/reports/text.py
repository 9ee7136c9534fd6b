"""The report for a terminal: a verdict per critical tensor, every finding, one last line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby

import msgspec

from mirage_gate.findings import Finding, Location, Severity, in_order
from mirage_gate.report import Coverage, RankReport, Report
from mirage_gate.reports import Context
from mirage_gate.reports._escape import plain
from mirage_gate.reports._paths import shown

NAME = "text"
DESCRIPTION = "for people: a line per critical tensor, every finding with its place and a hint"

_LISTED = 8
"""How many names or places a line lists before it counts the rest."""

Paint = Callable[[str, str], str]


def render(report: Report, context: Context) -> str:
    """Give the whole report as text."""
    paint = _painter(context)
    quiet = context.verbosity < 0
    blocks: list[list[str]] = []
    if not quiet:
        blocks += (list(_rank_lines(same, report, context, paint)) for same in _alike(report))
    failed = list(_failure_lines(report, context, paint))
    findings = [
        list(_finding_lines(same, report, context, paint))
        for same in _folded(report.findings)
        if not quiet or _fails(same[0].severity, context)
    ]
    blocks.append(failed)
    # Quiet findings are one line each and stand close together.
    blocks += [list(chain.from_iterable(findings))] if quiet else findings
    blocks.append(list(_verdict_lines(report, context, paint)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _painter(context: Context) -> Paint:
    if not context.color:
        return lambda text, _: text
    import click

    return lambda text, color: click.style(text, fg=color, bold=True)


_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def _fails(severity: Severity, context: Context) -> bool:
    return context.fail_on != "never" and severity.weight >= Severity(context.fail_on).weight


# --- Ranks -----------------------------------------------------------------------------


def _alike(report: Report) -> list[list[RankReport]]:
    """Group the audited ranks that have the same thing to say, in order of the first."""
    groups: dict[object, list[RankReport]] = {}
    for rank in report.ranks:
        if rank.audited:
            unplaced = (msgspec.structs.replace(c, location=Location("")) for c in rank.coverage)
            key = (rank.tasks, rank.events, rank.tensors, tuple(unplaced))
            groups.setdefault(key, []).append(rank)
    return list(groups.values())


def _rank_lines(
    same: Sequence[RankReport], report: Report, context: Context, paint: Paint
) -> Iterator[str]:
    first = same[0]
    size = ", ".join(
        [
            _count(first.tasks, "task"),
            _count(first.events, "event"),
            _count(first.tensors, "tensor"),
        ]
    )
    where = ""
    if len({rank.rank for rank in report.ranks}) < len(report.ranks):
        # Several folders were audited, and a rank's number does not tell which it is of.
        paths = [plain(shown(rank.cuda_path, context.root)) for rank in same]
        where = f" ({_listed(paths, context)})"
    each = " each" if len(same) > 1 else ""
    yield f"{_ranks(rank.rank for rank in same)}{where}: {size}{each}"
    for tensor in first.coverage:
        if tensor.critical:
            yield _critical_line(tensor, paint)
    yield from _info_line("write-only", _write_only(first.coverage), context)
    yield from _info_line("dead", _dead(first.coverage), context)


def _critical_line(tensor: Coverage, paint: Paint) -> str:
    name = plain(tensor.tensor)
    if tensor.consumers:
        types = ", ".join(map(str, tensor.consumer_task_types))
        return (
            f"{paint('[OK]', 'green')} {name}: input_refs={tensor.input_refs} "
            f"consumer_task_types=[{types}]"
        )
    carried = ", but no task that carries it reads it" if tensor.input_refs else ""
    return f"{paint('[MISSING-WIRING]', 'red')} {name}: input_refs={tensor.input_refs}{carried}"


def _write_only(coverage: Iterable[Coverage]) -> list[str]:
    return [c.tensor for c in _ordinary(coverage) if c.output_refs and not c.input_refs]


def _dead(coverage: Iterable[Coverage]) -> list[str]:
    return [c.tensor for c in _ordinary(coverage) if not c.output_refs and not c.input_refs]


def _ordinary(coverage: Iterable[Coverage]) -> Iterator[Coverage]:
    """The tensors that have no line of their own; ``nullptr`` stands for no tensor at all."""
    return (c for c in coverage if not c.critical and c.kind != "sentinel")


def _info_line(what: str, names: list[str], context: Context) -> Iterator[str]:
    if names:
        yield f"INFO {what}: {_listed([plain(name) for name in names], context)}"


def _failure_lines(report: Report, context: Context, paint: Paint) -> Iterator[str]:
    for rank in report.failed_ranks:
        path = rank.cuda_path or rank.graph_path
        where = f" ({plain(shown(path, context.root))})" if path else ""
        label = f"{_ranks([rank.rank])}{where}"
        yield f"{label}: {paint('NOT AUDITED', 'red')}: {plain(rank.failure)}"


# --- Findings --------------------------------------------------------------------------


def _folded(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Put together what several ranks say in the same words; the first of each leads.

    A rank that says the same twice, of two places, says it twice.
    """
    groups: dict[object, list[Finding]] = {}
    times: dict[object, int] = {}
    for finding in in_order(findings):
        words = (
            finding.rule,
            finding.severity,
            finding.message,
            finding.hint,
            finding.tensor,
            tuple(place.note for place in finding.related),
            tuple(place.note for place in finding.trace),
        )
        source = (words, finding.rank, os.path.dirname(finding.location.path))  # noqa: PTH120
        times[source] = times.get(source, 0) + 1
        groups.setdefault((words, times[source]), []).append(finding)
    return list(groups.values())


def _finding_lines(
    same: Sequence[Finding], report: Report, context: Context, paint: Paint
) -> Iterator[str]:
    first = same[0]
    severity = paint(str(first.severity), _COLORS[first.severity])
    ranks = sorted({finding.rank for finding in same})
    # With one rank in all there is nothing to tell apart.
    of = f" ({_ranks(ranks)})" if len(report.ranks) > 1 else ""
    where = _place(first.location, context)
    yield f"{where}: {plain(first.rule)} {severity}: {plain(first.message)}{of}"
    if context.verbosity < 0:
        return
    if first.hint:
        yield f"  hint: {plain(first.hint)}"
    others = [_place(finding.location, context) for finding in same[1:]]
    if others := [place for place in dict.fromkeys(others) if place != where]:
        yield f"  also: {_listed(others, context)}"
    limit = len(first.related) if context.verbosity > 0 else _LISTED
    for place in first.related[:limit]:
        yield f"  {_noted(place, context)}"
    if (more := len(first.related) - limit) > 0:
        yield f"  ... and {_count(more, 'more place')}"
    for number, step in enumerate(first.trace, 1):
        yield f"  {number}. {_noted(step, context)}"


def _place(place: Location, context: Context) -> str:
    path = plain(shown(place.path, context.root))
    return f"{path}:{place.line}:{place.column}" if place.placed else path


def _noted(place: Location, context: Context) -> str:
    where = _place(place, context)
    return f"{where}: {plain(place.note)}" if place.note else where


# --- Verdict ---------------------------------------------------------------------------


def _verdict_lines(report: Report, context: Context, paint: Paint) -> Iterator[str]:
    audited = [rank for rank in report.ranks if rank.audited]
    failed = len(report.failed_ranks)
    status = report.exit_status(context.fail_on)
    if audited and not context.verbosity < 0:
        yield from _checked_lines(audited)
    if not audited:
        word = paint("NOTHING AUDITED", "red")
    else:
        word = paint("FAILED", "red") if status else paint("PASSED", "green")
    counts = [
        _count(number, str(severity)) for severity in _COLORS if (number := report.count(severity))
    ]
    found = ", ".join(counts) or "no findings"
    size = (
        f" ({_count(sum(rank.tasks for rank in audited), 'task')}, "
        f"{_count(sum(rank.tensors for rank in audited), 'tensor')})"
    )
    missed = f", {_count(failed, 'rank')} not audited" if failed else ""
    yield (
        f"mirage-gate: {word}, {found} in {_count(len(audited), 'rank')}"
        f"{size if audited else ''}{missed} in {report.seconds:.2f} s"
    )


def _checked_lines(audited: Sequence[RankReport]) -> Iterator[str]:
    """Say what was proved and what was not: a bare pass invites to believe too much."""
    tensors = [tensor for rank in audited for tensor in rank.coverage]
    critical = [tensor for tensor in tensors if tensor.critical]
    loaded = [tensor for tensor in tensors if tensor.kind in ("host", "shuffled")]
    if critical:
        read = sum(tensor.consumers > 0 for tensor in critical)
        yield f"checked: {read:,} of {_count(len(critical), 'critical tensor')} read by a task"
    else:
        yield "checked: no tensor is critical here, so nothing is known of the position encoding"
    if loaded:
        used = sum(tensor.consumers > 0 or tensor.producers > 0 for tensor in loaded)
        of = _count(len(loaded), "loaded tensor")
        yield f"checked: {used:,} of {of} read or written by a task"
    yield "not checked: what the kernels compute (this proves structure, not numerics)"


# --- Words -----------------------------------------------------------------------------


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ranks(numbers: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-3, 6``."""
    ordered = sorted(set(numbers))
    spans = []
    for _, run in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0]):
        span = [number for _, number in run]
        spans.append(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]))
    return f"rank{'s' if len(ordered) > 1 else ''} {', '.join(spans)}"


def _listed(names: Sequence[str], context: Context) -> str:
    """``a, b, c``; past a few, how many more unless all are asked for."""
    if context.verbosity > 0 or len(names) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED:,} more"
