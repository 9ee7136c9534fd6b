"""Layers and siblings: the places of operators, no false outlier, no outlier missed."""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mirage_gate import Selection
from mirage_gate.artifacts import cuda, loader, pairs
from mirage_gate.artifacts.graph import Graph
from mirage_gate.artifacts.names import layer_in, named_in, role_of, spans
from mirage_gate.facts import Options, RankFacts
from mirage_gate.findings import Finding, Severity
from tests.audits import findings_of
from tests.audits import findings_of_files as check_files
from tests.emitter import DEEPSEEK_V3, Model, Pair, deepseek_v3, qwen3, qwen3_ampere, qwen3_moe

LAYERS = Selection(select=("MG7",))
NONE = {"base_ptr": "nullptr", "data_type": 999, "dims": [], "offset": 0, "strides": []}
ATTENTION = frozenset({103, 116, 153, 164, 257})
RESIDUALS = {108: 2, 156: 2, 252: 2}

CLEAN = (
    "qwen3_0.6b_4l_hopper",
    "qwen3_8b_4l_hopper_splitkv",
    "qwen3_8b_2l_ampere_tp4_allgather",
    "qwen3_30b_a3b_6l_blackwell",
    "qwen3_1.7b_6l_hopper_tp2_tile",
)
FAMILIES: dict[str, Callable[[int], Model]] = {
    "dense": qwen3,
    "two ranks": lambda layers: qwen3(layers, ranks=2),
    "fused": lambda layers: qwen3_ampere(layers, shuffled=()),
    "fused, one shuffled": lambda layers: qwen3_ampere(layers, shuffled=(layers // 2,)),
    "mixture": qwen3_moe,
    "deepseek": deepseek_v3,
    "deepseek, one dense": lambda layers: deepseek_v3(layers, dense_layers=1),
    "deepseek, eight ranks": lambda layers: deepseek_v3(layers, ranks=8),
}


def check(pair: Pair) -> tuple[Finding, ...]:
    """What the layer rules say of a pair; the audit must come to its end."""
    return said(pair.cuda_text(), pair.json_text(), pair.rank)


def said(cuda: str, graph: str | bytes, rank: int = 0) -> tuple[Finding, ...]:
    report = findings_of(cuda, graph, rank=rank, selection=LAYERS)
    assert report.ranks[0].audited, report.ranks[0].failure
    return report.findings


def facts_of(pair: Pair) -> RankFacts:
    graph = loader.load(pair.json_text().encode())
    assert isinstance(graph, Graph)
    return RankFacts(
        pair.rank, cuda.parse("k.cu", pair.cuda_text().encode()), graph, "g", Options()
    )


# -- Names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "layer", "role"),
    [
        ("layer_3_q_norm", 3, "layer_N_q_norm"),
        ("model.layers.12.mlp.up_proj", 12, "model.layers.N.mlp.up_proj"),
        ("model_layers_7_o_proj", 7, "model_layers_N_o_proj"),
        ("layers.0", 0, "layers.N"),
        ("layer_10_expert_10_w", 10, "layer_N_expert_10_w"),
        ("rope_cos", None, "rope_cos"),
        ("player_3_x", None, "player_3_x"),
        ("fp8_input_7168_shared", None, "fp8_input_7168_shared"),
        ("mtp_model_layers_61_self_attn_o_proj", None, "mtp_model_layers_N_self_attn_o_proj"),
    ],
)
def test_a_name_says_its_layer_and_its_role(name: str, layer: int | None, role: str) -> None:
    assert layer_in(name) == layer
    assert role_of(name) == role
    if layer is not None:
        assert named_in(role, layer) == name


def test_numbers_are_written_as_spans() -> None:
    assert spans([]) == ""
    assert spans([3]) == "3"
    assert spans([0, 1, 2, 4, 6, 7]) == "0-2, 4, 6-7"


# -- Places ------------------------------------------------------------------------------------


def test_each_operator_has_its_place() -> None:
    facts = facts_of(deepseek_v3(5).emit())
    assert {layer: len(ops) for layer, ops in facts.layers.by_layer.items()} == {
        **dict.fromkeys(range(3), 22),
        **dict.fromkeys(range(3, 5), 32),
    }
    outside = [o for o in facts.layers.operators if o.place is None]
    names = [facts.task_type(o.task_type).name for o in outside]
    assert names == [
        "TASK_TERMINATE",
        "TASK_BEGIN_TASK_GRAPH",
        "TASK_EMBEDDING",
        "TASK_RMS_NORM_HOPPER",
        "TASK_LINEAR_SM100",
        "TASK_ARGMAX_PARTIAL_SM100",
        "TASK_ARGMAX_REDUCE_SM100",
    ]
    assert [facts.stacks[0].kind_of(n) for n in range(5)] == ["dense"] * 3 + ["moe"] * 2


@pytest.mark.parametrize("part", ["input_layernorm", "k_cache", "o_proj", "down_proj"])
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (0, 4), (3, 4)])
def test_a_crossed_weight_does_not_move_its_operator(part: str, one: int, other: int) -> None:
    """The places are those of the graph before the exchange, wherever the weight stands."""
    pair = qwen3(5).emit()
    right = [o.place for o in facts_of(pair).layers.operators]
    exchange(pair.graph, f"layer_{one}_{part}", f"layer_{other}_{part}")
    assert [o.place for o in facts_of(pair).layers.operators] == right


def test_a_graph_without_layers_has_none() -> None:
    facts = facts_of(qwen3(2).named(weights="w{layer}_{part}").emit())
    assert facts.layers.by_layer == {}
    assert facts.stacks == ()


# -- No false outlier --------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5, 8, pytest.param(17, marks=pytest.mark.slow)])
def test_a_sound_model_has_no_outlier(family: str, layers: int) -> None:
    model = FAMILIES[family](layers)
    for rank in range(min(model.ranks, 2)):
        assert check(model.emit(rank)) == ()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["dense", "fused", "mixture", "deepseek, eight ranks"])
def test_a_deep_model_has_no_outlier(family: str) -> None:
    assert check(FAMILIES[family](80).emit()) == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_without_positions_at_all_has_no_outlier(family: str) -> None:
    assert check(FAMILIES[family](5).without_rope().emit()) == ()


@pytest.mark.parametrize(
    "name",
    [
        *CLEAN,
        *("pre665_dsv3_4l_blackwell_tp1", "dsv3_4l_blackwell_tp1", "pre665_dsv3_7l_blackwell_tp8"),
        "pre665_dsv3_5l_blackwell_tp8_mtp2",  # a module of multi-token prediction
    ],
)
def test_a_real_graph_has_no_outlier(artifacts: Path, name: str) -> None:
    report = check_files(pairs.find([str(artifacts / name)]), selection=LAYERS)
    assert report.findings == ()


# -- Every outlier -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [2, 4, pytest.param(6, marks=pytest.mark.slow)])
def test_tables_missing_in_any_one_layer_are_an_error(family: str, layers: int) -> None:
    for layer in range(layers):
        found = check(FAMILIES[family](layers).without_rope(layer=layer).emit())
        assert [f.rule for f in found] == ["MG701"], (layer, found)
        assert found[0].severity is Severity.ERROR
        assert f"layer {layer} runs without" in found[0].message
        tables = {place.note.split()[0] for place in found[0].related[:2]}
        assert found[0].tensor in tables
        assert len(tables) == 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [2, 4, pytest.param(6, marks=pytest.mark.slow)])
def test_a_stale_residual_in_any_layer_but_the_first_is_found(family: str, layers: int) -> None:
    for layer in range(1, layers):
        found = check(FAMILIES[family](layers).stale_residual(layer).emit())
        assert [f.rule for f in found] == ["MG702"], (layer, found)
        assert f"in layer {layer}, input " in found[0].message
        assert "embed_out" in found[0].message


def test_the_mutants_are_named(artifacts: Path) -> None:
    (rope,) = check_files(
        pairs.find([str(artifacts / "mutant_rope_none_layer2")]), selection=LAYERS
    ).findings
    assert (rope.rule, rope.severity) == ("MG701", Severity.ERROR)
    assert "layer 2 " in rope.message
    line = Path(rope.location.path).read_text().split("\n")[rope.location.line - 1]
    assert '"base_ptr": "nullptr"' in line
    cuda = (artifacts / "mutant_rope_none_layer2" / "kernel_0.cu").read_text().split("\n")
    declared = [cuda[p.line - 1] for p in rope.related if p.path.endswith(".cu")]
    assert [text.split('"')[1] for text in declared] == [
        "cos_position_embedding",
        "sin_position_embedding",
    ]

    (stale,) = check_files(
        pairs.find([str(artifacts / "mutant_residual_layer1_stale")]), selection=LAYERS
    ).findings
    assert (stale.rule, stale.severity, stale.tensor) == ("MG702", Severity.WARNING, "embed_out")
    assert "in layer 1, input 2 of" in stale.message
    assert "mlp_out" in stale.message

    (norms,) = check_files(
        pairs.find([str(artifacts / "fused_shuffled_none_3l_ampere")]), selection=LAYERS
    ).findings
    assert (norms.rule, norms.severity) == ("MG701", Severity.WARNING)
    assert "layer 1 runs without layer_N_q_norm and layer_N_k_norm" in norms.message


# -- Mutants of real graphs --------------------------------------------------------------------


def read(artifacts: Path, name: str) -> tuple[str, dict[str, Any]]:
    folder = artifacts / name
    graph: dict[str, Any] = msgspec.json.decode((folder / "task_graph_0.json").read_bytes())
    return (folder / "kernel_0.cu").read_text(), graph


def mutant(cuda: str, graph: dict[str, Any]) -> tuple[Finding, ...]:
    return said(cuda, msgspec.json.encode(graph))


def exchange(graph: dict[str, Any], one: str, other: str) -> None:
    swap = {one: other, other: one}
    for task in graph["all_tasks"]:
        for tensor in [*(task["inputs"] or []), *(task["outputs"] or [])]:
            tensor["base_ptr"] = swap.get(tensor["base_ptr"], tensor["base_ptr"])


def layer_of(task: dict[str, Any]) -> int | None:
    layers = (layer_in(tensor["base_ptr"]) for tensor in task["inputs"] or [])
    return next((layer for layer in layers if layer is not None), None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLEAN)
def test_exchanged_weights_of_real_graphs_are_two_errors(artifacts: Path, name: str) -> None:
    cuda, graph = read(artifacts, name)
    roles: dict[str, list[int]] = defaultdict(list)
    for layer, role in re.findall(r'all_tensors\["layer_(\d+)_(\w+)"\] =', cuda):
        roles[role].append(int(layer))
    for role, layers in roles.items():
        one, other = (min(layers), max(layers)) if len(role) % 2 else sorted(layers)[:2]
        names = {f"layer_{one}_{role}", f"layer_{other}_{role}"}
        exchange(graph, *sorted(names))
        found = mutant(cuda, graph)
        exchange(graph, *sorted(names))
        assert {f.tensor for f in found} == names
        assert {(f.rule, f.severity) for f in found} == {("MG703", Severity.ERROR)}
        assert len(found) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CLEAN)
def test_operands_set_to_none_in_one_layer_of_a_real_graph(artifacts: Path, name: str) -> None:
    cuda, graph = read(artifacts, name)
    attention = [t for t in graph["all_tasks"] if t["task_type"] in ATTENTION]
    layers = sorted({layer_of(task) or 0 for task in attention})
    for layer in layers:
        tasks = [task for task in attention if layer_of(task) == layer]
        for slots, severity in (((5, 6), Severity.ERROR), ((3, 4), Severity.WARNING)):
            kept = [copy.deepcopy(task["inputs"]) for task in tasks]
            for task in tasks:
                for slot in slots:
                    task["inputs"][slot] = dict(NONE)
            found = mutant(cuda, graph)
            for task, inputs in zip(tasks, kept, strict=True):
                task["inputs"] = inputs
            if severity is Severity.WARNING and len(layers) == 2:
                assert found == ()  # of two layers, either may be meant
                continue
            assert [(f.rule, f.severity) for f in found] == [("MG701", severity)]
            assert f"layer {layer} runs without" in found[0].message


@pytest.mark.slow
@pytest.mark.parametrize("name", CLEAN)
def test_another_residual_of_the_same_size_in_a_real_graph(artifacts: Path, name: str) -> None:
    """In every layer but the first, with every buffer of the size, in all tiles or in one."""
    cuda, graph = read(artifacts, name)
    sizes = dict(re.findall(r"cudaMalloc\(&(\w+), (\d+)", cuda))
    sizes.update(re.findall(r"void \*(\w+) = nvshmem_malloc\((\d+)", cuda))
    operators: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for task in graph["all_tasks"]:
        layer = layer_of(task)
        if task["task_type"] in RESIDUALS and layer:
            operators[layer, task["inputs"][1]["base_ptr"]].append(task)
    assert operators
    for (layer, _), tasks in operators.items():
        right = tasks[0]["inputs"][2]["base_ptr"]
        wrong = [b for b in sizes if b != right and sizes[b] == sizes[right]]
        for buffer in wrong[: 3 if layer == 1 else 1]:
            for changed in (tasks, tasks[1:2])[: 2 if layer == 1 else 1]:
                for task in changed:
                    task["inputs"][2]["base_ptr"] = buffer
                found = mutant(cuda, graph)
                for task in changed:
                    task["inputs"][2]["base_ptr"] = right
                assert [f.rule for f in found] == ["MG702"], (layer, buffer, found)
                assert f"in layer {layer}, input 2" in found[0].message
                assert buffer in found[0].message


# -- What follows of it is not said again -------------------------------------------------------


def test_who_reads_the_result_of_a_wrong_weight_is_not_accused() -> None:
    """Two norms of a layer are exchanged: two slots are wrong, and not what reads the results."""
    pair = qwen3(6).emit()
    exchange(pair.graph, "layer_2_input_layernorm", "layer_2_post_attn_layernorm")
    found = [finding.location.pointer or finding.message for finding in check(pair)]
    assert len(found) == 2, found
    assert all("input 1 of TASK_RMS_NORM_HOPPER" in f.message for f in check(pair))


def test_who_reads_another_operators_result_is_accused_beside_a_wrong_weight() -> None:
    """The query's projection takes the stream itself, and the norm has another weight."""
    pair = qwen3(6).emit()
    exchange(pair.graph, "layer_2_input_layernorm", "layer_2_post_attn_layernorm")
    for task in pair.tasks(tensor="layer_2_qkv_proj"):
        task["inputs"][0]["base_ptr"] = "mlp_out"
    messages = [finding.message for finding in check(pair)]
    assert len(messages) == 3, messages
    assert any(
        "TASK_LINEAR_SWAPAB_HOPPER (layer_N_qkv_proj) carries mlp_out" in m for m in messages
    )


# -- Speed -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_layers_of_a_hundred_and_sixty_thousand_tasks_take_no_time() -> None:
    """Everything works on operators, of which there are two thousand."""
    facts = facts_of(deepseek_v3(61, ranks=8).sized(**DEEPSEEK_V3["TP8"]).emit())
    assert len(facts.graph.tasks) > 160_000
    assert len(facts.layers.operators) < 2_100
    assert len(facts.stacks[0].columns) < 80
