"""The benchmarks run and say what they compare. How fast anything is, no test says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import graphs
from tests.emitter import qwen3
from tests.scratch import ROOT, run, succeed

PYTHON = sys.executable


def test_the_naive_audit_gives_an_honest_verdict(tmp_path: Path) -> None:
    wired, unwired = tmp_path / "wired", tmp_path / "unwired"
    qwen3(2).write(wired)
    qwen3(2).without_rope().write(unwired)
    script = ROOT / "benchmarks" / "naive.py"
    good = run(PYTHON, script, wired)
    assert good.returncode == 0
    assert "[OK] cos_position_embedding: input_refs=" in good.stdout
    bad = run(PYTHON, script, unwired)
    assert bad.returncode == 1
    assert "[MISSING-WIRING] sin_position_embedding: input_refs=0" in bad.stdout


def test_the_graphs_are_listed_and_written(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "graphs.py"
    listed = succeed(PYTHON, script)
    assert "deepseek-tp8" in listed
    succeed(PYTHON, script, "qwen3-4-layers", tmp_path / "graph")
    assert sorted(path.name for path in (tmp_path / "graph").iterdir()) == [
        "kernel_0.cu",
        "task_graph_0.json",
    ]


@pytest.mark.slow
def test_a_quick_run_prints_both_tables(tmp_path: Path) -> None:
    printed = succeed(PYTHON, ROOT / "benchmarks" / "run.py", "--quick", "--folder", tmp_path)
    assert "| CPU, s | of naive's | wall, s | of naive's | MiB | of naive's |" in printed
    for command in ("naive", "limit", "gate, text", "gate, SARIF"):
        assert f"| qwen3-4-layers, 1.4 MB | {command} |" in printed
    for step in (
        "read the graph and decode it",
        "facts of the whole: regions",
        "rules MG1",
        "report as SARIF",
    ):
        assert f"| {step} |" in printed


@pytest.mark.slow
def test_pairs_from_elsewhere_are_measured(tmp_path: Path) -> None:
    qwen3(1).write(tmp_path / "real" / "one")
    qwen3(2).write(tmp_path / "real" / "two")
    script = ROOT / "benchmarks" / "run.py"
    options = ("--quick", "--only", "starting", "--folder", tmp_path / "graphs")
    printed = succeed(PYTHON, script, *options, "--real", tmp_path / "real")
    assert "| nothing | python, click and msgspec |" in printed
    assert "| one, 0.1 MB | gate, SARIF |" in printed
    assert "| two, " in printed


def test_the_findings_are_found_and_the_shapes_written(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "graphs.py"
    succeed(PYTHON, script, "variants-20", tmp_path / "variants")
    assert len(json.loads((tmp_path / "variants" / "task_graph_0.json").read_bytes())) == 3
    text = graphs.tp8(4).emit().json_text().encode()
    assert len(graphs._GATHERS.findall(text)) == 4
