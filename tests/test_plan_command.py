"""`mirage-gate plan`, `--plan`, and the plan in a lock."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from mirage_gate.cli import cli
from mirage_gate.schema_files import text as schema
from tests.command import invoke
from tests.emitter import Model, deepseek_v3, qwen3, qwen3_moe
from tests.test_plan import DENSE


def written(folder: Path, model: Model) -> Path:
    model.write(folder)
    return folder


def test_it_prints_a_plan_that_it_reads_again(tmp_path: Path) -> None:
    folder = written(tmp_path / "a", qwen3(4))
    done = invoke("plan", folder)
    assert (done.output, done.return_value) == (DENSE, 0)
    plan = tmp_path / "model.plan"
    plan.write_text(done.output)
    assert invoke("plan", plan).output == DENSE
    done = invoke("plan", plan, folder)
    assert done.return_value == 0
    assert "the plans are the same" in done.stderr


def test_what_differs_is_a_diff(tmp_path: Path) -> None:
    one = written(tmp_path / "one", qwen3(4))
    two = written(tmp_path / "two", qwen3(4, ranks=2))
    done = invoke("plan", one, two)
    assert done.return_value == 1
    changed = [line for line in done.output.splitlines()[2:] if line[0] in "+-"]
    assert changed == ["+  r = all_reduce(r)", "+  x = all_reduce(x)"]


def test_another_number_of_layers_is_one_line(tmp_path: Path) -> None:
    one = written(tmp_path / "one", qwen3(4))
    two = written(tmp_path / "two", qwen3(36).sized(batch=8))
    done = invoke("plan", one, two)
    changed = [line for line in done.output.splitlines()[2:] if line[0] in "+-"]
    assert changed == ["-layers 0-3:", "+layers 0-35:"]
    assert len(invoke("plan", two).output.splitlines()) < 20


def test_ranks_that_compute_something_else_are_told_apart(tmp_path: Path) -> None:
    folder = written(tmp_path, qwen3(2, ranks=2))
    assert "# rank" not in invoke("plan", folder).output
    graph = tmp_path / "task_graph_1.json"
    graph.write_text(graph.read_text().replace("sin_position_embedding", "cos_position_embedding"))
    output = invoke("plan", folder).output
    assert output.startswith("# rank 0\n")
    assert "# rank 1\n" in output


def test_one_layer_and_its_tasks(tmp_path: Path) -> None:
    folder = written(tmp_path, qwen3(4))
    output = invoke("plan", folder, "--layer", "2").output
    assert output.startswith("layer 2:\n  h = rms_norm(x, input_layernorm)")
    assert "TASK_RMS_NORM_HOPPER" in output
    assert " from " in output
    done = CliRunner().invoke(cli, ["plan", str(folder), "--layer", "9"])
    assert done.exit_code == 2
    assert "has no layer 9" in done.output
    assert "tasks, TASK_LINEAR_SWAPAB_HOPPER" in invoke("plan", folder, "--tasks").output


@pytest.mark.parametrize("model", [qwen3(3), qwen3_moe(2), deepseek_v3(5)])
def test_json_holds_to_its_schema(model: Model, tmp_path: Path) -> None:
    document = json.loads(invoke("plan", written(tmp_path, model), "-o", "json").output)
    jsonschema.validate(document, json.loads(schema("plan")))
    (plan,) = document["plans"]
    assert plan["ranks"] == [0]
    assert plan["blocks"][0]["statements"][0]["operator"] == "embedding"


def test_drawings_have_a_node_for_each_statement(tmp_path: Path) -> None:
    folder = written(tmp_path, qwen3(3))
    drawn = invoke("plan", folder, "-o", "mermaid").output
    assert drawn.startswith("flowchart TD\n")
    assert drawn.count('["') - drawn.count("subgraph") == 12
    assert '|"x"|' in drawn
    drawn = invoke("plan", folder, "-o", "dot").output
    assert drawn.startswith("digraph plan {")
    assert drawn.count("[label=") - drawn.count(" -> ") == 12


@pytest.mark.parametrize("text", ["", "x = f(", "x = f(a\0)", "\xff"])
def test_what_is_no_plan_is_refused(text: str, tmp_path: Path) -> None:
    plan = tmp_path / "bad.plan"
    plan.write_bytes(text.encode("latin-1"))
    folder = written(tmp_path / "a", qwen3(2))
    for arguments in (["plan", plan], ["plan", folder, plan], ["check", folder, "--plan", plan]):
        done = CliRunner().invoke(cli, [str(a) for a in arguments])
        assert done.exit_code == 2, done.output
        assert "bad.plan" in done.output


def test_check_is_held_to_a_plan(tmp_path: Path) -> None:
    folder = written(tmp_path / "a", qwen3(4))
    plan = tmp_path / "model.plan"
    plan.write_text(DENSE)
    assert invoke("check", folder, "--plan", plan).return_value == 0
    plan.write_text(DENSE.replace("+ x", "+ h"))
    done = invoke("check", folder, "--plan", plan)
    assert done.return_value == 1
    assert "MG804" in done.output
    assert "model.plan has `layer 0: r = linear(a, o_proj) + h`" in done.output


def test_a_lock_records_the_plan(tmp_path: Path) -> None:
    folder, lock = written(tmp_path / "a", qwen3(4)), tmp_path / "lock.json"
    invoke("lock", folder, "-o", lock)
    assert json.loads(lock.read_text())["plan"] == DENSE.splitlines()
    assert invoke("check", folder, "--lock", lock).return_value == 0
    graph = folder / "task_graph_0.json"
    text = graph.read_text()
    text = text.replace("cos_position", "@").replace("sin_position", "cos_position")
    graph.write_text(text.replace("@", "sin_position"))
    done = invoke("check", folder, "--lock", lock, "-o", "json")
    (finding,) = (f for f in json.loads(done.output)["findings"] if f["rule"] == "MG804")
    line = next(n for n, t in enumerate(lock.read_text().splitlines(), 1) if "attention(" in t)
    assert finding["related"][0]["line"] == line
