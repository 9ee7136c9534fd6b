"""The plan: the same model reads the same, whatever it was built for; and text is read back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mirage_gate.facts.plan import PlanError, parse_plan
from mirage_gate.facts.task_types import CODES
from mirage_gate.facts.words import WORDS, forms
from tests.emitter import QWEN3, Model, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.scratch import ROOT
from tests.test_layers import facts_of

ATTENTION = "k_cache, v_cache, q_norm, k_norm, cos_position_embedding, sin_position_embedding"
DENSE = f"""\
x = embedding(input_token, embed_tokens)
layers 0-3:
  h = rms_norm(x, input_layernorm)
  qkv = linear(h, qkv_proj)
  a = attention(qkv, {ATTENTION})
  r = linear(a, o_proj) + x
  h = rms_norm(r, post_attn_layernorm)
  gatedup = linear(h, gatedup_proj)
  m = silu_mul(gatedup)
  x = linear(m, down_proj) + r
h = rms_norm(x, model_norm_weight)
logits = linear(h, lm_head)
output_token = argmax(logits)
"""


def plan_of(model: Model, rank: int = 0) -> str:
    return str(facts_of(model.emit(rank)).plan)


def test_a_dense_model_is_read_back() -> None:
    assert plan_of(qwen3(4)) == DENSE


@pytest.mark.parametrize("size", QWEN3)
def test_sizes_do_not_matter(size: str) -> None:
    if "A3B" not in size and "fused" not in size:
        assert plan_of(qwen3(4).sized(**QWEN3[size])) == DENSE


@pytest.mark.parametrize("arch", ["ampere", "hopper", "blackwell"])
def test_generations_do_not_matter(arch: Any) -> None:
    assert plan_of(qwen3(4, arch=arch)) == DENSE


def test_split_attention_is_attention() -> None:
    assert plan_of(qwen3(4, split_kv=True)) == DENSE


@pytest.mark.parametrize("collective", ["tile", "allgather"])
def test_ranks_add_lines_of_their_own(collective: Any) -> None:
    lines = plan_of(qwen3(4, ranks=2, collective=collective)).splitlines()
    sums = ["  r = all_reduce(r)", "  x = all_reduce(x)"]
    assert [line for line in lines if line in sums] == sums
    assert [line for line in lines if line not in sums] == DENSE.splitlines()


def test_another_rank_leaves_the_residual_to_the_first() -> None:
    lines = plan_of(qwen3(4, ranks=2), rank=1).splitlines()
    assert "  r = linear(a, o_proj)" in lines
    assert "  x = linear(m, down_proj)" in lines


def test_a_mixture_is_read_back() -> None:
    assert plan_of(qwen3_moe(3)).splitlines()[6:13] == [
        "  h = rms_norm(r, post_attn_layernorm)",
        "  moe_gate_out = linear(h, moe_gate)",
        "  weights, routing, mask = topk_softmax(moe_gate_out)",
        "  e = experts(h, gateup_proj, routing, mask)",
        "  m = silu_mul(e)",
        "  e = experts(m, down_proj, routing, mask)",
        "  x = weighted_sum(e, weights) + r",
    ]


def test_classes_of_layers_stand_once() -> None:
    plan = facts_of(deepseek_v3(6).emit()).plan
    assert [block.title for block in plan.blocks] == ["", "layers 0-2", "layers 3-5", ""]
    assert "rope" in str(plan) or "cos" not in str(plan)


def test_what_one_layer_lacks_makes_a_class_of_its_own() -> None:
    text = plan_of(qwen3(4).without_rope(layer=2))
    assert "layers 0-1, 3:" in text
    assert "layer 2:" in text
    assert "q_norm, k_norm, none, none)" in text


def test_a_stale_residual_is_seen() -> None:
    text = plan_of(qwen3(4).stale_residual(1))
    assert "r = linear(a, o_proj) + x@start" in text


def test_a_norm_that_is_passed_by_is_seen() -> None:
    pair = qwen3(3).emit()
    for task in pair.graph["all_tasks"]:
        if any(i["base_ptr"].endswith("gatedup_proj") for i in task["inputs"] or ()):
            task["inputs"][0] = {**task["inputs"][0], "base_ptr": "attn_proj_out"}
    assert "gatedup = linear(r, gatedup_proj)" in str(facts_of(pair).plan)


def test_a_state_of_the_iteration_before_is_said_to_be_one() -> None:
    pair = qwen3(2).emit()
    for task in pair.graph["all_tasks"]:
        if any(i["base_ptr"] == "layer_0_input_layernorm" for i in task["inputs"] or ()):
            task["inputs"][0] = {**task["inputs"][0], "base_ptr": "mlp_out"}
    assert "h = rms_norm(x@before, input_layernorm)" in str(facts_of(pair).plan)


def test_the_first_task_of_each_layer_is_where_a_statement_is() -> None:
    facts = facts_of(qwen3(3).emit())
    statement = facts.plan.blocks[1].statements[0]
    norms = [o for o in facts.layers.operators if o.weight == "layer_N_input_layernorm"]
    assert statement.where == tuple(operator.first for operator in norms)
    assert statement.tasks == norms[0].tasks
    assert statement.types == ("TASK_RMS_NORM_HOPPER",)


@pytest.mark.parametrize(
    "model",
    [qwen3(3), qwen3(3, ranks=2), qwen3_ampere(3), qwen3_moe(3), deepseek_v3(5, ranks=8)],
    ids=["dense", "ranks", "fused", "mixture", "deepseek"],
)
def test_text_is_read_back(model: Model) -> None:
    plan = facts_of(model.emit()).plan
    assert str(parse_plan(str(plan))) == str(plan)


def test_a_plan_by_hand_is_read() -> None:
    text = """\
        # comment\r
x = embedding(tokens, "odd name")  # another
layers 0-1, 4 :
\ty, z:q = f(x@-1, {a, b:c@3}, none) + x@start + y
layer 7:
  z = a + b
out(z)
"""
    with pytest.raises(PlanError, match="line 4, column 6"):
        parse_plan(text)
    plan = parse_plan(text.replace("z:q", "z"))
    assert str(plan) == (
        'x = embedding(tokens, "odd name")\n'
        "layers 0-1, 4:\n"
        "  y, z = f(x@-1, {a, b:c@3}, none) + x@start + y\n"
        "layer 7:\n"
        "  z = a + b\n"
        "out(z)\n"
    )


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "there is no statement"),
        ("x = ", 1, 4, "and the line ends"),
        ("x = f(a", 1, 8, "expected `,` or `)`"),
        ("x = f(a) b", 1, 10, "expected the end of the line, found b"),
        ("x = a", 1, 6, "expected `(` or `+`"),
        ("a\nb", 1, 2, "expected `=`"),
        ("x = f(a)\n  y = f(x)", 2, 1, "stands under no `layers N:`"),
        ("layers 3-1:", 1, 10, "expected a number from 3"),
        ("layers 0-99999999:", 1, 10, "expected a number from 0"),
        ("layers 0-9999999999999999:", 1, 10, "expected a smaller number"),
        ("x = f(%)", 1, 7, "means nothing here"),
        ("x = f(a@)", 1, 9, "expected a layer"),
    ],
)
def test_an_error_has_a_line_and_a_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(PlanError) as error:
        parse_plan(text)
    assert (error.value.line, error.value.column) == (line, column)
    assert message in error.value.message


def test_the_page_on_plans_shows_what_is_printed() -> None:
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```plan\n(.*?)^```$", page, re.M | re.S)
    models = (qwen3(36), qwen3_moe(6), deepseek_v3(61).without_rope())
    assert shown == [plan_of(model) for model in models]
    assert not re.search(r"cos|sin\b", shown[2])


def test_every_row_of_the_words_is_of_a_type() -> None:
    from mirage_gate.facts.words import base

    # Newer tables name more of them.
    known = {base(name) for name in CODES.values()}
    assert len([row for row in WORDS if row in known]) >= len(WORDS) - 2
    for name in CODES.values():
        forms(name)
