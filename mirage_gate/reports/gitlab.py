"""GitLab's Code Quality report: findings in a merge request's widget and on its lines.

GitLab takes a subset of Code Climate's format: an array whose entries have a description, a
rule, a severity, a place and a fingerprint. It tells old findings from new ones by the
fingerprint alone, so that one must not move when lines and task numbers do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from mirage_gate.escaping import plain
from mirage_gate.findings import INPUT, Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, _words
from mirage_gate.reports._paths import shown

NAME = "gitlab"
DESCRIPTION = "for GitLab merge requests: a Code Quality report"

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.NOTE: "info"}
_NUMBER = re.compile(r"\d[\d,]*")


def render(report: Report, context: Context) -> str:
    """Give the whole report as one JSON array, in ASCII."""
    return json.dumps(list(_entries(report, context)), ensure_ascii=True, indent=2) + "\n"


def _entries(report: Report, context: Context) -> Iterator[dict[str, Any]]:
    times: dict[tuple[str, ...], int] = {}

    def entry(
        rule: str, severity: str, words: str, path: str, line: int, of: str
    ) -> dict[str, Any]:
        where = shown(path, context.root)
        same = (rule, where, of, _NUMBER.sub("#", words))
        times[same] = times.get(same, 0) + 1
        mark = json.dumps([*same, times[same]])
        return {
            "description": plain(words),
            "check_name": plain(_words.name(rule)),
            "fingerprint": sha256(mark.encode("ascii")).hexdigest(),
            "severity": severity,
            "location": {"path": where, "lines": {"begin": max(1, line)}},
        }

    told = {finding.rank for finding in report.findings if finding.rule.startswith(INPUT)}
    for rank in report.failed_ranks:
        if rank.rank not in told:
            words = f"rank {rank.rank} was not audited: {rank.failure}"
            yield entry("not-audited", "blocker", words, rank.cuda_path or rank.graph_path, 1, "")
    several = len(report.ranks) > 1
    for same in report.distinct:
        first = same[0]
        words = first.message
        if several:
            words += f" ({_words.ranks(finding.rank for finding in same)})"
        if first.hint:
            words += f". {first.hint}"
        at = first.location
        yield entry(first.rule, _SEVERITIES[first.severity], words, at.path, at.line, first.tensor)
