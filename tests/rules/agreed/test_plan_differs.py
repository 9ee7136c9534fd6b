"""MG804 plan-differs."""

from __future__ import annotations

from typing import Any

from mirage_gate.agreed.plans import planned
from mirage_gate.facts import Options
from tests.emitter import Model, Pair, qwen3, qwen3_moe
from tests.rules import Expect, fires, silent
from tests.rules.graphs import position
from tests.test_layers import facts_of

PLAN = "model.plan"


def _held_to(subject: Any, plan: str, **more: Any) -> Expect:
    return Expect(subject, options=Options(plan=planned(PLAN, plan)[1]), **more)


def _plan(model: Model) -> str:
    return str(facts_of(model.emit()).plan)


def _first(pair: Pair, code: int) -> tuple[str | int, ...]:
    return ("all_tasks", position(pair, pair.tasks(code)[0]), "task_type")


@fires("MG804", once=True)
def test_cosine_and_sine_exchanged_in_every_layer() -> Expect:
    pair = qwen3(3).emit()
    for task in pair.tasks(153):
        task["inputs"][5], task["inputs"][6] = task["inputs"][6], task["inputs"][5]
    return _held_to(
        pair,
        _plan(qwen3(3)),
        graph=_first(pair, 153),
        says=(
            "k_norm, cos_position_embedding, sin_position_embedding)`, the graph has",
            "k_norm, sin_position_embedding, cos_position_embedding)`",
        ),
    )


@fires("MG804", once=True)
def test_another_number_of_layers() -> Expect:
    pair = qwen3(3).emit()
    last = pair.tasks(154)[-1]
    first = next(t for t in pair.tasks(154) if t["inputs"][1] == last["inputs"][1])
    place = ("all_tasks", position(pair, first), "task_type")
    says = ("layer 3: h = rms_norm(x, input_layernorm)", "h = rms_norm(x, model_norm_weight)")
    return _held_to(pair, _plan(qwen3(4)), graph=place, says=says)


@fires("MG804", once=True)
def test_a_statement_that_is_not_there() -> Expect:
    pair = qwen3(3).emit()
    last = next(t for t in pair.graph["all_tasks"] if t["task_type"] in (110, 259))
    place = ("all_tasks", position(pair, last), "task_type")
    plan = _plan(qwen3(3)) + "y = sample(logits)\n"
    return _held_to(pair, plan, graph=place, says=("`y = sample(logits)`", "`nothing of the kind`"))


@silent("MG804")
def test_its_own_plan() -> Expect:
    return _held_to(qwen3_moe(3).emit(), _plan(qwen3_moe(3)))


@silent("MG804")
def test_a_plan_by_hand_has_names_of_its_own() -> Expect:
    plan = _plan(qwen3(3)).replace("qkv =", "fused =").replace("(qkv,", "(fused,")
    return _held_to(qwen3(3).emit(), plan.replace("m = silu", "act = silu").replace("(m,", "(act,"))


@silent("MG804")
def test_other_machines_and_sizes() -> Expect:
    return _held_to(qwen3(3, arch="blackwell").sized(batch=8).emit(), _plan(qwen3(3)))


@silent("MG804")
def test_one_rank_adds_the_residual_for_all() -> Expect:
    plan = _plan(qwen3(3, ranks=2))
    return _held_to(qwen3(3, ranks=2).emit_all(), plan)
