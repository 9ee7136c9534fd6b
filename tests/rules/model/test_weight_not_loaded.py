"""MG001 weight-not-loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirage_gate import Options, Severity
from mirage_gate.cli import cli
from tests.checkpoints import Tensors, checkpoint_of, read, safetensors
from tests.emitter import Model, Pair, qwen3, qwen3_ampere, qwen3_moe
from tests.model_of import config_of
from tests.rules import Expect, Texts, fires, silent

from ._shared import config, said


def held(
    made: Pair | Texts, model: Model, family: str, change: Callable[[Tensors], object] = len
) -> Expect:
    """A graph, held to a checkpoint that was changed."""
    tensors = checkpoint_of(model, family)
    change(tensors)
    return Expect(made, options=Options(checkpoint=read(tensors)))


@pytest.mark.parametrize(
    ("model", "family"),
    [
        (qwen3(4), "qwen3"),
        (qwen3(4, ranks=2, collective="tile"), "qwen3"),
        (qwen3_ampere(4), "qwen3"),
        (qwen3(4).without_qk_norm(), "llama"),
        (qwen3_moe(4), "qwen3_moe"),
        (qwen3_moe(4).without_qk_norm(), "mixtral"),
        (qwen3(4).named(weights="model.layers.{layer}.{part}"), "qwen3"),
    ],
)
@silent("MG001")
def test_every_weight_is_loaded(model: Model, family: str) -> Expect:
    return held(model.emit(), model, family)


@fires(
    "MG001",
    says=("model.layers.0.self_attn.q_norm.weight and 3 like it (layers 0-3)",),
    cuda='all_tensors["layer_0_input_layernorm"]',
)
def test_a_norm_that_no_layer_loads() -> Expect:
    """Not attached and not read, in any layer: the graph alone is consistent."""
    return held(qwen3(4).without_qk_norm().emit(), qwen3(4), "qwen3")


@fires(
    "MG001",
    says=("model.layers.2.self_attn.q_norm.weight (layer 2)",),
    cuda='all_tensors["layer_2_input_layernorm"]',
)
def test_a_norm_that_one_layer_does_not_load() -> Expect:
    return held(qwen3(4).without_qk_norm(2).emit(), qwen3(4), "qwen3")


def biases(tensors: Tensors) -> None:
    for name in [name for name in tensors if ".q_proj." in name]:
        tensors[name.replace("weight", "bias")] = ("BF16", [256])


@fires(
    "MG001",
    says=("self_attn.q_proj.bias and 3 like it",),
    cuda='all_tensors["layer_0_input_layernorm"]',
)
def test_a_bias_that_is_forgotten() -> Expect:
    return held(qwen3(4).emit(), qwen3(4), "qwen3", biases)


@silent("MG001", notes=True)
def test_a_name_that_says_nothing_may_be_it() -> Expect:
    """What the graph loads beside may stand for the norms."""
    pair = qwen3(4).emit()
    texts = [
        text.replace("_q_norm", "_g1").replace("_k_norm", "_g2")
        for text in (pair.cuda_text(), pair.json_text())
    ]
    return held(Texts(*texts), qwen3(4), "qwen3")


@silent("MG001", notes=True)
def test_names_of_another_world_prove_nothing() -> Expect:
    return held(qwen3(4).emit(), qwen3(4), "qwen3", renamed)


def renamed(tensors: Tensors) -> None:
    for number, name in enumerate(list(tensors)):
        tensors[f"tensor_{number}"] = tensors.pop(name)


@silent("MG001")
def test_what_older_checkpoints_keep_beside() -> Expect:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    return held(qwen3(2).emit(), qwen3(2), "qwen3", lambda t: t.update({name: ("F32", [16])}))


@silent("MG001")
def test_scales_of_weights_that_are_read_as_they_were_quantized_back() -> Expect:
    name = "model.layers.0.self_attn.o_proj.weight_scale_inv"
    return held(qwen3(2).emit(), qwen3(2), "qwen3", lambda t: t.update({name: ("F32", [1, 1])}))


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    pair = qwen3(2).emit()
    for task in pair.graph["all_tasks"]:
        for tensor in task["inputs"] or ():
            if tensor["base_ptr"] == "lm_head":
                tensor["base_ptr"] = "embed_tokens"
    text = pair.cuda_text()
    lines = [line for line in text.splitlines() if "lm_head" not in line]
    checkpoint = read(checkpoint_of(qwen3(2), "qwen3"))
    keys = config_of(qwen3(2), "qwen3")
    from mirage_gate import Selection, audit

    def found(**more: Any) -> list[str]:
        report = audit(
            "\n".join(lines),
            pair.json_text(),
            selection=Selection(select=("MG001",)),
            options=Options(checkpoint=checkpoint, **more),
        )
        return [finding.message for finding in report.findings]

    assert any("lm_head.weight" in message for message in found())
    tied = config(tmp_path, {**keys, "tie_word_embeddings": True})
    assert found(model=tied) == []


def test_what_is_matched_by_hand() -> None:
    pair = qwen3(2).without_qk_norm().emit()
    checkpoint = read(checkpoint_of(qwen3(2), "qwen3"))
    absent = ("model.layers.{layer}.self_attn.?_norm.weight",)
    assert said(pair, "MG001", checkpoint=checkpoint, weights_absent=absent) == ()
    names = {
        "layer_{layer}_input_layernorm": (
            "model.layers.{layer}.input_layernorm.weight",
            "model.layers.{layer}.self_attn.q_norm.weight",
        )
    }
    (found,) = said(pair, "MG001", checkpoint=checkpoint, weight_names=names)
    assert "k_norm" in found.message


def test_on_the_command_line(tmp_path: Path) -> None:
    qwen3(3).without_qk_norm().write(tmp_path / "out")
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors(checkpoint_of(qwen3(3), "qwen3")))
    arguments = ["check", str(tmp_path / "out"), "--weights", str(file)]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.return_value == 1
    assert "MG001" in result.output
    assert "model: checked against 36 weights" in result.output
    file.write_bytes(b"no such thing")
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 2
    assert "no safetensors file" in refused.output


def test_notes_are_no_errors() -> None:
    pair = qwen3(2).with_extra_host("layer_0_mystery").emit()
    found = said(pair, "MG001", checkpoint=read(checkpoint_of(qwen3(2), "qwen3")))
    assert [f.severity for f in found] == [Severity.NOTE]
    assert "1 of the graph (layer_0_mystery)" in found[0].message
