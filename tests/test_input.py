"""MG9 and the engine: what cannot be taken in says so, and never passes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mirage_gate.artifacts import pairs
from mirage_gate.auditing.ranks import audit, check
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import Report
from tests.emitter import EMBEDDED, OLD, Pair, qwen3
from tests.rules import graph_line, line_of


def refused(report: Report, rule: str) -> Finding:
    """The one finding of a run in which nothing was audited."""
    assert [rank.audited for rank in report.ranks] == [False]
    assert report.ranks[0].failure
    assert report.exit_status() == 2
    assert report.exit_status("never") == 2
    (finding,) = report.findings
    assert finding.rule == rule
    assert finding.severity is Severity.ERROR
    return finding


def texts(pair: Pair) -> tuple[str, str]:
    return pair.cuda_text(), pair.json_text()


def test_a_wrong_type_has_pointer_line_column_and_both_sides() -> None:
    pair = qwen3(1).emit()
    pair.graph["all_tasks"][5]["trigger_event"] = "12"
    finding = refused(audit(*texts(pair)), "MG901")
    assert finding.message == '/all_tasks/5/trigger_event: expected an integer, found "12"'
    assert finding.location.line == graph_line(pair, ("all_tasks", 5, "trigger_event"))
    assert finding.location.column == 7


def test_a_missing_field_is_placed_on_its_object() -> None:
    pair = qwen3(1).emit()
    del pair.graph["all_tasks"][5]["inputs"][0]["offset"]
    finding = refused(audit(*texts(pair)), "MG901")
    assert finding.message.startswith('/all_tasks/5/inputs/0: expected a member "offset"')
    assert finding.location.line == graph_line(pair, ("all_tasks", 5, "inputs", 0))


@pytest.mark.parametrize("cut", [1, 100, 5000, -3])
def test_a_truncated_graph_is_unreadable_at_its_end(cut: int) -> None:
    cuda, graph = texts(qwen3(1).emit())
    short = graph[:cut]
    finding = refused(audit(cuda, short), "MG902")
    assert "not JSON" in finding.message
    assert finding.location.line == short.rstrip().count("\n") + 1


@pytest.mark.parametrize("graph", ["", " \n", "null", "[]", "12", '"x"', "{}", "{"])
def test_what_is_no_graph(graph: str) -> None:
    report = audit(qwen3(1).emit().cuda_text(), graph)
    assert report.exit_status() == 2
    assert {finding.rule for finding in report.findings} <= {"MG901", "MG902"}
    assert report.findings


def test_a_broken_line_is_named() -> None:
    cuda, graph = texts(qwen3(1).emit())
    lines = graph.split("\n")
    lines[40] = lines[40].replace(":", "=")
    finding = refused(audit(cuda, "\n".join(lines)), "MG902")
    assert finding.location.line == 41


def test_many_errors_are_capped_counted_and_sorted() -> None:
    pair = qwen3(8).emit()
    bad = 0
    for task in pair.graph["all_tasks"]:
        task["variant_id"] = -1
        bad += 1
    report = audit(*texts(pair))
    assert len(report.findings) == 51
    lines = [finding.location.line for finding in report.findings]
    assert lines == sorted(lines)
    assert f"{bad - 50} more" in report.findings[-1].message
    assert report.findings[0].location.line == graph_line(pair, ("all_tasks", 0, "variant_id"))


def test_unknown_fields_and_older_graphs_are_welcome() -> None:
    pair = qwen3(2).written(OLD).emit()
    for task in pair.graph["all_tasks"]:
        task["comment"] = {"nested": [1, 2.5, None]}
    pair.graph["generator"] = "a fork"
    assert audit(*texts(pair)).exit_status("warning") == 0


def test_integers_above_two_to_the_53_stay_exact() -> None:
    pair = qwen3(1).emit()
    pair.graph["all_tasks"][5]["inputs"][0]["offset"] = 2**62 + 1
    report = audit(*texts(pair))
    assert any(str(2**62 + 1) in finding.message for finding in report.findings)


def test_a_float_that_is_an_integer_to_json_schema() -> None:
    cuda, graph = texts(qwen3(2).emit())
    graph = graph.replace('"variant_id": 0', '"variant_id": 0.0', 3)
    assert audit(cuda, graph).exit_status("warning") == 0


def test_a_pair_of_two_versions() -> None:
    pair = qwen3(1).written(OLD).emit()
    pair.fields.append("task_offset")
    report = audit(*texts(pair))
    (finding,) = [finding for finding in report.findings if finding.rule == "MG904"]
    assert "task_offset" in finding.message
    assert finding.location.line == line_of(pair.cuda_text(), 'task.at("task_offset")')
    assert audit(*texts(qwen3(1).emit())).exit_status("warning") == 0


def test_a_field_that_only_some_tasks_lack() -> None:
    pair = qwen3(1).emit()
    pair.fields = [field for field in pair.fields if field != "kv_idx"]
    for task in pair.graph["all_tasks"][5:7]:
        task["kv_idx,"] = task.pop("kv_idx")
    report = audit(*texts(pair))
    (finding,) = [finding for finding in report.findings if finding.rule == "MG904"]
    assert finding.severity is Severity.WARNING
    assert "kv_idx, which 2 of" in finding.message
    assert finding.location.line == graph_line(pair, ("all_tasks", 5))
    for task in pair.graph["all_tasks"]:
        task.pop("kv_idx", None)
    assert audit(*texts(pair)).exit_status("warning") == 0


def test_a_loader_with_an_unknown_field_and_a_graph_in_another_order() -> None:
    pair = qwen3(1).emit()
    pair.fields.append("sm_affinity")
    cuda, _ = texts(pair)
    graph = {name: pair.graph[name] for name in ("all_tasks", "first_tasks", "all_events")}
    report = audit(cuda, json.dumps(graph, indent=2))
    assert [rank.audited for rank in report.ranks] == [True]
    assert any("sm_affinity" in finding.message for finding in report.findings)


def test_a_loader_with_a_field_that_no_version_here_knows() -> None:
    pair = qwen3(1).emit()
    pair.fields.append("sm_affinity")
    report = audit(*texts(pair))
    assert any("sm_affinity" in finding.message for finding in report.findings)
    for task in pair.graph["all_tasks"]:
        task["sm_affinity"] = 3
    assert audit(*texts(pair)).exit_status("warning") == 0


def test_a_kernel_with_its_tasks_inside() -> None:
    pair = qwen3(1).written(EMBEDDED).emit()
    finding = refused(audit(pair.cuda_text(), qwen3(1).emit().json_text()), "MG905")
    assert finding.location.line == line_of(pair.cuda_text(), "TaskDesc task_desc(")


@pytest.mark.parametrize("cuda", ["", "int main() {}", "\0\0\0", "// all_tensors"])
def test_a_kernel_that_declares_nothing(cuda: str) -> None:
    refused(audit(cuda, qwen3(1).emit().json_text()), "MG902")


def test_half_a_pair_fails_its_rank_and_no_other(tmp_path: Path) -> None:
    qwen3(1, ranks=2).write(tmp_path)
    (tmp_path / "task_graph_1.json").unlink()
    report = check(pairs.find([str(tmp_path)]))
    assert [rank.audited for rank in report.ranks] == [True, False]
    (finding,) = [finding for finding in report.findings if finding.rule == "MG903"]
    assert "task_graph_1.json" in finding.message
    assert finding.location.path.endswith("kernel_1.cu")
    assert report.exit_status() == 1
    assert report.exit_status("never") == 1


@pytest.mark.parametrize("half", ["kernel_0.cu", "task_graph_0.json"])
def test_a_folder_and_a_pipe_with_an_artifacts_name(tmp_path: Path, half: str) -> None:
    qwen3(1).write(tmp_path)
    for make in (Path.mkdir, os.mkfifo):
        path = tmp_path / half
        path.rmdir() if path.is_dir() else path.unlink()
        make(path)
        finding = refused(check(pairs.find([str(tmp_path)])), "MG902")
        assert "regular file" in finding.message or "directory" in finding.message
        path.rmdir() if path.is_dir() else path.unlink()
        path.touch()


def test_a_dangling_link_is_unreadable(tmp_path: Path) -> None:
    qwen3(1).write(tmp_path)
    (tmp_path / "kernel_0.cu").unlink()
    (tmp_path / "kernel_0.cu").symlink_to(tmp_path / "nowhere")
    refused(check(pairs.find([str(tmp_path)])), "MG902")


def test_what_cannot_be_read_cannot_be_ignored_away() -> None:
    from mirage_gate.auditing.selection import Selection

    pair = qwen3(1).emit()
    report = audit(pair.cuda_text(), "{", selection=Selection(select=("MG101",), ignore=("MG9",)))
    refused(report, "MG902")


def test_a_byte_order_mark_and_other_layouts_change_nothing() -> None:
    cuda, graph = texts(qwen3(2).without_rope().emit())
    base = [(f.rule, f.tensor) for f in audit(cuda, graph).findings]
    compact = json.dumps(json.loads(graph), separators=(",", ":"))
    for other in ("\ufeff" + graph, graph.replace("\n", "\r\n"), compact):
        assert [(f.rule, f.tensor) for f in audit(cuda, other).findings] == base


@pytest.mark.parametrize("broken", ["facts.regions.Regions.of", "facts.wiring.Wiring.consumers"])
def test_a_mistake_of_our_own_fails_the_rank(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a rule, and in what is counted for the reports."""

    def raises(*_: object) -> int:
        raise RuntimeError("a mistake of our own")

    monkeypatch.setattr(f"mirage_gate.{broken}", raises)
    pair = qwen3(1).without_rope().emit()
    report = audit(*texts(pair))
    assert not report.ranks[0].audited
    assert "internal error" in report.ranks[0].failure
    assert report.exit_status("never") != 0


@pytest.mark.parametrize("cut", ["  }", "void _execute_task", "all_tensors[", "task.at("])
def test_a_truncated_kernel_is_unreadable(cut: str) -> None:
    pair = qwen3(2).emit()
    text = pair.cuda_text()
    short = text[: text.rindex(cut) + 1]
    if cut == "void _execute_task":  # between two functions: nothing is open
        report = audit(short, pair.json_text())
        assert "no dispatch table" in report.findings[0].message
    else:
        finding = refused(audit(short, pair.json_text()), "MG902")
        assert "ends in the middle" in finding.message


def test_of_alternatives_only_the_first_opens_a_block() -> None:
    pair = qwen3(1).emit()
    text = pair.cuda_text() + "#ifdef A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\n"
    assert audit(text, pair.json_text()).exit_status("warning") == 0
