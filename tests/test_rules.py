"""Every rule fires where it must, on the exact line, and is silent next door."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.rules as cases
from mirage_gate.findings import Severity
from mirage_gate.rules import Rule, all_rules
from tests.rules import CASES, Case, findings_of, graph_line, line_of

for _module in pkgutil.iter_modules(cases.__path__):
    importlib.import_module(f"tests.rules.{_module.name}")


@pytest.mark.parametrize("case", [c for c in CASES if c.fires], ids=lambda case: case.name)
def test_the_rule_fires(case: Case) -> None:
    pair = case.build()
    found = findings_of(case)
    assert found, "the rule said nothing"
    if case.cuda:
        expected = line_of(pair.cuda_text(), case.cuda)
        found = [f for f in found if f.location.path.endswith(".cu")]
    elif case.graph:
        path = case.graph(pair) if callable(case.graph) else case.graph
        expected = graph_line(pair, path)
        found = [f for f in found if f.location.path.endswith(".json")]
    else:
        expected = 1
    assert expected in [f.location.line for f in found]
    finding = next(f for f in found if f.location.line == expected)
    assert finding.severity is case.severity
    for words in case.says:
        assert words in finding.message
    assert finding.hint
    assert all(location.placed for location in (*finding.related, *finding.trace))


@pytest.mark.parametrize("case", [c for c in CASES if not c.fires], ids=lambda case: case.name)
def test_the_rule_is_silent_next_door(case: Case) -> None:
    said = findings_of(case)
    assert [f for f in said if not (case.notes and f.severity is Severity.NOTE)] == []


@pytest.mark.parametrize("rule", [r for r in all_rules() if r.family in {"MG1", "MG2", "MG5"}])
def test_every_rule_has_both_kinds_of_case(rule: Rule) -> None:
    kinds = {case.fires for case in CASES if case.rule == rule.id}
    assert kinds == {True, False}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_explains_itself(rule: Rule) -> None:
    for text in ("claim", "why", "example", "fix"):
        assert getattr(rule, text).strip()
    claim = rule.claim
    assert "\n" not in claim
    assert claim.endswith(".")
