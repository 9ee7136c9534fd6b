"""Two models in one graph: each one's layers are compared with its own."""

from __future__ import annotations

import pytest

from mirage_gate.facts import RankFacts
from mirage_gate.findings import Severity
from tests.emitter import Model, Pair, deepseek_v3, qwen3, qwen3_moe, together
from tests.rules import Expect, fires, silent
from tests.rules.layers._shared import exchanged, first_slot
from tests.test_layers import facts_of

DRAFT = "draft_layer_{layer}_{part}"
ONE = ("input_token", "embed_tokens", "cos_position_embedding", "sin_position_embedding")
BUFFERS = ("embed_out", "rmsnorm_out", "attn_in", "attn_out", "attn_proj_out")
MLP = ("mlp_mid", "silu_mul_out", "mlp_out")
SHARED = {
    "nothing": (),
    "the embedding": ONE,
    "embedding and head": (*ONE, "lm_head"),
    "buffers": (*ONE, *BUFFERS, *MLP),
}
NARROW = {
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "intermediate": 192,
    "qkv_tiles": 4,
    "o_tiles": 2,
}


def draft(layers: int, prefix: str = "draft_") -> Model:
    return qwen3(layers).named(weights=f"{prefix}layer_{{layer}}_{{part}}")


def stacks_of(pair: Pair) -> tuple[RankFacts, list[tuple[str, list[int]]]]:
    facts = facts_of(pair)
    return facts, [(stack.name, list(stack.layers)) for stack in facts.stacks]


# -- Nothing is said of correct ones -----------------------------------------------------------


@pytest.mark.parametrize("share", SHARED)
@pytest.mark.parametrize(("drafted", "layers"), [(1, 4), (2, 8), (4, 1), (4, 4), (8, 2), (3, 12)])
@silent("MG702", passes=True)
def test_a_draft_model_and_its_target(drafted: int, layers: int, share: str) -> Pair:
    return together(draft(drafted), qwen3(layers), share=SHARED[share]).emit()


@pytest.mark.parametrize("share", SHARED)
@silent("MG702", passes=True)
def test_a_target_and_the_draft_of_its_next_tokens(share: str) -> Pair:
    return together(draft(8, "target_"), qwen3(1), share=SHARED[share]).emit()


@pytest.mark.parametrize("target", [qwen3(8), qwen3_moe(6), deepseek_v3(9, ranks=8)])
@silent("MG702", alone=("MG7", "MG2"))
def test_a_narrower_model_before_another_kind(target: Model) -> Pair:
    return together(draft(8, "vision_tower_").sized(**NARROW), target).emit()


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("drafted", [1, 2, 3])
@silent("MG702", passes=True)
def test_the_draft_runs_more_than_once(drafted: int, times: int) -> Pair:
    return together(*[draft(drafted)] * times, qwen3(8)).emit()


@silent("MG702", passes=True)
def test_the_draft_runs_before_and_behind_the_target() -> Pair:
    one, target = draft(2), draft(8, "target_")
    return together(one, target, one, draft(1, "tail_")).emit()


# -- What is wrong in one is said of that one --------------------------------------------------


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "layer_4_o_proj", 2),
    says=("in layer 4, input 2", "embed_out"),
    once=True,
    alone=("MG7",),
)
def test_the_target_adds_the_embedding() -> Pair:
    return together(draft(2), qwen3(8).stale_residual(4), share=SHARED["buffers"]).emit()


@fires(
    "MG702",
    Severity.WARNING,
    graph=lambda pair: first_slot(pair, "draft_layer_2_o_proj", 2),
    says=("in layer 2 of draft_layer, input 2", "embed_out"),
    once=True,
    alone=("MG7",),
)
def test_the_draft_adds_the_embedding() -> Pair:
    return together(draft(4).stale_residual(2), qwen3(8), share=SHARED["buffers"]).emit()


@fires(
    "MG701",
    graph=lambda pair: first_slot(pair, "draft_layer_2_k_cache", 5),
    says=("layer 2 of draft_layer runs without",),
    once=True,
    alone=("MG7",),
)
def test_the_draft_lacks_its_positions_in_one_layer() -> Pair:
    return together(draft(4).without_rope(2), qwen3(8), share=ONE).emit()


@pytest.mark.parametrize("drafted", [1, 2, 4])
@pytest.mark.parametrize("part", ["o_proj", "k_cache", "input_layernorm"])
@fires(
    "MG703",
    says=("in layer 0 of draft_layer", "carries layer_2_", "and draft_layer_0_"),
    beside=("MG702",),
    alone=("MG7",),
)
def test_the_two_models_weights_are_exchanged(part: str, drafted: int) -> Expect:
    pair = together(draft(drafted), qwen3(8)).emit()
    mine, theirs = f"draft_layer_0_{part}", f"layer_2_{part}"
    pair = exchanged(pair, mine, theirs)
    return Expect(pair, graph=first_slot(pair, theirs, 1))


# -- How they are told apart -------------------------------------------------------------------


def test_each_model_has_its_own_layers() -> None:
    facts, stacks = stacks_of(together(draft(2), qwen3(8), share=SHARED["buffers"]).emit())
    assert stacks == [("draft_layer", [0, 1]), ("", list(range(8)))]
    assert list(facts.layers.by_layer) == list(range(8))


def test_a_second_run_is_a_stack_of_its_own() -> None:
    _, stacks = stacks_of(together(draft(1), draft(1), qwen3(8)).emit())
    assert [name for name, _ in stacks] == ["draft_layer", "draft_layer, run 2", ""]


def test_caches_of_another_name_are_no_other_model() -> None:
    pair = qwen3(4).emit()
    text = pair.json_text()
    for layer in range(4):
        for cache in "kv":
            old, new = f"layer_{layer}_{cache}_cache", f"{cache}_cache_layer_{layer}"
            declaration = pair.declaration(old)
            declaration.name = new
            exchanged(pair, old, new)
    assert pair.json_text() != text
    _, stacks = stacks_of(pair)
    assert stacks == [("", [0, 1, 2, 3])]


def test_dense_layers_and_mixtures_of_other_names_are_one_model() -> None:
    pair = qwen3(6).emit()
    for declaration in list(pair.declarations):
        for layer in (0, 1):
            old = declaration.name
            if old.startswith(f"layer_{layer}_"):
                declaration.name = f"dense_{old}"
                exchanged(pair, old, declaration.name)
    _, stacks = stacks_of(pair)
    assert stacks == [("", list(range(6)))]
