"""MG003 shape-differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage_gate import Options
from tests.checkpoints import checkpoint_of, read
from tests.emitter import Model, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.model_of import config_of
from tests.rules import Expect, fires, silent

from ._shared import config

RIGHT = [
    (qwen3(3), "qwen3"),
    (qwen3(3, arch="ampere"), "qwen3"),
    (qwen3(3, ranks=2, collective="tile"), "qwen3"),
    (qwen3(3, ranks=4, collective="allgather"), "qwen3"),
    (qwen3(3).without_qk_norm(), "llama"),
    (qwen3(3).sized(lm_rows=272), "qwen3"),
    (qwen3_ampere(3), "qwen3"),
    (qwen3_moe(3), "qwen3_moe"),
    (qwen3_moe(3).without_qk_norm(), "mixtral"),
    (deepseek_v3(5), "deepseek_v3"),
    (deepseek_v3(5, ranks=8), "deepseek_v3"),
]


def held(model: Model, folder: Path, family: str, **keys: Any) -> Expect:
    promised = config(folder, {**config_of(model, family), **keys})
    return Expect(model.emit(), options=Options(model=promised))


@pytest.mark.parametrize(("model", "family"), RIGHT)
@silent("MG003")
def test_the_sizes_of_the_configuration(tmp_path: Path, model: Model, family: str) -> Expect:
    return held(model, tmp_path, family)


@pytest.mark.parametrize(("model", "family"), [pair for pair in RIGHT if "deep" not in pair[1]])
@silent("MG003")
def test_the_shapes_of_the_checkpoint(model: Model, family: str) -> Expect:
    return Expect(model.emit(), options=Options(checkpoint=read(checkpoint_of(model, family))))


@pytest.mark.parametrize(
    ("key", "value", "says", "cuda"),
    [
        ("num_attention_heads", 16, "16 heads of 32", 'at("layer_0_q_proj")'),
        ("num_key_value_heads", 8, "8 key and value heads of 32", 'at("layer_0_k_proj")'),
        ("head_dim", 64, "heads of 64", 'all_tensors["layer_0_q_norm"]'),
        ("intermediate_size", 512, "512 for the intermediate size", 'at("layer_0_gate_proj")'),
        ("vocab_size", 512, "512 rows of 128", 'all_tensors["lm_head"]'),
        ("hidden_size", 256, "a hidden size of 256", 'all_tensors["layer_0_input_layernorm"]'),
    ],
)
@fires("MG003")
def test_another_size(tmp_path: Path, key: str, value: int, says: str, cuda: str) -> Expect:
    expected = held(qwen3(3), tmp_path, "qwen3", **{key: value})
    return replace(expected, says=(says,), cuda=cuda)


@fires("MG003", says=("layer_0_gateup_proj",), cuda='all_tensors["layer_0_gateup_proj"]')
def test_experts_of_another_width(tmp_path: Path) -> Expect:
    return held(qwen3_moe(3), tmp_path, "qwen3_moe", moe_intermediate_size=128)


@fires(
    "MG003",
    says=("lm_head is read as 192x128, and the configuration says 256 rows",),
    cuda='all_tensors["lm_head"]',
    once=True,
)
def test_a_head_of_fewer_rows(tmp_path: Path) -> Expect:
    model = qwen3(3)
    pair = model.emit()
    tasks = [task for task in pair.tasks(tensor="lm_head") if task["inputs"][1]]
    last = max(task["inputs"][1]["offset"] for task in tasks)
    for task in tasks:
        if task["inputs"][1]["offset"] == last:
            task["inputs"][1]["offset"] = 0
    promised = config(tmp_path, config_of(model, "qwen3"))
    return Expect(pair, options=Options(model=promised))


@fires("MG003", says=("the checkpoint has 384x128",), cuda='at("layer_1_q_proj")', once=True)
def test_another_shape_in_the_checkpoint() -> Expect:
    tensors = checkpoint_of(qwen3(3), "qwen3")
    tensors["model.layers.1.self_attn.q_proj.weight"] = ("BF16", [384, 128])
    return Expect(qwen3(3).emit(), options=Options(checkpoint=read(tensors)))


@fires(
    "MG003",
    says=("was compiled with eps 1e-06, and the configuration says 1e-05",),
    cuda="1e-6f);",
)
def test_another_epsilon(tmp_path: Path) -> Expect:
    return held(qwen3(3), tmp_path, "qwen3", rms_norm_eps=1e-5)


@fires(
    "MG003",
    says=("was compiled with NUM_TOPK 2, and the configuration says 4",),
    cuda="moe_linear_sm100_task_impl",
)
def test_experts_that_are_chosen(tmp_path: Path) -> Expect:
    return held(qwen3_moe(3), tmp_path, "qwen3_moe", num_experts_per_tok=4)


@silent("MG003")
def test_a_type_whose_keys_may_mean_something_else(tmp_path: Path) -> Expect:
    return held(qwen3(3), tmp_path, "unheard_of", hidden_size=4096)
