"""MG004: a graph's dataflow against the architecture of the model that is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from mirage_gate import Options, Selection
from mirage_gate.facts.model.architecture import architectures, parse
from mirage_gate.findings import Severity
from tests.emitter import OLD, Model, Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe
from tests.model_of import config_of
from tests.mutation.defects_model import FAMILIES, emitted, whole_models, with_its_model
from tests.mutation.draft import Draft
from tests.mutation.judge import options, report_on
from tests.mutation.subject import Subject
from tests.rules import Expect, fires, silent
from tests.rules import Path as GraphPath
from tests.rules.model._shared import config, said


def check(model: Model, family: str, folder: Path, rank: int = 0, **keys: Any) -> list[str]:
    promised = config(folder, {**config_of(model, family), **keys})
    told = {"task_types": options(True).task_types}
    return [f.message for f in said(model.emit(rank), "MG004", model=promised, **told)]


Arch = Literal["ampere", "hopper", "blackwell"]
ARCHES: tuple[Arch, ...] = ("ampere", "hopper", "blackwell")
RIGHT = [
    *((qwen3(4, arch=arch), "qwen3") for arch in ARCHES),
    *((qwen3(4, arch=arch).without_qk_norm(), "llama") for arch in ARCHES),
    *((qwen3(4, arch=arch).without_qk_norm(), "qwen2") for arch in ARCHES),
    *((qwen3(3, arch=arch, ranks=2, collective="tile"), "qwen3") for arch in ARCHES),
    *((qwen3(3, arch=arch, ranks=4, collective="allgather"), "qwen3") for arch in ARCHES),
    *(
        (qwen3(3, arch=arch, ranks=2, collective="tile").without_qk_norm(), "llama")
        for arch in ARCHES
    ),
    *(
        (qwen3(3, arch=arch, ranks=4, collective="allgather").without_qk_norm(), "llama")
        for arch in ARCHES
    ),
    (qwen3(4, split_kv=True), "qwen3"),
    (qwen3(4).written(OLD), "qwen3"),
    (qwen3_ampere(4), "qwen3"),
    (qwen3_ampere(4).without_qk_norm(), "llama"),
    (qwen3_moe(4), "qwen3_moe"),
    (qwen3_moe(4).without_qk_norm(), "mixtral"),
    (deepseek_v3(5), "deepseek_v3"),
    (deepseek_v3(5), "kimi_k2"),
    (qwen3(4).named(rope=("angles_a", "angles_b")), "qwen3"),
    (qwen3(4).named(weights="model.layers.{layer}.self_attn.{part}"), "qwen3"),
    (qwen3(4).with_unused_scratch("spare"), "qwen3"),
]


@pytest.mark.parametrize(("model", "family"), RIGHT)
def test_a_correct_graph_is_its_architecture(tmp_path: Path, model: Model, family: str) -> None:
    if family == "kimi_k2":
        document = {**config_of(model, "deepseek_v3"), "model_type": family}
        promised = config(tmp_path, document)
        told = {"task_types": options(True).task_types, "model": promised}
        assert said(model.emit(), "MG004", **told) == ()
        return
    for rank in range(model.ranks):
        assert check(model, family, tmp_path, rank) == []


@pytest.mark.parametrize("most", [8, pytest.param(0, marks=pytest.mark.slow, id="all")])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_every_layer_does_wrong_is_stopped(name: str, most: int) -> None:
    """At least thirty changes, each the same in every layer; each an error of this family."""
    subject = Subject.of(name, emitted(name).emit())
    held = Selection(select=("MG0",))
    assert report_on(with_its_model(Draft(subject)), 0, held).findings == ()
    changes = whole_models(subject)
    assert len(changes) >= 30
    missed = []
    for draft in changes[:: -(-len(changes) // most) if most else 1]:
        report = report_on(with_its_model(draft), 0, held)
        assert not report.failed_ranks, report.failed_ranks[0].failure
        if not report.count(Severity.ERROR):
            missed.append(draft.note)
    assert missed == []


def held(pair: Pair, folder: Path, document: Any, graph: GraphPath = ()) -> Expect:
    return Expect(pair, options=Options(model=config(folder, document)), graph=graph)


@silent("MG004")
def test_the_nearest_correct_graph(tmp_path: Path) -> Expect:
    return held(qwen3(4).emit(), tmp_path, config_of(qwen3(4), "qwen3"))


@fires(
    "MG004",
    whole="in layers 0-3 stands `r = linear(a, o_proj) + h` where qwen3 has "
    "`r = linear(a, o_proj) + x`: x is not added",
    once=True,
)
def test_the_two_lines_are_said(tmp_path: Path) -> Expect:
    pair = qwen3(4).emit()
    adding = [task for task in pair.tasks(156) if "o_proj" in task["inputs"][1]["base_ptr"]]
    for task in adding:
        task["inputs"][2]["base_ptr"] = "rmsnorm_out"
    first = pair.graph["all_tasks"].index(adding[0])
    graph = ("all_tasks", first, "task_type")
    return held(pair, tmp_path, config_of(qwen3(4), "qwen3"), graph)


def test_deepseek_without_positions_under_any_name(tmp_path: Path) -> None:
    for model in (
        deepseek_v3(5).without_rope(),
        deepseek_v3(5).without_rope().named(rope=("angles_a", "angles_b")),
    ):
        (message,) = check(model, "deepseek_v3", tmp_path)
        assert message.startswith("in layers 0-4 stands `a = mla_attention(q_b, kv)` where")
        assert message.endswith("q_b is not rotated on its way")


def test_norms_of_queries_and_keys_in_no_layer(tmp_path: Path) -> None:
    (message,) = check(qwen3(4).without_qk_norm(), "qwen3", tmp_path)
    assert message.endswith("q_norm is not given")
    (message,) = check(qwen3(4), "llama", tmp_path)
    assert message.endswith("it takes q_norm, which the model has not")


def test_layers_without_positions_as_the_configuration_says(tmp_path: Path) -> None:
    model = qwen3(4).without_rope(3)
    (message,) = check(model, "qwen3", tmp_path)
    assert message.startswith("in layer 3 stands")
    assert check(model, "qwen3", tmp_path, no_rope_layer_interval=4) == []
    (message,) = check(qwen3(4), "qwen3", tmp_path, no_rope_layer_interval=4)
    assert "which the model has not" in message


def test_another_activation(tmp_path: Path) -> None:
    (message,) = check(qwen3(4), "qwen3", tmp_path, hidden_act="gelu_pytorch_tanh")
    assert "where qwen3 has `m = gelu_mul(gate_up)`" in message


def test_a_head_that_is_not_tied(tmp_path: Path) -> None:
    pair = qwen3(3).emit()
    for task in pair.graph["all_tasks"]:
        for tensor in task["inputs"] or ():
            if tensor["base_ptr"] == "lm_head":
                tensor["base_ptr"] = "embed_tokens"
    keys = config_of(qwen3(3), "qwen3")
    (found,) = said(pair, "MG004", model=config(tmp_path, keys))
    assert "it takes embed_tokens for lm_head" in found.message
    tied = config(tmp_path, {**keys, "tie_word_embeddings": True})
    assert said(pair, "MG004", model=tied) == ()


def test_a_sum_over_the_ranks_that_is_missing_everywhere(tmp_path: Path) -> None:
    model = qwen3(3, ranks=2, collective="tile")
    promised = config(tmp_path, config_of(model, "qwen3"))
    pair = model.emit()
    for task in pair.graph["all_tasks"]:
        for tensor in task["inputs"] or ():
            if tensor["base_ptr"] == "attn_allreduce_out":
                tensor["base_ptr"] = "attn_proj_out"
    (found,) = said(pair, "MG004", model=promised)
    assert "linear(o_proj) is not summed over the ranks" in found.message
    assert "128 of the 256 columns" in found.message


def test_an_operator_without_a_word_leaves_it_open(tmp_path: Path) -> None:
    """A fork's own norm: nothing is claimed of what it is a part of."""
    pair = qwen3(3).emit()
    for task in pair.tasks(154):
        task["task_type"] = 777
    found = said(pair, "MG004", model=config(tmp_path, config_of(qwen3(3), "qwen3")))
    assert {f.severity for f in found} == {Severity.NOTE}


def test_a_type_that_has_no_file_is_not_compared(tmp_path: Path) -> None:
    assert check(qwen3(3).without_qk_norm(), "unheard_of", tmp_path) == []


def test_every_architecture_is_read() -> None:
    names = {one.name for one in architectures()}
    assert names >= {"llama", "qwen3", "qwen3_moe", "mixtral", "deepseek_v3"}
    models = [kind for one in architectures() for kind in one.models]
    assert len(models) == len(set(models))
    for one in architectures():
        assert one.layer(mixes=True) or one.layer(mixes=False)


@pytest.mark.parametrize("line", ["x", "x = ", "x = f(", "= f(x)", "x = y"])
def test_a_line_that_means_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse("odd", line)
