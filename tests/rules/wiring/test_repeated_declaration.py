"""MG108 repeated-declaration."""

from __future__ import annotations

from tests.emitter import LITERAL, Pair, deepseek_v3, qwen3
from tests.rules import fires, silent, with_text


@fires("MG108", cuda='all_tensors["model_norm_weight"]  //again', says=("declared again",))
def test_a_name_attached_twice() -> Pair:
    pair = qwen3(1).emit()
    text = pair.cuda_text()
    line = '  all_tensors["model_norm_weight"] = model_norm_weight;'
    again = '  all_tensors["model_norm_weight"]  //again\n = model_norm_weight;'
    return with_text(pair, text.replace(line, f"{line}\n{again}"))


def _at_one_address(name: str, other: str) -> Pair:
    pair = qwen3(1).written(LITERAL).emit()
    pair.declaration(name).address = pair.declaration(other).address
    return pair


@fires("MG108", cuda='all_tensors["layer_0_v_cache"]', says=("one address", "written by"))
def test_two_caches_at_one_address() -> Pair:
    return _at_one_address("layer_0_v_cache", "layer_0_k_cache")


def _moved(pair: Pair, name: str, other: str) -> Pair:
    pair.declaration(name).address = pair.declaration(other).address
    return pair


@fires("MG108", cuda='all_tensors["layer_2_o_proj"]', says=("each has its own",), once=True)
def test_two_layers_weights_at_one_address() -> Pair:
    return _moved(qwen3(4).written(LITERAL).emit(), "layer_2_o_proj", "layer_1_o_proj")


@fires("MG108", cuda='all_tensors["layer_1_k_norm"]', says=("each has its own",))
def test_one_layers_two_norms_at_one_address() -> Pair:
    return _moved(qwen3(2).written(LITERAL).emit(), "layer_1_k_norm", "layer_1_q_norm")


@fires("MG108", cuda='all_tensors["rope_sin"]', says=("cosine and sine",))
def test_both_tables_at_one_address() -> Pair:
    return _moved(deepseek_v3(2).emit(), "rope_sin", "rope_cos")


@silent("MG108", notes=True)
def test_one_block_of_weights_for_all_layers() -> Pair:
    pair = qwen3(4).written(LITERAL).emit()
    for layer in (1, 2, 3):
        for part in ("o_proj", "down_proj", "q_norm", "k_norm", "input_layernorm"):
            _moved(pair, f"layer_{layer}_{part}", f"layer_0_{part}")
    return pair


@silent("MG108", notes=True)
def test_norms_that_are_one_in_every_layer() -> Pair:
    pair = qwen3(3).written(LITERAL).emit()
    for layer in range(3):
        _moved(pair, f"layer_{layer}_k_norm", f"layer_{layer}_q_norm")
    return pair


@silent("MG108", notes=True)
def test_two_names_for_one_weight_that_is_only_read() -> Pair:
    return _at_one_address("layer_0_k_norm", "layer_0_q_norm")
