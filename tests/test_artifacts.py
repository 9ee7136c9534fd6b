"""The real artifacts' verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirage_gate.artifacts import pairs
from mirage_gate.auditing.ranks import check
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import Report
from mirage_gate.reports import render
from tests.rules import line_of

pytest_plugins = ("tests.sarif_validator",)

CLEAN = (
    "qwen3_0.6b_4l_hopper",
    "qwen3_8b_4l_hopper_splitkv",
    "qwen3_8b_2l_ampere_tp4_allgather",
    "qwen3_30b_a3b_6l_blackwell",
    "qwen3_1.7b_6l_hopper_tp2_tile",
)
TABLES = {
    "mutant_rope_none_all": ("cos_position_embedding", "sin_position_embedding"),
    "dsv3_4l_blackwell_tp1": ("rope_cos", "rope_sin"),
    "pre665_dsv3_4l_blackwell_tp1": ("rope_cos", "rope_sin"),
    "pre665_dsv3_7l_blackwell_tp8": ("rope_cos", "rope_sin"),
    "pre665_dsv3_5l_blackwell_tp8_mtp2": ("rope_cos", "rope_sin"),
}


def report_on(artifacts: Path, name: str) -> Report:
    report = check(pairs.find([str(artifacts / name)]))
    assert not report.failed_ranks
    return report


def above_notes(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.severity is not Severity.NOTE]


def said(report: Report) -> list[tuple[str, str]]:
    """(rule, tensor) of everything above a note."""
    return sorted({(finding.rule, finding.tensor) for finding in above_notes(report)})


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_graph_is_clean_on_every_rank(artifacts: Path, name: str) -> None:
    report = report_on(artifacts, name)
    assert len(report.ranks) == (int(name.split("_tp")[1][0]) if "_tp" in name else 1)
    assert above_notes(report) == []
    assert report.exit_status("warning") == 0


@pytest.mark.parametrize("name", TABLES)
def test_unwired_tables_are_named_on_their_lines(artifacts: Path, name: str) -> None:
    report = report_on(artifacts, name)
    found = [finding for finding in report.findings if finding.rule == "MG101"]
    assert {finding.tensor for finding in found} == set(TABLES[name])
    for finding in found:
        text = Path(finding.location.path).read_text()
        assert finding.location.line == line_of(text, f'all_tensors["{finding.tensor}"]')
    assert report.exit_status() == 1


def test_deepseek_has_two_errors_and_one_warning(artifacts: Path) -> None:
    assert said(report_on(artifacts, "pre665_dsv3_4l_blackwell_tp1")) == [
        ("MG101", "rope_cos"),
        ("MG101", "rope_sin"),
        ("MG505", ""),
    ]


def test_on_eight_ranks_its_attention_is_never_summed(artifacts: Path) -> None:
    # each rank's attention kernel has an eighth of the heads, and a norm takes what o_proj makes
    report = report_on(artifacts, "pre665_dsv3_7l_blackwell_tp8")
    assert said(report) == [
        ("MG101", "rope_cos"),
        ("MG101", "rope_sin"),
        ("MG505", ""),
        ("MG607", "layer_0_attn_proj_fused"),
    ]
    (finding,) = [finding for finding in report.findings if finding.rule == "MG607"]
    assert "TASK_MLA_MTP_DECODE_TP8_REDUCE_SM100" in finding.message
    assert "layers 0-6" in finding.message


def test_multi_token_prediction_reads_what_nobody_writes(artifacts: Path) -> None:
    report = report_on(artifacts, "pre665_dsv3_5l_blackwell_tp8_mtp2")
    assert said(report) == [
        ("MG101", "rope_cos"),
        ("MG101", "rope_sin"),
        ("MG105", "mtp_target_token_ids"),
        ("MG505", ""),
        ("MG607", "layer_0_attn_proj_fused"),
        ("MG607", "mtp_model_layers_61_self_attn_attn_proj_fused"),
    ]
    repeated = [finding.message for finding in report.findings if finding.rule == "MG505"]
    assert len(repeated) == 3
    for name in ("QUANTIZE_FP8", "MTP_VERIFY_STRICT", "MTP_ACCEPT_COMMIT"):
        assert sum(name in message for message in repeated) == 1


def test_eight_identical_tasks_are_named_by_type(artifacts: Path) -> None:
    report = report_on(artifacts, "pre665_dsv3_4l_blackwell_tp1")
    finding = next(finding for finding in report.findings if finding.rule == "MG505")
    assert "TASK_QUANTIZE_FP8_SM100" in finding.message
    assert " 8 to 64 times" in finding.message
    text = Path(finding.location.path).read_text().split("\n")
    assert '"task_type": 275' in text[finding.location.line - 1]


def test_a_feature_switched_off_is_no_error(artifacts: Path) -> None:
    report = report_on(artifacts, "fused_shuffled_none_3l_ampere")
    assert report.count(Severity.ERROR) == 0
    (finding,) = above_notes(report)
    assert finding.rule == "MG701"
    assert "layer 1" in finding.message


@pytest.mark.parametrize(
    "name", ["dsv3_4l_blackwell_tp1", "mutant_rope_none_layer2", "qwen3_8b_2l_ampere_tp4_allgather"]
)
def test_its_sarif_is_valid(artifacts: Path, name: str, valid_sarif: Callable[[str], None]) -> None:
    report = report_on(artifacts, name)
    valid_sarif(render(report, "sarif", root=str(artifacts)))


def test_the_newer_deepseek_stalls_and_races(artifacts: Path) -> None:
    report = report_on(artifacts, "dsv3_4l_blackwell_tp1")
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    assert len(errors) < 15
    (count,) = [finding for finding in errors if finding.rule == "MG401"]
    assert "18 triggers and 9 tasks" in count.message
    text = Path(count.location.path).read_text().split("\n")
    assert '"num_triggers": 18' in text[count.location.line - 1]
    (stall,) = [finding for finding in errors if finding.rule == "MG403"]
    assert "1,810 tasks of 13,646 never start" in stall.message
    raced = {finding.tensor for finding in errors if finding.rule.startswith("MG3")}
    assert raced >= {
        "contiguous_kv",
        "c_latent_out",
        "k_pe_out",
        "fp8_input_7168_shared",
        "fp8_scale_7168_shared",
    }


def test_one_layer_without_its_tables_is_named(artifacts: Path) -> None:
    report = report_on(artifacts, "mutant_rope_none_layer2")
    (finding,) = above_notes(report)
    assert (finding.rule, finding.severity) == ("MG701", Severity.ERROR)
    assert "layer 2" in finding.message
    assert finding.location.path.endswith("task_graph_0.json")
    tables = {location.line for location in finding.related if location.path.endswith(".cu")}
    text = Path(report.ranks[0].cuda_path).read_text()
    for name in TABLES["mutant_rope_none_all"]:
        assert line_of(text, f'all_tensors["{name}"]') in tables


def test_tables_with_a_hole_are_not_called_ok(artifacts: Path) -> None:
    shown = render(report_on(artifacts, "mutant_rope_none_layer2"), "text", root=str(artifacts))
    for name in TABLES["mutant_rope_none_all"]:
        assert f"[PARTLY-WIRED] {name}: input_refs=24 consumer_task_types=[153]" in shown
    clean = render(report_on(artifacts, "qwen3_0.6b_4l_hopper"), "text", root=str(artifacts))
    assert "[OK] cos_position_embedding: input_refs=32 consumer_task_types=[153]" in clean


def test_a_stale_residual_is_named(artifacts: Path) -> None:
    (finding,) = above_notes(report_on(artifacts, "mutant_residual_layer1_stale"))
    assert finding.rule == "MG702"
    for words in ("layer 1", "input 2", "embed_out", "mlp_out"):
        assert words in finding.message
