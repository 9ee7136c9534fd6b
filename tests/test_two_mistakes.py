"""Two mistakes in one graph are two findings, however near they are to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirage_gate import Finding, Severity
from tests.emitter import Pair, qwen3
from tests.rules import report_of
from tests.rules.layers._shared import carrying

Change = Callable[[Pair], None]


def said(*changes: Change, of: Callable[[], Pair] = lambda: qwen3(6).emit()) -> list[Finding]:
    pair = of()
    for change in changes:
        change(pair)
    report = report_of(pair)
    assert not report.failed_ranks
    return [one for one in report.findings if one.severity is not Severity.NOTE]


def place(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, str(finding.severity), finding.location.pointer


def takes(weight: str, slot: int, name: str) -> Change:
    """The operator of a weight takes something else in a slot."""

    def change(pair: Pair) -> None:
        for task in carrying(pair, weight):
            task["inputs"][slot]["base_ptr"] = name

    return change


def undeclared(name: str) -> Change:
    def change(pair: Pair) -> None:
        pair.declarations = [one for one in pair.declarations if one.name != name]

    return change


def test_two_readers_of_one_value_that_take_something_else() -> None:
    """Nobody reads what layer 3's attention adds, for two reasons: mending one is not enough."""
    norm = takes("layer_3_post_attn_layernorm", 0, "attn_in")
    residual = takes("layer_3_down_proj", 2, "embed_out")
    (one,), (other,) = said(norm), said(residual)
    both = [place(finding) for finding in said(norm, residual)]
    assert place(one) in both
    assert place(other) in both
    assert [rule for rule, _, _ in both] == ["MG211", "MG702", "MG702"]


def test_a_wrong_reader_of_a_buffer_that_is_not_declared() -> None:
    wrong, lost = takes("layer_3_gatedup_proj", 0, "attn_in"), undeclared("attn_in")
    (one,), (other,) = said(wrong), said(lost)
    both = [place(finding) for finding in said(wrong, lost)]
    assert both == [place(other), place(one)]
    assert [place(one)[0], place(other)[0]] == ["MG211", "MG106"]


def test_a_wrong_reader_behind_a_weight_that_is_not_declared() -> None:
    """The weight of the writer that it passes by is no reason for it."""
    wrong = takes("layer_3_post_attn_layernorm", 0, "attn_in")
    lost = undeclared("layer_3_o_proj")
    (one,), (other,) = said(wrong), said(lost)
    both = [place(finding) for finding in said(wrong, lost)]
    assert both == [place(other), place(one)]


def test_a_weight_that_is_not_declared_is_one_mistake() -> None:
    for role in ("qkv_proj", "o_proj", "gatedup_proj", "down_proj"):
        (one,) = said(undeclared(f"layer_3_{role}"))
        assert one.rule == "MG106"


def test_a_name_that_only_one_slot_carries_is_one_mistake() -> None:
    for weight, slot in (("layer_3_gatedup_proj", 0), ("layer_3_o_proj", 0)):
        assert {one.rule for one in said(takes(weight, slot, "misspelled"))} <= {"MG106", "MG211"}


def of_two_variants() -> Pair:
    """The norms before attention are a variant of their own."""
    pair = qwen3(6).emit()
    pair.branches.append(replace(pair.branch("TASK_RMS_NORM_HOPPER"), variant=1))
    for layer in range(6):
        runs(f"layer_{layer}_input_layernorm", 4)(pair)
    return pair


def runs(weight: str, tasks: int) -> Change:
    """The first tasks of an operator run variant 1."""

    def change(pair: Pair) -> None:
        for task in carrying(pair, weight)[:tasks]:
            task["variant_id"] = 1

    return change


def without_branch(pair: Pair) -> None:
    pair.branches = [one for one in pair.branches if "NORM" not in one.task or not one.variant]


def test_a_task_of_a_variant_that_others_lack_as_well() -> None:
    wrong = runs("layer_3_post_attn_layernorm", 1)
    (one,), (other,) = said(wrong, of=of_two_variants), said(without_branch, of=of_two_variants)
    both = [place(finding) for finding in said(wrong, without_branch, of=of_two_variants)]
    assert [place(one)[0], place(other)[0]] == ["MG508", "MG501"]
    assert both == [place(other), place(one)]


def test_a_task_of_a_variant_that_nobody_else_runs_is_one_mistake() -> None:
    (one,) = said(runs("layer_3_post_attn_layernorm", 1))
    assert (one.rule, {other.rule for other in one.folded}) == ("MG501", {"MG508"})


def tile(pair: Pair) -> dict[str, Any]:
    tensor: dict[str, Any] = carrying(pair, "layer_3_qkv_proj")[1]["outputs"][0]
    return tensor


def shorter(pair: Pair) -> None:
    tile(pair)["dims"][1] -= 1


def of_another_type(code: int) -> Change:
    def change(pair: Pair) -> None:
        tile(pair)["data_type"] = code

    return change


@pytest.mark.parametrize(("code", "severity"), [(940, "error"), (950, "error")])
def test_a_tile_of_another_length_and_another_type(code: int, severity: str) -> None:
    both = said(shorter, of_another_type(code))
    assert "MG213" in {one.rule for one in both}
    types = [one for one in both if one.rule in ("MG508", "MG509")]
    assert [str(one.severity) for one in types] == [severity]
    assert {"MG206"} <= {other.rule for other in types[0].folded}
    for alone in (said(shorter), said(of_another_type(code))):
        assert len({"MG213", "MG508", "MG509"} & {one.rule for one in alone}) == 1
