"""What published configurations promise of their models' layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage_gate.artifacts import model
from mirage_gate.artifacts.model import Promise
from tests.published_models import PUBLISHED, Layers, Meaning
from tests.rules.model._shared import config as read


def promised(said: Layers, layers: int) -> Promise:
    every = frozenset(range(layers))
    if said is None or isinstance(said, str):
        known = {"all": Promise(every, some=True), "none": Promise(lacking=every)}
        return known.get(said or "", Promise(some=said == "some"))
    return Promise(said, every - said, some=True)


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_promises_what_the_model_is(tmp_path: Path, name: str) -> None:
    document, meaning = PUBLISHED[name]
    config = read(tmp_path, document)
    assert config.layers == meaning.layers
    assert config.sizes.experts == meaning.experts
    assert config.attention == promised(meaning.attention, meaning.layers)
    assert config.rotary == promised(meaning.rotary, meaning.layers)
    assert config.mixture == promised(meaning.mixture, meaning.layers)
    # Of norms of queries and keys only the presence is promised.
    assert config.qk_norm.having == promised(meaning.qk_norm, meaning.layers).having
    assert not config.qk_norm.lacking


@pytest.mark.parametrize("block", [{"no_op": True}, {"replace_with_linear": True}])
def test_a_searched_architecture_says_which_layers_feed_forward(tmp_path: Path, block: Any) -> None:
    blocks = [{"attention": {}, "ffn": {"ffn_mult": 2.6}} for _ in range(4)]
    blocks[2]["ffn"] = block
    keys = {"model_type": "nemotron-nas", "num_hidden_layers": 4, "block_configs": blocks}
    promise = read(tmp_path, keys).feed_forward
    assert promise.having == {0, 1, 3}
    assert promise.lacking == ({2} if "no_op" in block else set())


def test_llama_and_its_kin_feed_forward_in_every_layer(tmp_path: Path) -> None:
    keys = {"model_type": "mixtral", "num_hidden_layers": 4}
    assert read(tmp_path, keys).feed_forward.having == frozenset(range(4))
    assert not read(tmp_path, {**keys, "model_type": "nemotron_h"}).feed_forward


def test_there_are_architectures_enough() -> None:
    kinds = {document["model_type"] for document, _ in PUBLISHED.values()}
    assert len(kinds) >= 25, sorted(kinds)
    assert all(isinstance(meaning, Meaning) for _, meaning in PUBLISHED.values())


def test_a_key_that_is_not_known_promises_nothing_and_is_named(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {"model_type": "qwen3", "num_hidden_layers": 4, "rope_theta": 1e6, "skip_layers": [2]},
    )
    assert config.unread == ("skip_layers",)
    assert config.attention.having == frozenset(range(4))


def test_a_type_that_is_not_known_promises_no_layer(tmp_path: Path) -> None:
    config = read(tmp_path, {"model_type": "new", "num_hidden_layers": 4, "rope_theta": 1e6})
    assert config.attention == Promise()
    assert config.rotary == Promise(some=True)
    assert config.qk_norm == Promise()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"no_rope_layers": [1, 1, 1, 0]}, {0, 1, 2}),
        ({"no_rope_layers": [], "no_rope_layer_interval": 2}, {0, 2}),
        ({"no_rope_layers": None}, {0, 1, 2, 3}),
        ({"position_embedding_type": "nope"}, set()),
    ],
)
def test_layers_without_positions(tmp_path: Path, keys: Any, expected: set[int]) -> None:
    config = read(
        tmp_path, {"model_type": "llama", "num_hidden_layers": 4, "rope_theta": 1e4, **keys}
    )
    assert config.rotary.having == expected
    assert config.rotary.lacking == frozenset(range(4)) - expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]}, {1, 2}),
        ({"moe_layer_freq": [0, 1, 0, 1]}, {1, 3}),
        ({"moe_layer_freq": 2, "first_k_dense_replace": 1}, {2}),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [3]}, {1}),
        ({"moe_layers": [0, 2]}, {0, 2}),
        ({"interleave_moe_layer_step": 2}, {1, 3}),
        ({"interleave_moe_layer_step": 0}, set()),
        ({"num_dense_layers": 3}, {3}),
    ],
)
def test_layers_that_mix(tmp_path: Path, keys: Any, expected: set[int]) -> None:
    config = read(tmp_path, {"model_type": "?", "num_hidden_layers": 4, "num_experts": 8, **keys})
    assert config.mixture.having == expected
    assert config.mixture.lacking == frozenset(range(4)) - expected


def test_a_list_that_is_too_short_promises_nothing_of_the_rest(tmp_path: Path) -> None:
    blocks = [{"attention": {"no_op": True}, "ffn": {}}]
    config = read(
        tmp_path, {"model_type": "nemotron-nas", "num_hidden_layers": 4, "block_configs": blocks}
    )
    assert config.attention == Promise(lacking=frozenset({0}))


@pytest.mark.parametrize(
    "odd",
    [
        {"no_rope_layers": [[], {}, 1], "rope_theta": {}},
        {"num_experts": 8, "mlp_only_layers": [[0], "1", 2], "moe_layer_freq": [[]]},
        {"model_type": ["qwen3"], "layer_types": [1, None], "text_config": 3},
        {"model_type": {"a": 1}, "block_configs": [1, 2], "architectures": [7]},
        {"sliding_window": -1, "rms_norm_eps": "1e-6", "head_dim": True},
        {"hidden_size": 10**400, "rms_norm_eps": 10**400, "linear_attn_config": []},
        {"moe_layers_enum": "1,,x,-4,99999999999", "n_routed_experts": 4},
        {"attn_layer_period": 0, "expert_layer_period": 0, "full_attention_interval": 0},
    ],
    ids=str,
)
def test_values_of_an_odd_type_are_passed_over(tmp_path: Path, odd: dict[str, Any]) -> None:
    config = read(tmp_path, {"num_hidden_layers": 3, "num_experts": 2, **odd})
    assert config.layers == 3


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"num_hidden_layers": "4"}', '{"num_hidden_layers": true}'),
        *("\xff", '{"num_hidden_layers": 100000}', '{"text_config": {}}', "[" * 100_000),
        *('{"num_hidden_layers": 1' + "0" * 5000 + "}", '{"num_hidden_layers": NaN}'),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(model.ModelConfigError, match="config"):
        model.read(str(file))


def test_sizes_are_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            **PUBLISHED["Qwen3-8B"][0],
            "rms_norm_eps": 1e-6,
            "vocab_size": 151936,
            "tie_word_embeddings": False,
            "hidden_act": "silu",
        },
    )
    sizes = config.sizes
    assert (sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim) == (4096, 32, 8, 128)
    assert (sizes.vocabulary, sizes.eps, sizes.tied, sizes.activation) == (
        *(151936, 1e-6, False),
        "silu",
    )


def test_a_window_that_is_switched_off_is_none(tmp_path: Path) -> None:
    assert read(tmp_path, PUBLISHED["Qwen2.5-7B"][0]).sizes.window is None
    assert read(tmp_path, PUBLISHED["Mistral-7B-v0.1"][0]).sizes.window == 4096


def test_forty_thousand_keys_are_placed_in_one_pass(tmp_path: Path) -> None:
    """Each looked for on its own, they took a quarter of a minute."""
    keys = {f"key_{number}": 1 for number in range(40_000)}
    found = read(tmp_path, {**keys, "num_hidden_layers": 3})
    assert found.keys["num_hidden_layers"].line == found.keys["key_39999"].line + 1 == 40_002
