"""MG601 rank-wiring-differs."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import Pair
from tests.rules import At, Expect, fires, line_of, report_of, silent

from ._shared import TP2, TP4


def _one_rank_without_tables() -> list[Pair]:
    return [TP4.emit(0), TP4.emit(1), TP4.without_rope(layer=1).emit(2), TP4.emit(3)]


@pytest.mark.parametrize("table", ["cos_position_embedding", "sin_position_embedding"])
@fires("MG601", says=("on rank 0 by",), rank=2)
def test_a_rank_without_tables(table: str) -> Expect:
    ranks = _one_rank_without_tables()
    declared = f'all_tensors["{table}"]'
    return Expect(
        ranks,
        at=At("kernel_2.cu", line_of(ranks[2].cuda_text(), declared)),
        tensor=table,
        related=[At("kernel_0.cu", line_of(ranks[0].cuda_text(), declared))],
    )


def test_a_rank_without_tables_is_an_error_for_the_tables_alone() -> None:
    found = report_of(_one_rank_without_tables()).findings
    errors = [f for f in found if (f.rule, f.severity) == ("MG601", Severity.ERROR)]
    assert [(f.tensor, f.rank) for f in errors] == [
        ("cos_position_embedding", 2),
        ("sin_position_embedding", 2),
    ]


def _a_weight_wired_otherwise() -> list[Pair]:
    other = TP2.emit(1)
    for task in other.tasks(tensor="layer_1_o_proj")[:1]:
        task["inputs"][1]["base_ptr"] = "layer_2_o_proj"
    return [TP2.emit(0), other]


@pytest.mark.parametrize(("weight", "readers"), [("layer_1_o_proj", 3), ("layer_2_o_proj", 5)])
@fires("MG601", Severity.WARNING, rank=1, alone=("MG6",))
def test_a_weight_wired_otherwise(weight: str, readers: int) -> Expect:
    return Expect(
        _a_weight_wired_otherwise(),
        cuda=f'all_tensors["{weight}"]',
        says=(f"is read by {readers} TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER, on rank 0 by 4",),
        tensor=weight,
    )


def test_a_weight_wired_otherwise_is_one_finding_for_each_of_the_two() -> None:
    found = report_of(_a_weight_wired_otherwise()).findings
    assert {(f.severity, f.tensor) for f in found if f.rule == "MG601"} == {
        (Severity.WARNING, "layer_1_o_proj"),
        (Severity.WARNING, "layer_2_o_proj"),
    }


@fires(
    "MG601",
    Severity.WARNING,
    rank=1,
    cuda='all_tensors["layer_0_lora"]',
    whole="on rank 1, layer_0_lora and 2 more of its role is declared; on rank 0 it is not",
    once=True,
)
def test_a_tensor_of_one_rank_alone_for_all_layers_at_once() -> list[Pair]:
    extra = [f"layer_{layer}_lora" for layer in range(3)]
    return [TP2.emit(0), TP2.with_extra_host(*extra).emit(1)]


@silent("MG601", alone=("MG6",))
def test_a_residual_compiled_out_on_one_rank() -> list[Pair]:
    ranks = TP2.emit_all()
    bodies = [{b.body for b in pair.branches if "WITH_RESIDUAL" in b.task} for pair in ranks]
    assert bodies[0] != bodies[1]
    return ranks
