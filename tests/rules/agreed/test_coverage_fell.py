"""MG801 coverage-fell."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import Model, deepseek_v3, qwen3
from tests.rules import At, Expect, Held, fires, lock_of, report_of, silent
from tests.rules.cases import LOCK

TABLES = ["cos_position_embedding", "sin_position_embedding"]


@pytest.mark.parametrize("table", TABLES)
@fires("MG801", alone=("MG8",))
def test_coverage_that_fell_to_nothing(table: str) -> Expect:
    before = qwen3(4)
    return Expect(
        Held(qwen3(4).without_rope(), before),
        cuda=f'all_tensors["{table}"]',
        says=(f"critical tensor {table}", "readers 16 → 0"),
        tensor=table,
        related=[At(LOCK, lock_of(before).lines[table])],
    )


@pytest.mark.parametrize("table", TABLES)
@fires(
    "MG801",
    Severity.WARNING,
    says=("readers 16 → 12", "in layers 0-1, 3, before 0-3"),
    alone=("MG8",),
)
def test_coverage_that_fell(table: str) -> Expect:
    held = Held(qwen3(4).without_rope(layer=2), qwen3(4))
    return Expect(held, cuda=f'all_tensors["{table}"]', tensor=table)


@pytest.mark.parametrize("norm", ["q_norm", "k_norm"])
@fires("MG801")
def test_a_weight_that_is_gone_in_all_layers_at_once(norm: str) -> Expect:
    held = Held(qwen3(4).without_qk_norm(), qwen3(4))
    return Expect(
        held,
        says=(f"layer_N_{norm} in layers 0-3:", "is not declared any more: readers 4 → 0"),
    )


@pytest.mark.parametrize(
    ("now", "severity"),
    [
        (qwen3(4).without_rope(), Severity.ERROR),
        (qwen3(4).without_rope(layer=2), Severity.WARNING),
        (qwen3(4).without_qk_norm(), Severity.ERROR),
    ],
    ids=["no tables", "no tables in a layer", "no norms"],
)
def test_two_tensors_that_fell_are_two_findings(now: Model, severity: Severity) -> None:
    found = report_of(Held(now, qwen3(4))).findings
    assert [f.severity for f in found if f.rule == "MG801"] == [severity] * 2


@pytest.mark.parametrize(
    "model", [qwen3(4), qwen3(2, ranks=2), deepseek_v3(5)], ids=["dense", "ranks", "deepseek"]
)
@silent("MG801", alone=("MG8",))
def test_the_same_graph(model: Model) -> Held:
    return Held(model, model)


@silent("MG801", alone=("MG8",))
def test_a_rank_is_held_to_its_own_wiring() -> Held:
    return Held(qwen3(3, ranks=2), qwen3(3, ranks=2), ranks=(1,))


@silent("MG801")
def test_coverage_that_grew() -> Held:
    return Held(qwen3(4), qwen3(4).without_rope(layer=2))
