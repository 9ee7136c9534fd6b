"""MG901 schema."""

from __future__ import annotations

from mirage_gate import audit
from tests.emitter import OLD, Pair, qwen3
from tests.rules import Texts, fires, graph_line, silent


@fires(
    "MG901",
    whole='/all_tasks/5/trigger_event: expected an integer, found "12"',
    graph=("all_tasks", 5, "trigger_event"),
    column=7,
    refuses=True,
)
def test_a_wrong_type_has_pointer_line_column_and_both_sides() -> Pair:
    pair = qwen3(1).emit()
    pair.graph["all_tasks"][5]["trigger_event"] = "12"
    return pair


@fires(
    "MG901",
    says=('/all_tasks/5/inputs/0: expected a member "offset"',),
    graph=("all_tasks", 5, "inputs", 0),
    refuses=True,
)
def test_a_missing_field_is_placed_on_its_object() -> Pair:
    pair = qwen3(1).emit()
    del pair.graph["all_tasks"][5]["inputs"][0]["offset"]
    return pair


def test_many_errors_are_capped_counted_and_sorted() -> None:
    pair = qwen3(8).emit()
    bad = 0
    for task in pair.graph["all_tasks"]:
        task["variant_id"] = -1
        bad += 1
    report = audit(pair.cuda_text(), pair.json_text())
    assert len(report.findings) == 51
    lines = [finding.location.line for finding in report.findings]
    assert lines == sorted(lines)
    assert f"{bad - 50} more" in report.findings[-1].message
    assert report.findings[0].location.line == graph_line(pair, ("all_tasks", 0, "variant_id"))


@silent("MG901", passes=True)
def test_unknown_fields_and_an_older_graph() -> Pair:
    pair = qwen3(2).written(OLD).emit()
    for task in pair.graph["all_tasks"]:
        task["comment"] = {"nested": [1, 2.5, None]}
    pair.graph["generator"] = "a fork"
    return pair


@silent("MG901", passes=True)
def test_a_float_that_is_an_integer_to_json_schema() -> Texts:
    pair = qwen3(2).emit()
    graph = pair.json_text().replace('"variant_id": 0', '"variant_id": 0.0', 3)
    return Texts(pair.cuda_text(), graph)
