"""MG108 repeated-declaration."""

from __future__ import annotations

from tests.emitter import LITERAL, Pair, qwen3
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


@silent("MG108", notes=True)
def test_two_names_for_one_weight_that_is_only_read() -> Pair:
    return _at_one_address("layer_0_k_norm", "layer_0_q_norm")
