"""What cannot be taken in says so, and never passes."""

from __future__ import annotations

import json

import pytest

from mirage_gate import audit
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import Report
from tests.emitter import Pair, qwen3


def refused(report: Report, rule: str) -> Finding:
    """The one finding of a run in which nothing was audited."""
    assert [rank.audited for rank in report.ranks] == [False]
    assert report.ranks[0].failure
    assert report.exit_status() == 2
    assert report.exit_status("never") == 2
    (finding,) = report.findings
    assert finding.rule == rule
    assert finding.severity is Severity.ERROR
    return finding


def texts(pair: Pair) -> tuple[str, str]:
    return pair.cuda_text(), pair.json_text()


@pytest.mark.parametrize("graph", ["", " \n", "null", "[]", "12", '"x"', "{}", "{"])
def test_what_is_no_graph(graph: str) -> None:
    report = audit(qwen3(1).emit().cuda_text(), graph)
    assert report.exit_status() == 2
    assert {finding.rule for finding in report.findings} <= {"MG901", "MG902"}
    assert report.findings


def test_integers_above_two_to_the_53_stay_exact() -> None:
    pair = qwen3(1).emit()
    pair.graph["all_tasks"][5]["inputs"][0]["offset"] = 2**62 + 1
    report = audit(*texts(pair))
    assert any(str(2**62 + 1) in finding.message for finding in report.findings)


def test_what_cannot_be_read_cannot_be_ignored_away() -> None:
    from mirage_gate import Selection

    pair = qwen3(1).emit()
    report = audit(pair.cuda_text(), "{", selection=Selection(select=("MG101",), ignore=("MG9",)))
    refused(report, "MG902")


def test_a_byte_order_mark_and_other_layouts_change_nothing() -> None:
    cuda, graph = texts(qwen3(2).without_rope().emit())
    base = [(f.rule, f.tensor) for f in audit(cuda, graph).findings]
    compact = json.dumps(json.loads(graph), separators=(",", ":"))
    for other in ("\ufeff" + graph, graph.replace("\n", "\r\n"), compact):
        assert [(f.rule, f.tensor) for f in audit(cuda, other).findings] == base


@pytest.mark.parametrize("broken", ["facts.regions.Regions.of", "facts.wiring.Wiring.consumers"])
def test_a_mistake_of_our_own_fails_the_rank(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a rule, and in what is counted for the reports."""

    def raises(*_: object) -> int:
        raise RuntimeError("a mistake of our own")

    monkeypatch.setattr(f"mirage_gate.{broken}", raises)
    pair = qwen3(1).without_rope().emit()
    report = audit(*texts(pair))
    assert not report.ranks[0].audited
    assert "internal error" in report.ranks[0].failure
    assert report.exit_status("never") != 0
