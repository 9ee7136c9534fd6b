"""MG105 never-written."""

from __future__ import annotations

from tests.emitter import Pair, qwen3
from tests.rules import fires, silent


@fires("MG105", cuda='all_tensors["mlp_mid"]', says=("written by none",))
def test_the_projection_writes_another_buffer() -> Pair:
    pair = qwen3(2).with_unused_scratch("elsewhere").emit()
    for task in pair.tasks(tensor="mlp_mid"):
        for output in task["outputs"]:
            if output["base_ptr"] == "mlp_mid":
                output["base_ptr"] = "elsewhere"
    return pair


@silent("MG105")
def test_a_cache_is_read_and_written_in_one_slot() -> Pair:
    pair = qwen3(2).emit()
    for name in ("layer_0_k_cache", "layer_0_v_cache"):
        pair.declaration(name).storage = "scratch"
        pair.declaration(name).nbytes = 1 << 30
    return pair
