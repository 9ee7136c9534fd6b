"""MG302 overwritten-while-read."""

from __future__ import annotations

import pytest

from tests.emitter import Pair
from tests.rules import Expect, fires, silent, where
from tests.rules.graphs import position, small, to_end

from ._shared import a_projection_leads_to_the_end_alone, gathers_lead_to_the_end_alone


@fires(
    "MG302",
    tensor="rmsnorm_out",
    says=("writes anew, and nothing orders them",),
    once=True,
)
def test_a_norm_that_writes_what_the_layer_before_may_be_reading() -> Expect:
    pair = a_projection_leads_to_the_end_alone()
    return Expect(pair, graph=where(pair, 154, "dependent_event", nth=4))


@pytest.mark.parametrize(("tensor", "slot"), [("c_latent_out", 0), ("k_pe_out", 1)])
@fires("MG302")
def test_a_gather_that_leads_to_the_end_alone(tensor: str, slot: int) -> Expect:
    """The next layer's projections write what it may still be reading."""
    pair = gathers_lead_to_the_end_alone()
    writer = next(
        task
        for task in pair.tasks(tensor=tensor)
        if tensor in str(task["outputs"]) and "layer_1_" in str(task["inputs"])
    )
    return Expect(
        pair,
        graph=("all_tasks", position(pair, writer), "dependent_event"),
        tensor=tensor,
        says=(f"(TASK_MLA_KV_GATHER_SM100, layer 0, input {slot}) reads",),
    )


@silent("MG302")
def test_a_last_reader_that_leads_to_the_end_alone() -> Pair:
    """Nobody writes its buffers after it."""
    pair = small()
    to_end(pair, pair.tasks(155)[-1:])
    return pair
