"""MG802 coverage-changed."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import deepseek_v3, qwen3
from tests.rules import Expect, Held, fires, silent


@pytest.mark.parametrize("table", ["cos_position_embedding", "sin_position_embedding"])
@fires("MG802", Severity.NOTE, says=("readers 12 → 16",), alone=("MG8",))
def test_coverage_that_grew(table: str) -> Expect:
    held = Held(qwen3(4), qwen3(4).without_rope(layer=2))
    return Expect(held, cuda=f'all_tensors["{table}"]', tensor=table)


@pytest.mark.parametrize(
    "says", [("the graph has changed", "moe layers 3 → 3-4"), ("layer_4_o_proj: is new",)]
)
@fires("MG802", Severity.NOTE, alone=("MG8",))
def test_more_layers(says: tuple[str, ...]) -> Expect:
    cuda = 'all_tensors["layer_4_o_proj"]' if "new" in says[0] else ""
    return Expect(Held(deepseek_v3(5), deepseek_v3(4)), cuda=cuda, says=says)


@silent("MG802")
def test_the_same_graph() -> Held:
    return Held(qwen3(4), qwen3(4))


@silent("MG802")
def test_coverage_that_fell_is_another_rules() -> Held:
    return Held(qwen3(4).without_rope(layer=2), qwen3(4))
