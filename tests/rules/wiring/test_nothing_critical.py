"""MG110 nothing-critical."""

from __future__ import annotations

from mirage_gate.facts import Options
from mirage_gate.facts.critical import Critical
from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent


@fires("MG110", Severity.WARNING, cuda='all_tensors["input_token"]', says=("position encoding",))
def test_tables_under_a_name_that_nobody_knows() -> Pair:
    return qwen3(1).named(rope=("freqs_a", "freqs_b")).emit()


@fires(
    "MG110",
    Severity.ERROR,
    says=("lm_haed", "not declared (there is lm_head)"),
    options=Options(critical=Critical.of(("lm_haed",))),
)
def test_the_only_critical_name_is_mistyped() -> Pair:
    return qwen3(1).emit()


@fires(
    "MG110",
    Severity.WARNING,
    says=("foo", "not declared"),
    options=Options(critical=Critical.of(("foo", "lm_head"))),
)
def test_one_of_several_names_that_models_use_is_not_this_models() -> Pair:
    return qwen3(1).emit()


@silent("MG110")
def test_the_demos_own_names() -> Pair:
    return qwen3(1).named(rope=("cos_position_embedding", "sin_position_embedding")).emit()


@silent("MG110")
def test_tables_of_each_layers_own() -> Pair:
    return qwen3(1).named(rope=("layer_0_rope_cos", "layer_0_rope_sin")).emit()
