"""One mistake with tensors, tiles or layers is one finding, and two mistakes are two."""

from __future__ import annotations

from itertools import islice

import pytest

from mirage_gate import Finding, Selection, Severity
from tests.emitter import Pair, qwen3
from tests.mutation.draft import Draft
from tests.mutation.judge import report_on
from tests.mutation.run import mutants, operators
from tests.mutation.subjects import subject
from tests.rules import Waived, report_of
from tests.rules.layers._shared import carrying


def loud(findings: tuple[Finding, ...]) -> list[Finding]:
    return [one for one in findings if one.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("operator", "cause", "follows"),
    [
        ("copy_missing", "MG204", {"MG702"}),
        ("copies_of_one_tensor_exchanged", "MG204", {"MG702"}),
        ("weight_taken_from_another_layer", "MG703", {"MG102"}),
        ("operator_missing_in_one_layer", "MG102", {"MG701"}),
        ("norm_passed_by", "MG211", {"MG702"}),
        ("rope_none_in_one_layer", "MG701", {"MG510"}),
        ("two_operands_exchanged_in_one_layer", "MG111", {"MG702"}),
        ("data_type_of_the_same_size", "MG509", {"MG206", "MG508"}),
        ("variant_without_a_branch", "MG501", {"MG508"}),
        ("type_of_the_same_size", "MG509", {"MG206", "MG508"}),
    ],
)
def test_one_mistake_is_one_finding(operator: str, cause: str, follows: set[str]) -> None:
    (wanted,) = (one for one in operators([operator]) if one.name == operator)
    assert loud(report_on(Draft(subject("qwen3")).mutant(), 0).findings) == []
    made = list(islice(mutants(wanted, "qwen3", 0, 0), 3))
    assert made
    found: set[str] = set()
    for mutant in made:
        report = report_on(mutant, 0)
        assert not report.failed_ranks
        (one,) = loud(report.findings)
        assert one.rule == cause, mutant.what
        found |= {other.rule for other in one.folded}
        assert all(other.severity.weight <= one.severity.weight for other in one.folded)
    assert follows <= found


def said(pair: Pair, selection: Selection | None = None) -> list[str]:
    report = report_of(pair, selection=selection)
    assert not report.failed_ranks
    return sorted(one.rule for one in loud(report.findings))


def takes_anothers(pair: Pair, role: str, layer: int, other: int) -> None:
    for task in carrying(pair, f"layer_{layer}_{role}"):
        for tensor in task["inputs"]:
            if tensor["base_ptr"] == f"layer_{layer}_{role}":
                tensor["base_ptr"] = f"layer_{other}_{role}"


def test_tables_that_no_layer_has_are_said_as_such() -> None:
    """The kernels look where nothing is, because the tables are passed to none."""
    pair = qwen3(4).emit()
    for task in pair.tasks(153):
        for slot in (5, 6):
            task["inputs"][slot]["base_ptr"] = "nullptr"
    assert said(pair) == ["MG101", "MG101"]
    assert said(pair, Selection(ignore=("MG101",))) == ["MG510"]


def test_a_weight_that_another_layer_has_not_taken_is_said() -> None:
    """Layer 1 takes layer 2's weight, and layer 3's is lost for another reason."""
    pair = qwen3(4).emit()
    takes_anothers(pair, "o_proj", 1, 2)
    assert said(pair) == ["MG703"]
    takes_anothers(pair, "post_attn_layernorm", 3, 0)
    assert said(pair) == ["MG703", "MG703"]
    for task in carrying(pair, "layer_2_k_norm"):
        for tensor in task["inputs"]:
            if tensor["base_ptr"] == "layer_2_k_norm":
                tensor.update(base_ptr="nullptr")
    assert "MG102" in said(pair)


def test_caches_of_another_layer_are_said_once_each() -> None:
    pair = qwen3(4).emit()
    for role in ("k_cache", "v_cache"):
        takes_anothers(pair, role, 3, 1)
    assert said(pair) == ["MG703", "MG703"]
    assert "MG211" in said(pair, Selection(ignore=("MG703",)))


def shorter(pair: Pair, layer: int) -> None:
    """One tile of a layer's projection is written a column short."""
    carrying(pair, f"layer_{layer}_qkv_proj")[1]["outputs"][0]["dims"][1] -= 1


def test_a_tile_that_its_variant_is_not_for_is_said_where_it_is() -> None:
    pair = qwen3(5).emit()
    shorter(pair, 2)
    assert "MG509" not in said(pair)
    assert "MG213" in said(pair)
    assert "MG509" in said(pair, Selection(ignore=("MG213",)))


def test_a_variant_that_is_for_another_task_as_well_is_said() -> None:
    """Two tasks carry what their variant is not for, and only one of them has its slots apart."""
    pair = qwen3(5).emit()
    shorter(pair, 2)
    other = carrying(pair, "layer_3_qkv_proj")[2]
    other["outputs"][0]["dims"][1] -= 1
    other["inputs"][1]["dims"][0] -= 1
    assert {"MG213", "MG509"} <= set(said(pair))


def test_a_task_that_stands_twice_is_no_odd_grid() -> None:
    (wanted,) = operators(["task_done_twice"])
    for mutant in islice(mutants(wanted, "qwen3", 0, 0), 3):
        found = loud(report_on(mutant, 0).findings)
        assert "MG705" not in {one.rule for one in found}
        (twice,) = (one for one in found if one.rule == "MG505")
        assert "MG705" in {other.rule for other in twice.folded}


def test_a_task_that_is_missing_is_an_odd_grid() -> None:
    (wanted,) = operators(["task_missing"])
    for mutant in islice(mutants(wanted, "qwen3", 0, 0), 3):
        assert "MG705" in {one.rule for one in loud(report_on(mutant, 0).findings)}


def test_a_dead_value_in_another_layer_is_said() -> None:
    """What the norm makes is for nobody in layer 2, and so in layer 1, but for another reason."""
    pair = qwen3(5).emit()
    for layer in (1, 3):
        passes_by(pair, layer)
    assert said(pair)[0] == "MG211"
    pair = qwen3(5).emit()
    passes_by(pair, 3)
    assert said(pair) == ["MG211"]
    assert said(pair, Selection(ignore=("MG211",))) == ["MG702"]


def passes_by(pair: Pair, layer: int) -> None:
    """The layer's first projection takes what its first norm takes."""
    norm = carrying(pair, f"layer_{layer}_input_layernorm")[0]["inputs"][0]["base_ptr"]
    for task in carrying(pair, f"layer_{layer}_qkv_proj"):
        task["inputs"][0]["base_ptr"] = norm


def test_what_follows_from_a_waived_tensor_is_said() -> None:
    """That layer 2 has no positions may be meant: its kernel reads address 0 all the same."""
    pair = qwen3(5).without_rope(2).emit()
    assert said(pair) == ["MG701"]
    waiver = '[[waivers]]\nrule = "MG701"\ntensor = "*"\nreason = "meant"\n'
    report = report_of(Waived(pair, waiver))
    assert {one.rule for one in report.hidden} == {"MG701"}
    rules = [one.rule for one in loud(report.findings)]
    assert rules in (["MG510"], [])
