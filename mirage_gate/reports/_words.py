"""The phrases that reports share: counts, ranks, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from mirage_gate import __url__
from mirage_gate.escaping import plain
from mirage_gate.findings import Severity
from mirage_gate.report import FailOn, Report
from mirage_gate.rules import rule_by_id


def rule_url(rule: str) -> str:
    """Where the documentation tells of a rule."""
    return f"{__url__}/blob/main/docs/rules.md#{rule.lower()}"


def name(rule: str) -> str:
    """Name a rule by both: ``MG103 unused-buffer``. One of another version has its id alone."""
    known = rule_by_id(rule)
    return f"{rule} {known.name}" if known else rule


def count(number: int, noun: str) -> str:
    """Count things: ``1 task``, ``13,646 tasks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def spans(numbers: Iterable[int]) -> str:
    """``0-3, 6``: numbers in order, those that follow each other as a span."""
    parts = []
    for _, run in groupby(enumerate(sorted(set(numbers))), lambda pair: pair[1] - pair[0]):
        span = [number for _, number in run]
        parts.append(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]))
    return ", ".join(parts)


def ranks(numbers: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-3, 6``."""
    listed = set(numbers)
    return f"rank{'s' * (len(listed) > 1)} {spans(listed)}"


def found(report: Report) -> str:
    """Count the findings by severity: ``2 errors, 1 note``, ``no findings, 1 waived``.

    And say which rules were not asked: what they would have said counts as nothing.
    """
    counts = [
        count(number, str(severity)) for severity in Severity if (number := report.count(severity))
    ]
    counts = counts or ["no findings"]
    counts += [f"{report.below:,} below --min-severity"] if report.below else []
    counts += [f"{report.waived:,} waived"] if report.waived else []
    counts += [f"{report.known:,} known from the baseline"] if report.known else []
    counts += [f"only {_words(report.selected)} asked"] if report.selected else []
    counts += [f"{_words(report.ignored)} ignored"] if report.ignored else []
    return ", ".join(counts)


_MOST_WORDS = 6


def _words(words: Sequence[str]) -> str:
    """``MG101``, ``MG1 and MG203``: what was said of rules, as it was said."""
    shown = [plain(word) for word in dict.fromkeys(words)]
    if len(shown) > _MOST_WORDS:
        shown[_MOST_WORDS:] = [f"{len(shown) - _MOST_WORDS} more"]
    *others, last = shown
    return f"{', '.join(others)} and {last}" if others else last


def verdict(report: Report, fail_on: FailOn) -> str:
    """Give the verdict's word."""
    if not any(rank.audited for rank in report.ranks):
        return "NOTHING AUDITED"
    return "FAILED" if report.exit_status(fail_on) else "PASSED"


def holed(report: Report) -> set[tuple[str, int]]:
    """Where tensors are declared that are read somewhere, and missing in some layer."""
    return {
        (place.path, place.line)
        for finding in report.findings
        if finding.severity is Severity.ERROR and finding.rule.startswith("MG7")
        for place in finding.related
    }


def fails(severity: Severity, fail_on: FailOn) -> bool:
    """Whether a finding of this severity fails the gate."""
    return fail_on != "never" and severity.weight >= Severity(fail_on).weight


def size(report: Report) -> str:
    """Say what was audited: ``1 rank (13,646 tasks, 126 tensors)``, and what was not."""
    audited = [rank for rank in report.ranks if rank.audited]
    text = count(len(audited), "rank")
    if audited:
        tasks = count(sum(rank.tasks for rank in audited), "task")
        text += f" ({tasks}, {count(sum(rank.tensors for rank in audited), 'tensor')})"
    if missed := len(report.failed_ranks):
        text += f", {count(missed, 'rank')} not audited"
    return text
