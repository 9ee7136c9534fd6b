"""JUnit XML, which CI servers show as tests.

A suite for each rank. Its cases are that the audit ran to its end, that each critical tensor
is read, and one for each rule with findings, which fails if they fail the gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from mirage_gate.escaping import plain
from mirage_gate.findings import Finding, Location, in_order
from mirage_gate.report import RankReport, Report
from mirage_gate.reports import Context, _words
from mirage_gate.reports._paths import shown

NAME = "junit"
DESCRIPTION = "for CI servers: JUnit XML, a test case per critical tensor and rule"

_MOST_LISTED = 100
_COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def render(report: Report, context: Context) -> str:
    """Give the whole report as one JUnit XML document."""
    root = ET.Element("testsuites", name="mirage-gate")
    several = len({rank.rank for rank in report.ranks}) < len(report.ranks)
    for rank in report.ranks:
        path = plain(shown(rank.cuda_path or rank.graph_path, context.root))
        name = f"rank {rank.rank} ({path})" if several else f"rank {rank.rank}"
        own = [finding for finding in in_order(report.findings) if _is_of(finding, rank, report)]
        root.append(_suite(name, list(_cases(rank, own, context))))
    if not report.ranks:
        root.append(_suite("mirage-gate", [_errored("audit", "nothing was audited")]))
    for count in ("tests", *_COUNTS):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return declaration + ET.tostring(root, encoding="unicode") + "\n"


def _is_of(finding: Finding, rank: RankReport, report: Report) -> bool:
    """Whether a finding belongs to a pair: the first of its rank, where folders share ranks."""
    if finding.rank != rank.rank:
        return False
    same = [other for other in report.ranks if other.rank == rank.rank]
    paths = {finding.location.path, *(place.path for place in finding.related)}
    at = [other for other in same if {other.cuda_path, other.graph_path} & paths]
    return rank is (at or same)[0]


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    for count, tag in _COUNTS.items():
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    for case in cases:
        case.set("classname", f"mirage-gate.{name}")
        suite.append(case)
    return suite


def _cases(rank: RankReport, findings: list[Finding], context: Context) -> Iterator[ET.Element]:
    if not rank.audited:
        yield _errored("audit", plain(rank.failure))
    else:
        yield ET.Element("testcase", name="audit")
    told: set[str] = set()
    for tensor in rank.coverage:
        if tensor.critical:
            name = plain(tensor.tensor)
            case = ET.Element("testcase", name=f"{name} is read by a task")
            of = [f for f in findings if f.tensor == tensor.tensor and f.rule in ("MG101", "MG107")]
            if of:
                told.add(tensor.tensor)
                _judge(case, of, context)
            elif not tensor.consumers:
                # The rule that would say so is off, or the finding is waived.
                ET.SubElement(case, "skipped", message="no task reads it; nothing is reported")
            yield case
    rest = [f for f in findings if not (f.tensor in told and f.rule in ("MG101", "MG107"))]
    for id, of_rule in groupby(sorted(rest, key=lambda f: f.rule), key=lambda f: f.rule):
        case = ET.Element("testcase", name=plain(_words.name(id)))
        _judge(case, in_order(of_rule), context)
        yield case


def _judge(case: ET.Element, findings: Sequence[Finding], context: Context) -> None:
    """Let a case fail if its findings fail the gate; else it passes and says them."""
    first = findings[0].location
    case.set("file", plain(shown(first.path, context.root)))
    case.set("line", str(max(1, first.line)))
    lines = [_line(finding, context) for finding in findings[:_MOST_LISTED]]
    if (more := len(findings) - _MOST_LISTED) > 0:
        lines.append(f"and {more:,} more")
    if any(_words.fails(finding.severity, context.fail_on) for finding in findings):
        words = plain(findings[0].message)
        tag = ET.SubElement(case, "failure", message=words, type=plain(findings[0].rule))
    else:
        tag = ET.SubElement(case, "system-out")
    tag.text = "\n".join(lines)


def _errored(name: str, reason: str) -> ET.Element:
    case = ET.Element("testcase", name=name)
    error = ET.SubElement(case, "error", message=reason or "not audited", type="NotAudited")
    error.text = reason
    return case


def _line(finding: Finding, context: Context) -> str:
    hint = f"\n  hint: {plain(finding.hint)}" if finding.hint else ""
    return (
        f"{_place(finding.location, context)}: {plain(finding.rule)} {finding.severity}: "
        f"{plain(finding.message)}{hint}"
    )


def _place(place: Location, context: Context) -> str:
    return f"{plain(shown(place.path, context.root))}:{max(1, place.line)}"
