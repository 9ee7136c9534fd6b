"""A graph and the model's own ``config.json`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mirage_gate.cli import cli
from tests.emitter import qwen3
from tests.rules.model._shared import config

QWEN3 = {"model_type": "qwen3", "num_hidden_layers": 4, "rope_theta": 1000000}


def test_the_configuration_on_the_command_line(tmp_path: Path) -> None:
    qwen3(3).write(tmp_path / "a")
    config(tmp_path, QWEN3)
    arguments = ["check", str(tmp_path / "a"), "--model-config", str(tmp_path / "config.json")]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.return_value == 1
    assert "MG005 layers-differ error: the graph has 3 layers" in result.output
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
