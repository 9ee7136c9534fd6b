"""MG114 shared-memory."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3
from tests.rules import fires, silent

from ._shared import changed, edited


def _entered(name: str, value: str, pair: Pair | None = None) -> Pair:
    line = f'all_tensors["{name}"] = '
    return edited(pair or qwen3(2).emit(), (f"{line}{name};", f"{line}{value};"))


@fires("MG114", cuda='all_tensors["silu_mul_out"]', says=("memory of mlp_mid (task",), once=True)
def test_an_operator_writes_over_what_its_siblings_still_read() -> Pair:
    return _entered("silu_mul_out", "mlp_mid")


@fires("MG114", cuda='all_tensors["rmsnorm_out"]', says=("memory of embed_out (task",))
def test_a_norm_writes_over_the_residual() -> Pair:
    return _entered("rmsnorm_out", "embed_out")


@fires("MG114", cuda='all_tensors["silu_mul_out"]', says=("memory of mlp_mid",))
def test_the_second_half_of_the_other_buffer() -> Pair:
    return _entered("silu_mul_out", "mlp_mid + 1024")


@fires("MG114", Severity.WARNING, cuda='all_tensors["silu_mul_out"]', once=True)
def test_where_the_one_is_done_before_the_other_begins() -> Pair:
    return _entered("silu_mul_out", "attn_in")


@silent("MG114")
def test_parts_of_one_allocation() -> Pair:
    pair = changed(
        qwen3(2).emit(), (r"cudaMalloc\(&mlp_mid, (\d+)\)", r"cudaMalloc(&mlp_mid, 1\1)")
    )
    size = qwen3(2).emit().declaration("mlp_mid").nbytes
    return _entered("silu_mul_out", f"mlp_mid + {size}", pair)


@silent("MG114")
def test_every_buffer_has_its_own() -> Pair:
    return qwen3(2, ranks=2).emit(1)
