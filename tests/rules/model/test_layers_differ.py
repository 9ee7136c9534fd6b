"""MG005: a graph's layers against those of the model's own ``config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirage_gate.artifacts.model import ModelConfig
from mirage_gate.cli import cli
from mirage_gate.findings import Finding, Severity
from tests.emitter import Model, deepseek_v3, qwen3, qwen3_moe
from tests.rules import graph_line, line_of
from tests.rules.model import config, said

QWEN3 = {"model_type": "qwen3", "num_hidden_layers": 4, "rope_theta": 1000000}
LLAMA = {**QWEN3, "model_type": "llama"}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 6,
    "rope_theta": 1000000.0,
    "num_experts": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 5,
    "rope_scaling": {"type": "yarn"},
    "n_routed_experts": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
}
EXAONE = {
    **QWEN3,
    "model_type": "exaone4",
    "sliding_window": 4096,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"],
}


def check(model: Model, promised: ModelConfig, **options: Any) -> tuple[Finding, ...]:
    return said(model.emit(), "MG005", model=promised, **options)


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (qwen3(4), QWEN3),
        (qwen3(4, arch="ampere"), QWEN3),
        (qwen3(4, split_kv=True), QWEN3),
        (qwen3_moe(6), QWEN3_MOE),
        (deepseek_v3(5), DEEPSEEK),
        (qwen3(4), {"num_hidden_layers": 4}),
        (qwen3(4), {"text_config": QWEN3}),
        (qwen3(4).without_rope(), {"n_layer": 4, "position_embedding_type": "alibi"}),
        (qwen3(4).without_qk_norm(), LLAMA),
        (qwen3(4).without_rope(3), {**LLAMA, "no_rope_layers": [1, 1, 1, 0]}),
        (qwen3(4).without_rope(3), {**LLAMA, "no_rope_layer_interval": 4}),
        (qwen3(4).without_rope(3), {**LLAMA, "model_type": "llama4_text", "no_rope_layers": []}),
        (qwen3(4).without_rope(3), EXAONE),
        (qwen3(4).without_rope(3), {**QWEN3, "model_type": "unheard_of"}),
        (qwen3(4).named(rope=("angles_a", "angles_b")), QWEN3),
        (qwen3(4).named(weights="model.layers.{layer}.{part}"), QWEN3),
    ],
)
def test_a_graph_that_is_as_promised(tmp_path: Path, model: Model, document: Any) -> None:
    assert check(model, config(tmp_path, document)) == ()


def test_deepseek_without_positions(tmp_path: Path) -> None:
    """As MPK builds it: the tables are attached, and read by nothing."""
    (found,) = check(deepseek_v3(5).without_rope(), config(tmp_path, DEEPSEEK))
    assert found.message == "the model has rotary embedding in layers 0-4, and the graph has not"
    renamed = deepseek_v3(5).without_rope().named(rope=("angles_a", "angles_b"))
    assert [f.message for f in check(renamed, config(tmp_path, DEEPSEEK))] == [found.message]


def test_a_layer_too_few(tmp_path: Path) -> None:
    (found,) = check(qwen3(3), config(tmp_path, QWEN3))
    assert (found.rule, found.severity) == ("MG005", Severity.ERROR)
    assert found.message == ("the graph has 3 layers, the model's configuration 4, layer 3 missing")
    text = qwen3(3).emit().cuda_text()
    assert found.location.line == line_of(text, 'all_tensors["layer_2_')
    assert found.related[0].path.endswith("config.json")
    assert found.related[0].line == 3


def test_a_layer_too_many(tmp_path: Path) -> None:
    (found,) = check(qwen3(5), config(tmp_path, QWEN3))
    assert found.message.endswith("4, layer 4 too many")


def test_the_layer_of_multi_token_prediction_is_none_too_many(tmp_path: Path) -> None:
    assert check(qwen3(5), config(tmp_path, {**QWEN3, "num_nextn_predict_layers": 1})) == ()


def test_a_model_that_is_cut_is_noted(tmp_path: Path) -> None:
    whole = config(tmp_path, {**QWEN3, "num_hidden_layers": 36})
    (found,) = check(qwen3(4), whole)
    assert found.severity is Severity.NOTE
    assert found.hint == "say so with --layers 4"
    assert check(qwen3(4), whole, layers=frozenset(range(4))) == ()


def test_what_is_promised_of_layers_that_are_cut_is_held(tmp_path: Path) -> None:
    whole = config(tmp_path, {**LLAMA, "num_hidden_layers": 36, "no_rope_layer_interval": 4})
    found = check(qwen3(7), whole, layers=frozenset(range(7)))
    assert [f.message for f in found] == [
        "the model has no rotary embedding in layer 3, and the graph has"
    ]
    assert check(qwen3(7).without_rope(3), whole, layers=frozenset(range(7))) == ()


def test_other_layers_than_asked_for(tmp_path: Path) -> None:
    whole = config(tmp_path, {**QWEN3, "num_hidden_layers": 36})
    (found,) = check(qwen3(4), whole, layers=frozenset(range(5)))
    assert found.message == "the graph has 4 layers, asked for are 5, layer 4 missing"
    assert found.severity is Severity.ERROR


def test_more_than_half_is_not_cut_on_purpose(tmp_path: Path) -> None:
    (found,) = check(qwen3(5), config(tmp_path, {**QWEN3, "num_hidden_layers": 9}))
    assert found.severity is Severity.ERROR


def test_names_that_count_from_one(tmp_path: Path) -> None:
    pair = qwen3(4).emit()
    text, graph = pair.cuda_text(), pair.json_text()
    for layer in (3, 2, 1, 0):
        text = text.replace(f"layer_{layer}_", f"layer_{layer + 1}_")
        graph = graph.replace(f"layer_{layer}_", f"layer_{layer + 1}_")
    from mirage_gate import Options, Selection, audit

    report = audit(
        text,
        graph,
        selection=Selection(select=("MG005",)),
        options=Options(model=config(tmp_path, QWEN3)),
    )
    assert report.findings == ()


def test_names_without_a_layer_prove_nothing(tmp_path: Path) -> None:
    found = check(qwen3(1).named(weights="{part}"), config(tmp_path, QWEN3))
    assert [f.severity for f in found] == [Severity.NOTE]
    assert "no tensor's name says a layer" in found[0].message


def test_no_layer_rotates(tmp_path: Path) -> None:
    model = qwen3(4).without_rope()
    (found,) = check(model, config(tmp_path, QWEN3))
    assert found.message == "the model has rotary embedding in layers 0-3, and the graph has not"
    pair = model.emit()
    first = pair.graph["all_tasks"].index(pair.tasks(153)[0])
    assert found.location.line == graph_line(pair, ("all_tasks", first, "task_type"))
    assert found.related[0].line == 4


def test_no_layer_of_an_unknown_type_rotates(tmp_path: Path) -> None:
    (found,) = check(qwen3(4).without_rope(), config(tmp_path, {**QWEN3, "model_type": "new"}))
    assert found.message.startswith("the model has rotary embedding in some of layers 0-3")


def test_half_of_the_layers_rotate(tmp_path: Path) -> None:
    """As many without as with: only the configuration knows which are right."""
    model = qwen3(4).without_rope(1).without_rope(3)
    (found,) = check(model, config(tmp_path, QWEN3))
    assert found.message == "the model has rotary embedding in layers 1, 3, and the graph has not"


def test_a_layer_rotates_that_must_not(tmp_path: Path) -> None:
    (found,) = check(qwen3(4), config(tmp_path, EXAONE))
    assert found.message == "the model has no rotary embedding in layer 3, and the graph has"


def test_norms_of_queries_and_keys(tmp_path: Path) -> None:
    (found,) = check(qwen3(4).without_qk_norm(), config(tmp_path, QWEN3))
    assert found.message.startswith("the model has norms of queries and keys in layers 0-3")
    off = config(tmp_path, {**QWEN3, "use_qk_norm": False})
    assert check(qwen3(4).without_qk_norm(), off) == ()


def test_norms_under_other_names_are_norms(tmp_path: Path) -> None:
    pair = qwen3(4).emit()
    texts = [
        text.replace("_q_norm", "_g1").replace("_k_norm", "_g2")
        for text in (pair.cuda_text(), pair.json_text())
    ]
    from mirage_gate import Options, Selection, audit

    options = Options(model=config(tmp_path, QWEN3))
    report = audit(*texts, selection=Selection(select=("MG005",)), options=options)
    assert report.findings == ()


def test_an_operator_that_no_table_knows_may_be_an_attention(tmp_path: Path) -> None:
    pair = qwen3(4).emit()
    for task in pair.tasks(153):
        task["task_type"] = 999
    assert said(pair, "MG005", model=config(tmp_path, QWEN3)) == ()


def test_layers_without_experts(tmp_path: Path) -> None:
    (found,) = check(qwen3(6), config(tmp_path, QWEN3_MOE))
    assert (
        found.message == "the model has a mixture of experts in layers 0-5, and the graph has not"
    )


def test_experts_in_a_layer_that_has_none(tmp_path: Path) -> None:
    document = {**DEEPSEEK, "first_k_dense_replace": 4}
    (found,) = check(deepseek_v3(5), config(tmp_path, document))
    assert found.message == "the model has no mixture of experts in layer 3, and the graph has"


def test_another_number_of_experts(tmp_path: Path) -> None:
    (found,) = check(qwen3_moe(6), config(tmp_path, {**QWEN3_MOE, "num_experts": 16}))
    assert "gateup_proj has 8 experts, the model's configuration 16" in found.message


def test_a_layer_without_attention(tmp_path: Path) -> None:
    pair = qwen3(4).emit()
    for task in pair.tasks(153):
        if task["inputs"][1]["base_ptr"] == "layer_2_k_cache":
            task["task_type"], task["inputs"] = 118, task["inputs"][:1]
    found = said(pair, "MG005", model=config(tmp_path, LLAMA))
    assert [f.message for f in found] == [
        "the model has attention in layer 2, and the graph has not"
    ]
    unknown = config(tmp_path, {"num_hidden_layers": 4})
    assert said(pair, "MG005", model=unknown) == ()


def test_the_configuration_on_the_command_line(tmp_path: Path) -> None:
    qwen3(3).write(tmp_path / "a")
    config(tmp_path, QWEN3)
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(tmp_path / "config.json")]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.return_value == 1
    assert "MG005 error: the graph has 3 layers" in result.output
    assert "model: checked against config.json (qwen3)" in result.output
    cut = CliRunner().invoke(cli, [*arguments, "--layers", "0-2"], standalone_mode=False)
    assert cut.return_value == 0


def test_without_a_configuration_the_verdict_says_so(tmp_path: Path) -> None:
    qwen3(3).write(tmp_path / "a")
    result = CliRunner().invoke(cli, ["check", str(tmp_path / "a")])
    assert "model: not given, so what every layer does alike is not proven" in result.output


def test_a_key_that_is_not_known_is_listed_when_asked_for(tmp_path: Path) -> None:
    qwen3(4).write(tmp_path / "a")
    config(tmp_path, {**QWEN3, "layer_skip": [1]})
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(tmp_path / "config.json")]
    assert "layer_skip" not in CliRunner().invoke(cli, arguments).output
    assert "1 key that promised nothing: layer_skip" in (
        CliRunner().invoke(cli, [*arguments, "-v"]).output
    )


@pytest.mark.parametrize("text", ["", "x", "0", "3-1", "1,", "-1", "1-", "99999", "4,x", "٣"])
def test_layers_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    qwen3(1).write(tmp_path / "a")
    config(tmp_path, QWEN3)
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(tmp_path / "config.json")]
    assert CliRunner().invoke(cli, [*arguments, f"--layers={text}"]).exit_code == 2


def test_layers_that_the_model_has_not_are_refused(tmp_path: Path) -> None:
    qwen3(1).write(tmp_path / "a")
    config(tmp_path, QWEN3)
    arguments = ["check", str(tmp_path / "a"), "--layers", "5"]
    assert CliRunner().invoke(cli, arguments).exit_code == 2
    arguments += ["--model-config", str(tmp_path / "config.json")]
    assert "has layers 0-3, and no 4" in CliRunner().invoke(cli, arguments).output


def test_what_is_no_configuration_is_refused(tmp_path: Path) -> None:
    qwen3(1).write(tmp_path / "a")
    (tmp_path / "config.json").write_text("{")
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(tmp_path / "config.json")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "no JSON" in result.output
