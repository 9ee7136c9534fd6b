"""The real artifacts' verdicts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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


@cache
def report_on(artifacts: Path, name: str, by_layer: bool = False) -> Report:
    """What the gate says of a folder; several tests look at the same few."""
    report = check(pairs.find([str(artifacts / name)]), by_layer=by_layer)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["dsv3_4l_blackwell_tp1", "mutant_rope_none_layer2", "qwen3_8b_2l_ampere_tp4_allgather"]
)
def test_its_sarif_is_valid(artifacts: Path, name: str, valid_sarif: Callable[[str], None]) -> None:
    report = report_on(artifacts, name)
    valid_sarif(render(report, "sarif", root=str(artifacts)))


def test_the_newer_deepseek_stalls_and_races(artifacts: Path) -> None:
    report = report_on(artifacts, "dsv3_4l_blackwell_tp1")
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    count, race, *tables = sorted(errors, key=lambda one: one.rule, reverse=True)
    assert [one.rule for one in (count, race, *tables)] == ["MG401", "MG301", "MG101", "MG101"]
    assert "18 triggers and 9 tasks" in count.message
    text = Path(count.location.path).read_text().split("\n")
    assert '"num_triggers": 18' in text[count.location.line - 1]
    (stall,) = count.folded
    assert "1,810 tasks of 13,646 never start" in stall.message
    raced = {finding.tensor for finding in (race, *race.folded)}
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
    hole, whole = (
        report_on(artifacts, name, by_layer=True)
        for name in ("mutant_rope_none_layer2", "qwen3_0.6b_4l_hopper")
    )
    shown = render(hole, "text", root=str(artifacts))
    for name in TABLES["mutant_rope_none_all"]:
        assert f"[PARTLY-WIRED] {name}: input_refs=24 consumer_task_types=[153]" in shown
    clean = render(whole, "text", root=str(artifacts))
    assert "[OK] cos_position_embedding: input_refs=32 consumer_task_types=[153]" in clean


def test_a_stale_residual_is_named(artifacts: Path) -> None:
    (finding,) = above_notes(report_on(artifacts, "mutant_residual_layer1_stale"))
    assert finding.rule == "MG702"
    for words in ("layer 1", "input 2", "embed_out", "mlp_out"):
        assert words in finding.message


# -- Whole pairs: newest source, older generators, before and after real fixes ---------------------

PAST_THE_BUFFER = {("MG202", "attn_allreduce_out"), ("MG202", "mlp_final")}
"""What TASK_REDUCE of that time carries as output: the whole buffer's descriptor."""
BASE_OF_28_COLUMNS = {("MG205", "attn_in")}
ROPE = {("MG101", "rope_cos"), ("MG101", "rope_sin")}

RIGHT: dict[str, set[tuple[str, str]]] = {
    "fresh_llama1b_4l_hopper": set(),
    "fresh_qwen3_0.6b_5l_ampere_promptlookup": {
        ("MG102", "input_token"),
        ("MG207", "all_tokens"),
        ("MG214", "output_token"),
    },
    "fresh_qwen3_1.7b_3l_ampere_b32": set(),
    "fresh_qwen3_1.7b_3l_blackwell_tp2_tile": set(),
    "fresh_qwen3_14b_2l_hopper_tp4_allgather": BASE_OF_28_COLUMNS,
    "fresh_qwen3_30b_a3b_3l_hopper_b8": set(),
    "fresh_qwen3_4b_2l_blackwell_splitkv_seq4096": set(),
    "fresh_qwen3_4b_3l_blackwell_b16": set(),
    "fresh_testmode_moe_w13_linear_100": {("MG110", ""), ("MG203", "weight")},
    "hist_20250928_q06_3l_hopper": set(),
    "hist_20251013_q06_3l_blackwell": set(),
    "hist_20251114_q30b_2l_blackwell": set(),
    "mut_wrong_allgather_slot_tp4": BASE_OF_28_COLUMNS | {("MG610", "all_reduce_buf")},
    "mut_zero_dim_tile": {("MG214", "rmsnorm_out"), ("MG305", "rmsnorm_out")},
    "pr364_after_q06_3l_ampere_tp2": PAST_THE_BUFFER,
    "pr527_before_q06_3l_ampere_tp2": PAST_THE_BUFFER | {("MG904", "")},
    "pr580_after_q06_3l_ampere_tp2": PAST_THE_BUFFER,
    "pr612_after_q06_3l_ampere_tp2": set(),
    "pr656_dsv3_3l_blackwell_tp1_b4": ROPE | {("MG505", "")},
    "pr670_after_q17_3l_blackwell_b4": set(),
    "pr670_before_q17_3l_blackwell_b4": {("MG509", "")},
    "synth_rocm_9inputs": {("MG504", "")},
    "synth_rocm_gang": set(),
    "synth_rocm_world_r0": BASE_OF_28_COLUMNS,
}
"""(rule, tensor) of everything above a note."""


@pytest.mark.parametrize("name", RIGHT)
def test_a_whole_pair_has_the_right_verdict(whole_pairs: Path, name: str) -> None:
    assert set(said(report_on(whole_pairs, name))) == RIGHT[name]


def test_every_whole_pair_is_held_to_a_verdict(whole_pairs: Path) -> None:
    others = {
        "fresh_dsv3_2l_blackwell_tp8_b1",
        "pr593_a610_q17_3l_100_tp2",
        "pr593_b593_q17_3l_90_tp2",
    }
    assert {one.name for one in whole_pairs.iterdir() if one.is_dir()} == {*RIGHT, *others}


@pytest.mark.parametrize("name", ["pr593_a610_q17_3l_100_tp2", "pr593_b593_q17_3l_90_tp2"])
def test_a_residual_that_each_rank_adds_is_counted_per_rank(whole_pairs: Path, name: str) -> None:
    report = report_on(whole_pairs, name)
    assert {pair for pair in said(report) if pair[0] != "MG609"} == PAST_THE_BUFFER
    found = [finding for finding in report.findings if finding.rule == "MG609"]
    assert found
    assert {finding.severity for finding in found} == {Severity.ERROR}


def test_the_newest_deepseek_loses_its_positions_stalls_and_races(whole_pairs: Path) -> None:
    report = report_on(whole_pairs, "fresh_dsv3_2l_blackwell_tp8_b1")
    rules = {rule for rule, _ in said(report)}
    assert set(said(report)) >= ROPE
    assert rules >= {"MG101", "MG301", "MG401", "MG505"}
    follow = {other.rule for finding in report.findings for other in finding.folded}
    assert follow >= {"MG302", "MG403"}


def test_a_stride_that_was_compiled_as_zero_is_named_in_the_body(whole_pairs: Path) -> None:
    report = report_on(whole_pairs, "pr670_before_q17_3l_blackwell_b4")
    for finding in above_notes(report):
        assert finding.location.path.endswith(".cu")
        text = Path(finding.location.path).read_text().split("\n")
        assert "0" in text[finding.location.line - 1]
        assert "2048" in finding.message


def test_ranks_that_are_not_here_are_a_note(whole_pairs: Path) -> None:
    report = report_on(whole_pairs, "synth_rocm_world_r0")
    (note,) = [finding for finding in report.findings if finding.rule == "MG604"]
    assert note.severity is Severity.NOTE
    assert "ranks 1-3 of 4" in note.message
