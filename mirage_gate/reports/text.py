"""The report for a terminal: a verdict per critical tensor, every finding, one last line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath

from mirage_gate.artifacts.cuda import LOADED
from mirage_gate.escaping import plain
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.report import Coverage, RankReport, Report
from mirage_gate.reports import Context, _words
from mirage_gate.reports import _statistics as statistics
from mirage_gate.reports._paths import shown

NAME = "text"
DESCRIPTION = "for people: a line per critical tensor, every finding with its place and a hint"

_LISTED = 8
"""How many names or places a line lists before it counts the rest."""
_EXPLAINED = 6
"""How many rules the last lines name."""
_NOTES = 3
"""How many notes of one rule are shown before they are counted."""

Paint = Callable[[str, str], str]


def render(report: Report, context: Context) -> str:
    """Give the whole report as text."""
    paint = _painter(context)
    quiet = context.verbosity < 0
    blocks: list[list[str]] = []
    if not quiet:
        blocks += _rank_blocks(report, context, paint)
    blocks.append(list(_failure_lines(report, context, paint)))
    groups = [
        same
        for same in report.distinct
        if not quiet or _words.fails(same[0].severity, context.fail_on)
    ]
    findings = [list(_finding_lines(same, report, context, paint)) for same in groups]
    if context.statistics:
        blocks += _statistics_blocks(report)
    elif quiet:
        # Quiet findings are one line each and stand close together.
        blocks.append(list(chain.from_iterable(findings)))
    elif context.verbosity > 0:
        blocks += findings
    else:
        notes = [same for same in groups if _is_aside(same[0], context)]
        # Notes sort last.
        blocks += findings[: len(groups) - len(notes)]
        blocks.append(list(_note_blocks(notes, report, context, paint)))
    blocks.append(list(_hidden_lines(report, context)))
    blocks.append(list(_verdict_lines(report, context, paint)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _painter(context: Context) -> Paint:
    if not context.color:
        return lambda text, _: text
    import click

    return lambda text, color: click.style(text, fg=color, bold=True)


_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def _is_aside(finding: Finding, context: Context) -> bool:
    """Whether a finding is a note that the verdict does not rest on: one line is enough."""
    return finding.severity is Severity.NOTE and not _words.fails(finding.severity, context.fail_on)


# --- Ranks -----------------------------------------------------------------------------


def _rank_blocks(report: Report, context: Context, paint: Paint) -> Iterator[list[str]]:
    """One block for the audited ranks that have the same lines, in order of the first."""
    groups: dict[tuple[str, ...], list[RankReport]] = {}
    for rank in report.ranks:
        if rank.audited:
            lines = tuple(_rank_lines(rank, report, context, paint))
            groups.setdefault(lines, []).append(rank)
    ambiguous = len({rank.rank for rank in report.ranks}) < len(report.ranks)
    for (size, *listed), same in groups.items():
        where = ""
        if ambiguous:
            # Several folders were audited, and a rank's number does not tell which it is of.
            paths = [plain(shown(rank.cuda_path, context.root)) for rank in same]
            where = f" ({_listed(paths, context)})"
        each = " each" if len(same) > 1 else ""
        yield [f"{_words.ranks(rank.rank for rank in same)}{where}: {size}{each}", *listed]


def _rank_lines(rank: RankReport, report: Report, context: Context, paint: Paint) -> Iterator[str]:
    yield ", ".join(
        [
            _words.count(rank.tasks, "task"),
            _words.count(rank.events, "event"),
            _words.count(rank.tensors, "tensor"),
        ]
    )
    places = _words.holed(report)
    waived = {
        (place.path, place.line)
        for finding in report.hidden
        if finding.severity is Severity.ERROR
        for place in (finding.location, *finding.related)
    }
    for tensor in rank.coverage:
        if tensor.critical:
            at = (tensor.location.path, tensor.location.line)
            yield _critical_line(tensor, at in places, at in waived, paint)
    yield from _info_line("write-only", _write_only(rank.coverage), context)
    yield from _info_line("dead", _dead(rank.coverage), context)


def _critical_line(tensor: Coverage, holed: bool, waived: bool, paint: Paint) -> str:
    """``waived``: an error about the tensor is hidden by a waiver or a baseline."""
    name = plain(tensor.tensor)
    hidden = paint("[WAIVED]", "yellow")
    if tensor.consumers:
        types = ", ".join(map(str, tensor.consumer_task_types))
        word = paint("[OK]", "green")
        if holed or waived:
            word = paint("[PARTLY-WIRED]", "red") if holed else hidden
        refs = f"input_refs={tensor.input_refs} consumer_task_types=[{types}]"
        return f"{word} {name}: {refs}{', and not in every layer' if holed else ''}"
    carried = ", but no task that carries it reads it" if tensor.input_refs else ""
    word = hidden if waived else paint("[MISSING-WIRING]", "red")
    return f"{word} {name}: input_refs={tensor.input_refs}{carried}"


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
        label = f"{_words.ranks([rank.rank])}{where}"
        yield f"{label}: {paint('NOT AUDITED', 'red')}: {plain(rank.failure)}"


# --- Findings --------------------------------------------------------------------------


def _note_blocks(
    notes: Sequence[list[Finding]], report: Report, context: Context, paint: Paint
) -> Iterator[str]:
    """One line for each note, a few for each rule, and none where the line above says it."""
    dead = {tensor for rank in report.ranks for tensor in _dead(rank.coverage)}
    hidden: dict[str, int] = {}
    shown: dict[str, int] = {}
    for same in notes:
        rule = same[0].rule
        told = rule == "MG103" and same[0].tensor in dead
        if told or shown.get(rule, 0) == _NOTES:
            hidden[rule] = hidden.get(rule, 0) + 1
            continue
        shown[rule] = shown.get(rule, 0) + 1
        yield from _finding_lines(same, report, context, paint)
    if hidden:
        rules = ", ".join(
            f"{plain(_words.name(rule))} {number:,} times"
            if len(hidden) > 1
            else plain(_words.name(rule))
            for rule, number in hidden.items()
        )
        total = _words.count(sum(hidden.values()), "more note" if shown else "note")
        yield f"{total} ({rules}): -v lists {'it' if sum(hidden.values()) == 1 else 'them'}"


def _statistics_blocks(report: Report) -> Iterator[list[str]]:
    """Count the findings in place of listing them: by rule, then by what they are about."""
    rules = statistics.by_rule(report)
    if rules:
        yield [
            "findings by rule",
            *(f"{line.count:7,}  {line.severity!s:7}  {plain(line.of)}" for line in rules),
        ]
        yield [
            "findings by role",
            *(
                f"{line.count:7,}  {line.severity!s:7}  {plain(line.of)}: {', '.join(line.rules)}"
                for line in statistics.by_role(report)
            ),
        ]


def _finding_lines(
    same: Sequence[Finding], report: Report, context: Context, paint: Paint
) -> Iterator[str]:
    first = same[0]
    severity = paint(str(first.severity), _COLORS[first.severity])
    ranks = sorted({finding.rank for finding in same})
    # With one rank in all there is nothing to tell apart.
    of = f" ({_words.ranks(ranks)})" if len(report.ranks) > 1 else ""
    where = _place(first.location, context)
    yield f"{where}: {plain(_words.name(first.rule))} {severity}: {plain(first.message)}{of}"
    if context.verbosity < 0 or (context.verbosity == 0 and _is_aside(first, context)):
        return
    if first.hint:
        yield f"  hint: {plain(first.hint)}"
    others = [_place(finding.location, context) for finding in same[1:]]
    if others := [place for place in dict.fromkeys(others) if place != where]:
        yield f"  also: {_listed(others, context)}"
    verbose = context.verbosity > 0
    # A trace goes through the same places, and says more of them.
    related = first.related if verbose or not first.trace else ()
    limit = len(related) if verbose else _LISTED
    for place in related[:limit]:
        yield f"  {_noted(place, context)}"
    if (more := len(related) - limit) > 0:
        yield f"  ... and {_words.count(more, 'more place')}"
    for number, step in enumerate(first.trace, 1):
        yield f"  {number}. {_noted(step, context)}"


def _place(place: Location, context: Context) -> str:
    path = plain(shown(place.path, context.root))
    return f"{path}:{place.line}:{place.column}" if place.placed else path


def _noted(place: Location, context: Context) -> str:
    where = _place(place, context)
    return f"{where}: {plain(place.note)}" if place.note else where


def _hidden_lines(report: Report, context: Context) -> Iterator[str]:
    """List what waivers and the baseline hide, if that is asked for."""
    for finding in report.hidden if context.hidden else ():
        where = _place(finding.location, context)
        what = f"{_words.name(finding.rule)} {finding.severity}: {plain(finding.message)}"
        yield f"hidden: {where}: {what} ({plain(finding.hidden)})"


# --- Verdict ---------------------------------------------------------------------------


def _verdict_lines(report: Report, context: Context, paint: Paint) -> Iterator[str]:
    audited = [rank for rank in report.ranks if rank.audited]
    if audited and not context.verbosity < 0:
        yield from _compared_lines(report, context)
        yield from _checked_lines(audited)
        if context.verbosity > 0:
            every = dict.fromkeys(line for rank in audited for line in rank.unchecked)
            yield from (f"not checked: {plain(line)}" for line in every)
        yield from _model_lines(report, context)
    loud = (same[0] for same in report.distinct if not _is_aside(same[0], context))
    rules = list(dict.fromkeys(finding.rule for finding in loud))
    if rules and not context.verbosity < 0:
        named = " ".join(map(plain, rules[:_EXPLAINED]))
        left = len(rules) - _EXPLAINED
        more = f" (and {_words.count(left, 'more rule')})" if left > 0 else ""
        yield f"explained: `mirage-gate explain {named}` says why, and how to mend it{more}"
    word = _words.verdict(report, context.fail_on)
    color = "green" if word == "PASSED" else "red"
    # No word of how long it took: what a report says of two files it says each time.
    yield f"mirage-gate: {paint(word, color)}, {_words.found(report)} in {_words.size(report)}"


def _compared_lines(report: Report, context: Context) -> Iterator[str]:
    """Say which ranks were held to each other."""
    for run in report.compared:
        if len(run.ranks) > 1:
            folders = [plain(shown(folder or ".", context.root)) for folder in run.folders]
            yield f"compared: {_words.ranks(run.ranks)} ({_listed(folders, context)})"


def _checked_lines(audited: Sequence[RankReport]) -> Iterator[str]:
    """Say what was proved and what was not: a bare pass invites to believe too much."""
    tensors = [tensor for rank in audited for tensor in rank.coverage]
    critical = [tensor for tensor in tensors if tensor.critical]
    loaded = [tensor for tensor in tensors if tensor.kind in LOADED]
    if critical:
        read = sum(tensor.consumers > 0 for tensor in critical)
        of = _words.count(len(critical), "critical tensor")
        yield f"checked: {read:,} of {of} read by a task"
    else:
        yield "checked: no tensor is critical here, so nothing is known of the position encoding"
    if loaded:
        used = sum(tensor.consumers > 0 or tensor.producers > 0 for tensor in loaded)
        of = _words.count(len(loaded), "loaded tensor")
        yield f"checked: {used:,} of {of} read or written by a task"
    yield "not checked: what the kernels compute (this proves structure, not numerics)"


def _model_lines(report: Report, context: Context) -> Iterator[str]:
    """Say what the model was held to, or that it was to nothing."""
    meant = report.meant
    held = []
    if meant.config:
        name = f" ({plain(meant.name)})" if meant.name else ""
        held.append(f"{plain(PurePath(meant.config).name)}{name}")
    if meant.checkpoint:
        held.append(_words.count(meant.weights, "weight"))
    if not held:
        yield "model: not given, so what every layer does alike is not proven"
        return
    yield f"model: checked against {' and '.join(held)}"
    if meant.unread and context.verbosity > 0:
        keys = _words.count(len(meant.unread), "key")
        yield f"model: {keys} that promised nothing: {_listed(meant.unread, context)}"


# --- Words -----------------------------------------------------------------------------


def _listed(names: Sequence[str], context: Context) -> str:
    """``a, b, c``; past a few, how many more unless all are asked for."""
    if context.verbosity > 0 or len(names) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED:,} more"
