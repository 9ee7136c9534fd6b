"""How many findings there are of what: by rule, and by the role of the tensor they are about."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mirage_gate.artifacts.names import role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import Report
from mirage_gate.reports import _words


class Line(msgspec.Struct, frozen=True):
    """Some findings: of what, how many, their highest severity, the rules that have them."""

    of: str
    count: int
    severity: Severity
    rules: tuple[str, ...]


def by_rule(report: Report) -> list[Line]:
    """Count by rule, those of most weight first."""
    return _lines(report, lambda finding: _words.name(finding.rule))


def by_role(report: Report) -> list[Line]:
    """Count by role: ``layer_N_q_norm`` for that tensor of every layer."""
    return _lines(report, lambda f: role_of(f.tensor) if f.tensor else "about no one tensor")


def _lines(report: Report, key: Callable[[Finding], str]) -> list[Line]:
    groups: dict[str, list[Finding]] = {}
    for same in report.distinct:
        groups.setdefault(key(same[0]), []).append(same[0])
    lines = [
        Line(
            of,
            len(findings),
            max((finding.severity for finding in findings), key=lambda s: s.weight),
            tuple(sorted({finding.rule for finding in findings})),
        )
        for of, findings in groups.items()
    ]
    return sorted(lines, key=lambda line: (-line.severity.weight, -line.count, line.of))
