"""A slice of the mutation run: every defect stopped, nothing said about what is harmless.

The whole of it is `python -m tests.mutation`; see tests/mutation.
"""

from __future__ import annotations

import pytest

from tests.mutation.registry import DEFECTS, HARMLESS
from tests.mutation.run import UNUSUAL, Outcome, operators, run

SUBJECTS = ("qwen3", "qwen3-fused", "qwen3-tp2", "qwen3-moe")


def _said(outcomes: list[Outcome]) -> list[str]:
    return [
        f"{o.operator} #{o.number} of {o.subject}: {o.what}: {o.verdict.said[:3] or 'nothing'}"
        for o in outcomes
        if not o.verdict.good
    ]


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_defect_is_stopped(name: str) -> None:
    wanted = [op for op in operators() if op.name in DEFECTS]
    outcomes = list(run(name, 0, wanted, most=2))
    assert len(outcomes) > 120
    assert _said(outcomes) == []


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_is_harmless_raises_no_alarm(name: str) -> None:
    wanted = [op for op in operators() if op.name in HARMLESS]
    outcomes = list(run(name, 0, wanted, most=2))
    assert len(outcomes) > 25
    assert _said(outcomes) == []


def test_unusual_models_raise_no_alarm() -> None:
    slow = {"other_tensor_parallel_splits", "other_dialects", "other_names"}
    wanted = [op for op in operators() if op.model and op.name not in slow]
    assert _said(list(run(UNUSUAL, 0, wanted, most=0))) == []


@pytest.mark.parametrize("operator", operators(), ids=lambda operator: operator.name)
def test_every_operator_says_why(operator: object) -> None:
    assert str(getattr(operator, "reason", "")).strip()
