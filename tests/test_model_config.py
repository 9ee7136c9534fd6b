"""MG704: a graph against the model's own ``config.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirage_gate.artifacts.model_config import ModelConfig, ModelConfigError, read
from mirage_gate.auditing.ranks import audit
from mirage_gate.auditing.selection import Selection
from mirage_gate.cli import cli
from mirage_gate.facts import Options
from mirage_gate.findings import Finding, Severity
from tests.emitter import Model, deepseek_v3, qwen3, qwen3_moe
from tests.rules import graph_line, line_of

LAYERS = Selection(select=("MG7",))
QWEN3 = {"model_type": "qwen3", "num_hidden_layers": 4, "rope_theta": 1000000}
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


def config(folder: Path, document: Any) -> ModelConfig:
    file = folder / "config.json"
    file.write_text(json.dumps(document, indent=2))
    return read(str(file))


def check(model: Model, promised: ModelConfig) -> tuple[Finding, ...]:
    pair = model.emit()
    report = audit(
        pair.cuda_text(),
        pair.json_text(),
        selection=LAYERS,
        options=Options(model=promised),
    )
    assert report.ranks[0].audited, report.ranks[0].failure
    return report.findings


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (qwen3(4), QWEN3),
        (qwen3_moe(6), QWEN3_MOE),
        (deepseek_v3(5), DEEPSEEK),
        (qwen3(4), {"num_hidden_layers": 4}),
        (qwen3(4), {"text_config": QWEN3}),
        (qwen3(4).without_rope(), {"n_layer": 4, "position_embedding_type": "alibi"}),
        (qwen3(4).without_qk_norm(), {**QWEN3, "model_type": "qwen2"}),
        (qwen3(4).without_rope(3), {**QWEN3, "no_rope_layers": [1, 1, 1, 0]}),
        (qwen3(4).without_rope(3), {**QWEN3, "no_rope_layer_interval": 4}),
        (
            qwen3(4).without_rope(3),
            {
                **QWEN3,
                "model_type": "exaone4",
                "layer_types": [*["sliding_attention"] * 3, "full_attention"],
            },
        ),
    ],
)
def test_a_graph_that_is_as_promised(tmp_path: Path, model: Model, document: Any) -> None:
    assert check(model, config(tmp_path, document)) == ()


def test_a_layer_too_few(tmp_path: Path) -> None:
    (found,) = check(qwen3(3), config(tmp_path, QWEN3))
    assert (found.rule, found.severity) == ("MG704", Severity.ERROR)
    assert found.message == ("the graph has 3 layers, the model's configuration 4, layer 3 missing")
    text = qwen3(3).emit().cuda_text()
    assert found.location.line == line_of(text, 'all_tensors["layer_2_')
    assert found.related[0].path.endswith("config.json")
    assert found.related[0].line == 3


def test_a_layer_too_many(tmp_path: Path) -> None:
    (found,) = check(qwen3(5), config(tmp_path, QWEN3))
    assert found.message.endswith("4, layer 4 too many")


def test_no_layer_rotates(tmp_path: Path) -> None:
    model = qwen3(4).without_rope()
    (found,) = check(model, config(tmp_path, QWEN3))
    assert found.message == "the model has rotary embedding in layers 0-3, and the graph has not"
    pair = model.emit()
    first = pair.graph["all_tasks"].index(pair.tasks(153)[0])
    assert found.location.line == graph_line(pair, ("all_tasks", first, "task_type"))
    assert found.related[0].line == 4


def test_half_of_the_layers_rotate(tmp_path: Path) -> None:
    """As many without as with: only the configuration knows which are right."""
    model = qwen3(4).without_rope(1).without_rope(3)
    found = check(model, config(tmp_path, QWEN3))
    assert "the model has rotary embedding in layers 1, 3, and the graph has not" in [
        f.message for f in found
    ]


def test_norms_of_queries_and_keys(tmp_path: Path) -> None:
    (found,) = check(qwen3(4).without_qk_norm(), config(tmp_path, QWEN3))
    assert found.message.startswith("the model has norms of queries and keys in layers 0-3")
    assert (
        check(qwen3(4).without_qk_norm(), config(tmp_path, {**QWEN3, "use_qk_norm": False})) == ()
    )


def test_an_operator_that_no_table_knows_may_be_an_attention(tmp_path: Path) -> None:
    pair = qwen3(4).emit()
    for task in pair.tasks(153):
        task["task_type"] = 999
    report = audit(
        pair.cuda_text(),
        pair.json_text(),
        selection=Selection(select=("MG704",)),
        options=Options(model=config(tmp_path, QWEN3)),
    )
    assert report.findings == ()


def test_layers_without_experts(tmp_path: Path) -> None:
    (found,) = check(deepseek_v3(5), config(tmp_path, {**DEEPSEEK, "first_k_dense_replace": 2}))
    assert found.message.startswith("the model has a mixture of experts in layer 2,")


def test_another_number_of_experts(tmp_path: Path) -> None:
    (found,) = check(qwen3_moe(6), config(tmp_path, {**QWEN3_MOE, "num_experts": 16}))
    assert "gateup_proj has 8 experts, the model's configuration 16" in found.message


def test_a_layer_without_attention(tmp_path: Path) -> None:
    pair = qwen3(4).emit()
    for task in pair.tasks(153):
        if task["inputs"][1]["base_ptr"] == "layer_2_k_cache":
            task["task_type"], task["inputs"] = 118, task["inputs"][:1]
    report = audit(
        pair.cuda_text(),
        pair.json_text(),
        selection=Selection(select=("MG704",)),
        options=Options(model=config(tmp_path, {"num_hidden_layers": 4})),
    )
    assert [f.message for f in report.findings] == [
        "the model has attention in layer 2, and the graph has not"
    ]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"num_hidden_layers": "4"}', '{"num_hidden_layers": true}', "\xff"],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelConfigError):
        read(str(file))
    qwen3(1).write(tmp_path / "a")
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(file)]
    assert CliRunner().invoke(cli, arguments).exit_code == 2


def test_the_configuration_on_the_command_line(tmp_path: Path) -> None:
    qwen3(3).write(tmp_path / "a")
    config(tmp_path, QWEN3)
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(tmp_path / "config.json")]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.return_value == 1
    assert "MG704 error: the graph has 3 layers" in result.output


@pytest.mark.parametrize(
    "odd",
    [
        {"num_experts": 8, "mlp_only_layers": [[0], "1", 2]},
        {"model_type": ["qwen3"], "rope_theta": 1},
        {"model_type": {"a": 1}, "layer_types": [[1], None]},
        {"no_rope_layers": [[], {}, 1], "rope_theta": {}},
    ],
    ids=str,
)
def test_values_of_an_odd_type_are_passed_over(tmp_path: Path, odd: dict[str, Any]) -> None:
    assert config(tmp_path, {"num_hidden_layers": 3, **odd}).layers == 3


def test_forty_thousand_keys_are_placed_in_one_pass(tmp_path: Path) -> None:
    """Each looked for on its own, they took a quarter of a minute."""
    keys = {f"key_{number}": 1 for number in range(40_000)}
    found = config(tmp_path, {**keys, "num_hidden_layers": 3})
    assert found.keys["num_hidden_layers"].line == found.keys["key_39999"].line + 1 == 40_002
