"""One mistake, one finding: what several rules say of one cause is said once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mirage_gate import Options, Selection, audit
from mirage_gate.auditing.folding import fold
from mirage_gate.findings import Claim, Finding, Location, Severity
from tests.emitter import Model, Pair, qwen3, without_block
from tests.model_of import config_of
from tests.rules.layers._shared import carrying, exchanged
from tests.rules.model._shared import config

FOLDED = re.compile(r"MG\d+ (?:says the same|follows from it): ")
COS = "cos_position_embedding"


def said(pair: Pair, model: Model, folder: Path, *select: str) -> list[Finding]:
    options = Options(model=config(folder, config_of(model, "qwen3")))
    texts = pair.cuda_text(), pair.json_text()
    report = audit(*texts, options=options, selection=Selection(select=select))
    assert not report.failed_ranks
    return [f for f in report.findings if f.severity is not Severity.NOTE]


def folded(finding: Finding) -> list[str]:
    """The rules of the findings that are among another's related places."""
    notes = [place.note for place in finding.related]
    return sorted(note[:5] for note in notes if FOLDED.match(note))


def test_a_layer_without_positions_is_one_error(tmp_path: Path) -> None:
    (one,) = said(qwen3(8).without_rope(3).emit(), qwen3(8), tmp_path)
    assert (one.rule, one.severity) == ("MG701", Severity.ERROR)
    assert folded(one) == ["MG004", "MG005", "MG506", "MG506"]


@pytest.mark.parametrize(
    ("norm", "what"), [("input", "attention"), ("post_attn", "a feed-forward")]
)
@pytest.mark.parametrize("layer", [0, 3, 7])
def test_a_lost_block_is_one_error(tmp_path: Path, norm: str, what: str, layer: int) -> None:
    pair = without_block(qwen3(8), [layer], f"{norm}_layernorm").emit()
    (one,) = said(pair, qwen3(8), tmp_path)
    assert one.rule == "MG005"
    assert one.message.startswith(f"the model has {what}")
    assert folded(one) == ["MG004"]


def test_a_stale_residual_is_one_error(tmp_path: Path) -> None:
    (one,) = said(qwen3(8).stale_residual(3).emit(), qwen3(8), tmp_path)
    assert (one.rule, one.severity) == ("MG004", Severity.ERROR)
    assert folded(one) == ["MG702"]


def test_two_weights_exchanged_are_two_errors(tmp_path: Path) -> None:
    pair = exchanged(qwen3(8).emit(), "layer_2_o_proj", "layer_5_o_proj")
    found = said(pair, qwen3(8), tmp_path)
    assert [one.rule for one in found] == ["MG703", "MG703"]
    assert [folded(one) for one in found] == [["MG004"], ["MG004"]]


def test_what_was_not_asked_for_folds_nothing(tmp_path: Path) -> None:
    found = said(qwen3(8).without_rope(3).emit(), qwen3(8), tmp_path, "MG005")
    assert [(one.rule, folded(one)) for one in found] == [("MG005", [])]


def test_another_cause_in_the_same_layer_is_said(tmp_path: Path) -> None:
    """Layer 3 rotates nothing, and adds the embedding as well: two mistakes, two errors."""
    pair = qwen3(8).without_rope(3).stale_residual(3).emit()
    found = said(pair, qwen3(8), tmp_path)
    assert sorted(one.rule for one in found) == ["MG701", "MG702"]


def test_another_operand_of_the_same_operator_is_said(tmp_path: Path) -> None:
    """The one takes a weight of layer 5, and adds the embedding."""
    pair = qwen3(8).stale_residual(3).emit()
    for task in carrying(pair, "layer_3_o_proj"):
        task["inputs"][1]["base_ptr"] = "layer_5_o_proj"
    rules = {one.rule for one in said(pair, qwen3(8), tmp_path)}
    assert {"MG703", "MG702"} <= rules


def test_a_layer_that_lacks_another_thing_too_is_not_folded(tmp_path: Path) -> None:
    """The block of layer 3 is lost, and layer 5 has no positions: the config has two findings."""
    pair = without_block(qwen3(8).without_rope(5), [3], "input_layernorm").emit()
    found = said(pair, qwen3(8), tmp_path)
    assert sorted(one.rule for one in found) == ["MG005", "MG701"]


def claim(rule: str, severity: Severity, *about: str) -> Claim:
    at = Location("g.json", 1)
    return Claim(rule=rule, severity=severity, message=rule, location=at, about=about)


def test_only_what_claims_no_more_is_folded() -> None:
    error, warning = Severity.ERROR, Severity.WARNING
    two = claim("MG005", error, "a", "b")
    one, more = claim("MG701", warning, "a"), claim("MG702", warning, "a", "c")
    same = claim("MG005", error, "a")
    none = claim("MG999", warning)
    found = fold([two, one, more, same, none])
    assert [f.rule for f in found] == ["MG005", "MG702", "MG005", "MG999"]
    assert all(type(f) is Finding for f in found)
    assert [place.note for place in found[0].related] == ["MG701 follows from it: MG701"]


def test_the_more_severe_one_stays_whatever_the_order() -> None:
    warning, error = claim("MG703", Severity.WARNING, "a"), claim("MG004", Severity.ERROR, "a")
    for found in ([warning, error], [error, warning]):
        assert [f.rule for f in fold(found)] == ["MG004"]
