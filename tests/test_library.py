"""The library, as a builder uses it between generate_task_graph and nvcc."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mirage_gate
from tests.emitter import qwen3
from tests.scratch import ROOT


def test_audit_and_render() -> None:
    pair = qwen3(layers=2).without_rope().emit()
    for _ in range(2):
        report = mirage_gate.audit(pair.cuda_text(), pair.json_text().encode(), rank=3)
        assert report.exit_status() == 1
        assert report.exit_status("never") == 0
        assert "kernel_3.cu" in mirage_gate.render(report)
        assert '"rule": "MG101"' in mirage_gate.render(report, "json")
    wired = qwen3(layers=2).emit()
    assert mirage_gate.audit(wired.cuda_text(), wired.json_text()).exit_status() == 0
    with pytest.raises(ValueError, match="is no format: github, gitlab, html"):
        mirage_gate.render(report, "pdf")


@pytest.mark.parametrize("cuda", ["", "\ud800", "int main;"])
@pytest.mark.parametrize("graph", ["", "{}", "\ud800", "[[[["])
def test_it_raises_for_nothing_the_texts_hold(cuda: str, graph: str) -> None:
    report = mirage_gate.audit(cuda, graph)
    assert report.exit_status() == 2
    assert not report.ranks[0].audited


@pytest.mark.parametrize("word", ["MG999", "mg101", "rope", "unwired-critical-tensor"])
def test_a_rule_that_there_is_not_selects_nothing_in_silence(word: str) -> None:
    says = f"'{word}' names no rule"
    with pytest.raises(ValueError, match=says):
        mirage_gate.Selection(select=("MG1", word))
    with pytest.raises(ValueError, match=says):
        mirage_gate.Selection(ignore=(word,))
    with pytest.raises(ValueError, match=says):
        mirage_gate.Selection(severities={word: mirage_gate.Severity.NOTE})


def test_everything_exported_is_there() -> None:
    for name in mirage_gate.__all__:
        assert getattr(mirage_gate, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'adit'"):
        _ = mirage_gate.adit


def test_the_name_stays_a_function_whatever_is_imported() -> None:
    """A module of the package that were called like it would take its place."""
    program = (
        "import pkgutil, importlib, mirage_gate as m\n"
        "for module in pkgutil.walk_packages(m.__path__, 'mirage_gate.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "print(callable(m.audit), callable(m.render))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "True True"


def test_importing_it_costs_nothing() -> None:
    program = (
        "import sys, mirage_gate; print([m for m in ('msgspec', 'click') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "[]"
