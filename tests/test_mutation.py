"""A slice of the mutation run: every defect stopped, nothing said about what is harmless.

Each operator is tried once, and of a defect the rules are asked that are to stop it; slow tests
ask all of them, on every subject. The whole of it is `python -m tests.mutation`; see
tests/mutation.
"""

from __future__ import annotations

import pytest

from tests.mutation.registry import DEFECTS, HARMLESS, Operator
from tests.mutation.run import UNUSUAL, Outcome, operators, run

SUBJECTS = ("qwen3", "qwen3-fused", "qwen3-tp2", "qwen3-moe")


def _said(outcomes: list[Outcome]) -> list[str]:
    return [
        f"{o.operator} #{o.number} of {o.subject}: {o.what}: {o.verdict.said[:3] or 'nothing'}"
        for o in outcomes
        if not o.verdict.good
    ]


def _once(wanted: list[Operator]) -> list[Outcome]:
    """The first mutant that each operator makes, of the first subject that it can change."""
    outcomes: list[Outcome] = []
    for name in (*SUBJECTS, "deepseek"):
        tried = {outcome.operator for outcome in outcomes}
        left = [op for op in wanted if op.name not in tried]
        outcomes += run(name, 0, left, most=1, narrow=True)
    return outcomes


def test_each_defect_is_stopped() -> None:
    wanted = [op for op in operators() if op.name in DEFECTS]
    outcomes = _once(wanted)
    assert len(outcomes) > 0.95 * len(wanted)
    assert _said(outcomes) == []


def test_each_harmless_change_raises_no_alarm() -> None:
    wanted = [op for op in operators() if op.name in HARMLESS and not op.model]
    outcomes = _once(wanted)
    assert len(outcomes) > 0.95 * len(wanted)
    assert _said(outcomes) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_defect_is_stopped(name: str) -> None:
    wanted = [op for op in operators() if op.name in DEFECTS]
    outcomes = list(run(name, 0, wanted, most=2))
    assert len(outcomes) > 120
    assert _said(outcomes) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_what_is_harmless_raises_no_alarm(name: str) -> None:
    wanted = [op for op in operators() if op.name in HARMLESS]
    outcomes = list(run(name, 0, wanted, most=2))
    assert len(outcomes) > 25
    assert _said(outcomes) == []


@pytest.mark.parametrize("most", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_unusual_models_raise_no_alarm(most: int) -> None:
    slow = {"other_tensor_parallel_splits", "other_dialects", "other_names"}
    wanted = [op for op in operators() if op.model and op.name not in slow]
    assert _said(list(run(UNUSUAL, 0, wanted, most))) == []


@pytest.mark.parametrize("operator", operators(), ids=lambda operator: operator.name)
def test_every_operator_says_why(operator: object) -> None:
    assert str(getattr(operator, "reason", "")).strip()
