"""The table of rules: each explains itself, and has its own file of cases."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from mirage_gate.rules import Rule, all_rules
from tests import rules
from tests.rules import CASES

FOLDER = Path(rules.__path__[0])


def module_of(rule: Rule) -> str:
    """The module of a rule's cases: its file stands as the rule's own does."""
    return f"tests.rules.{rule.folder}.test_{rule.name.replace('-', '_')}"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_a_file_with_both_kinds_of_case(rule: Rule) -> None:
    importlib.import_module(module_of(rule))
    mine = [case for case in CASES if case.module == module_of(rule)]
    assert {case.rule for case in mine} == {rule.id}
    assert {case.fires for case in mine} == {True, False}


def test_every_file_of_cases_has_a_rule() -> None:
    files = {f"tests.rules.{file.parent.name}.{file.stem}" for file in FOLDER.glob("*/test_*.py")}
    assert files == {module_of(rule) for rule in all_rules()}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_explains_itself(rule: Rule) -> None:
    for text in ("claim", "why", "example", "fix"):
        assert getattr(rule, text).strip()
    claim = rule.claim
    assert "\n" not in claim
    assert claim.endswith(".")
