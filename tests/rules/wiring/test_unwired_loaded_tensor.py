"""MG102 unwired-loaded-tensor."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import fires, silent, with_text


@fires("MG102", cuda='all_tensors["layer_1_extra"]', says=("host", "output_refs=0"))
def test_a_weight_that_is_wired_to_nothing() -> Pair:
    return qwen3(2).with_extra_host("layer_1_extra").emit()


@fires("MG102", cuda='all_tensors["layer_1_extra"]', says=("host tensor",))
def test_one_whose_storage_is_written_in_a_way_of_its_own() -> Pair:
    pair = qwen3(2).with_extra_host("layer_0_extra", "layer_1_extra").emit()
    text = pair.cuda_text().replace("char *layer_1_extra = ", "auto layer_1_extra = my_")
    return with_text(pair, text)


@silent("MG102")
def test_a_host_tensor_that_is_only_written() -> Pair:
    return qwen3(2).emit()


@fires(
    "MG102",
    cuda='all_tensors["layer_0_extra"]',
    says=("layer_0_extra and 3 more of its role (layers 0-3)",),
    once=True,
)
def test_the_same_in_every_layer_is_one_finding() -> Pair:
    return qwen3(4).with_extra_host(*(f"layer_{n}_extra" for n in range(4))).emit()
