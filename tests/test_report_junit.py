"""JUnit XML, read by junitparser."""

from __future__ import annotations

import os
from typing import Any

import junitparser
import msgspec

from mirage_gate.findings import Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, junit
from tests.findings import at, coverage, finding, hostile, not_audited, rank, report


def read(of: Report, **settings: Any) -> Any:
    text = junit.render(of, Context(root=os.getcwd(), **settings))  # noqa: PTH109
    return junitparser.JUnitXml.fromstring(text.encode())


def outcomes(suite: Any) -> dict[str, str]:
    return {
        case.name: "passed" if case.is_passed else type(case.result[0]).__name__.lower()
        for case in suite
    }


def test_a_suite_for_each_rank() -> None:
    of = report(
        finding("critical tensor rope_sin is unread", tensor="rope_sin", location=at(line=7)),
        finding("odd", "MG104", Severity.WARNING),
        finding("so", "MG103", Severity.NOTE),
        ranks=(
            rank(0, coverage("rope_cos", 4, critical=True), coverage("rope_sin", critical=True)),
            not_audited(1, "no graph"),
        ),
    )
    xml = read(of)
    assert (xml.tests, xml.failures, xml.errors) == (6, 1, 1)
    first, second = xml
    assert outcomes(first) == {
        "audit": "passed",
        "rope_cos is read by a task": "passed",
        "rope_sin is read by a task": "failure",
        "MG103 unused-buffer": "passed",
        "MG104 never-read": "passed",
    }
    assert outcomes(second) == {"audit": "error"}
    failed = next(case for case in first if not case.is_passed)
    assert failed.result[0].message == "critical tensor rope_sin is unread"
    assert "kernel_0.cu:7: MG101 error: critical" in failed.result[0].text
    assert "odd" in next(case for case in first if "MG104" in case.name).system_out


def test_the_bar_decides_what_fails() -> None:
    of = report(finding("odd", "MG104", Severity.WARNING))
    assert read(of).failures == 0
    assert read(of, fail_on="warning").failures == 1
    assert read(report(finding()), fail_on="never").failures == 0


def test_a_waived_hole_does_not_pass_for_wired() -> None:
    of = report(ranks=(rank(0, coverage("rope_cos", critical=True)),))
    (suite,) = read(of)
    assert outcomes(suite)["rope_cos is read by a task"] == "skipped"


def test_nothing_audited_is_an_error() -> None:
    assert read(Report((), ())).errors == 1


def test_folders_with_the_same_ranks_keep_their_findings() -> None:
    of = report(
        finding(location=at("b/kernel_0.cu")),
        finding("w", "MG104", location=at("a/task_graph_0.json")),
        ranks=(rank(0, folder="a/"), rank(0, folder="b/")),
    )
    one, other = read(of)
    assert one.name == "rank 0 (a/kernel_0.cu)"
    assert list(outcomes(one)) == ["audit", "MG104 never-read"]
    assert list(outcomes(other)) == ["audit", "MG101 unwired-critical-tensor"]


def test_no_finding_is_lost() -> None:
    findings = [msgspec.structs.replace(f, rank=n % 3) for n, f in enumerate(hostile())]
    xml = read(report(*findings, ranks=tuple(map(rank, range(3)))))
    told = "".join(case.result[0].text for suite in xml for case in suite if case.result)
    assert told.count("MG101 error:") == len(findings)
