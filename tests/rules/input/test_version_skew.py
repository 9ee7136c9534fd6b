"""MG904 version-skew."""

from __future__ import annotations

import json

from mirage_gate import Severity, audit
from tests.emitter import OLD, Pair, qwen3
from tests.rules import Texts, fires, silent


@fires("MG904", says=("task_offset",), cuda='task.at("task_offset")', once=True)
def test_a_pair_of_two_versions() -> Pair:
    pair = qwen3(1).written(OLD).emit()
    pair.fields.append("task_offset")
    return pair


@silent("MG904", passes=True)
def test_a_pair_of_one_version() -> Pair:
    return qwen3(1).emit()


def _a_loader_that_can_do_without() -> Pair:
    pair = qwen3(1).emit()
    pair.fields = [field for field in pair.fields if field != "kv_idx"]
    return pair


@fires(
    "MG904",
    Severity.WARNING,
    graph=("all_tasks", 5),
    says=("kv_idx, which 2 of",),
    once=True,
)
def test_a_field_that_only_some_tasks_lack() -> Pair:
    pair = _a_loader_that_can_do_without()
    for task in pair.graph["all_tasks"][5:7]:
        task["kv_idx,"] = task.pop("kv_idx")
    return pair


@silent("MG904", passes=True)
def test_a_field_that_all_tasks_lack() -> Pair:
    pair = _a_loader_that_can_do_without()
    for task in pair.graph["all_tasks"]:
        task.pop("kv_idx", None)
    return pair


def _a_loader_with_a_field_of_its_own() -> Pair:
    pair = qwen3(1).emit()
    pair.fields.append("sm_affinity")
    return pair


@fires("MG904", cuda='task.at("sm_affinity")', says=("sm_affinity",))
def test_a_loader_with_a_field_that_no_version_here_knows() -> Pair:
    return _a_loader_with_a_field_of_its_own()


@fires("MG904", cuda='task.at("sm_affinity")', says=("sm_affinity",))
def test_a_loader_with_an_unknown_field_and_a_graph_in_another_order() -> Texts:
    pair = _a_loader_with_a_field_of_its_own()
    graph = {name: pair.graph[name] for name in ("all_tasks", "first_tasks", "all_events")}
    texts = Texts(pair.cuda_text(), json.dumps(graph, indent=2))
    assert audit(texts.cuda, texts.graph).ranks[0].audited
    return texts


@silent("MG904", passes=True)
def test_a_loader_and_tasks_with_a_field_that_no_version_here_knows() -> Pair:
    pair = _a_loader_with_a_field_of_its_own()
    for task in pair.graph["all_tasks"]:
        task["sm_affinity"] = 3
    return pair
