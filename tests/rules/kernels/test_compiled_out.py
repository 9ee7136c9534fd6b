"""MG510 compiled-out."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3, qwen3_ampere
from tests.rules import fires, silent
from tests.rules.kernels._bodies import edited

ATTENTION = "TASK_PAGED_ATTENTION_HOPPER"
RESIDUAL = "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER"


def _flags(pair: Pair, qk_norm: str, rope: str) -> Pair:
    return edited(
        pair, "true,\n          true,", f"{qk_norm},\n          {rope},  // flags", ATTENTION
    )


@fires(
    "MG510",
    cuda="false,  // flags",
    says=("rope = false", "cos_position_embedding", "never looks at it"),
)
def test_the_rotation_is_off_beside_its_tables() -> Pair:
    return _flags(qwen3(1).emit(), "true", "false")


@fires(
    "MG510", Severity.WARNING, cuda="          false,", says=("qk_norm = false", "layer_0_q_norm")
)
def test_the_norms_are_off_beside_their_weights() -> Pair:
    return _flags(qwen3(1).emit(), "false", "true")


@fires("MG510", cuda="true,  // flags", says=("qk_norm = true", "address 0"))
def test_the_norms_are_on_without_weights() -> Pair:
    pair = qwen3(1).without_qk_norm().emit()
    return edited(pair, "false,\n          true,", "true,  // flags\n          true,", ATTENTION)


@fires("MG510", Severity.WARNING, cuda="          false);", says=("add_residual = false",))
def test_the_residual_is_off_on_the_only_rank() -> Pair:
    return edited(qwen3(1).emit(), "runtime_config.my_gpu_id == 0", "false", RESIDUAL)


@silent("MG510")
def test_the_residual_is_off_on_the_second_rank() -> Pair:
    return qwen3(1, ranks=2).emit(rank=1)


@silent("MG510")
def test_features_that_a_layer_does_without() -> Pair:
    return qwen3(2).without_qk_norm().without_rope(1).emit()


@silent("MG510")
def test_a_layer_without_norms_in_an_older_generation() -> Pair:
    return qwen3_ampere(2).without_qk_norm(1).emit()
