"""``mirage_gate.guard`` and ``mirage_gate.audit`` in a builder of one's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mirage_gate
from tests.building.conftest import environment
from tests.building.test_run import ATTENTION
from tests.emitter import qwen3
from tests.scratch import run

HEAD = """
import sys
sys.path.insert(0, "demo")
import builder, mirage_gate
def build(*args):
    sys.argv[1:] = args
    return builder.build(builder.arguments())
"""

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(folder: Path) -> Python:
    def python(text: str) -> subprocess.CompletedProcess[str]:
        (folder / "script.py").write_text(HEAD + text)
        return run(sys.executable, "script.py", cwd=folder, env=environment())

    return python


def test_a_context_manager(python: Python) -> None:
    done = python("with mirage_gate.guard() as gate: build().compile()\nprint(gate.status)")
    assert done.returncode == 0, done.stdout
    assert "PASSED" in done.stdout
    assert done.stdout.endswith("\n0\n")
    text = "with mirage_gate.guard(keep='out'): build('--no-rope', '2').compile()\nprint('on')"
    done = python(text)
    assert done.returncode == 1
    assert f"\ndemo/builder.py:{ATTENTION}:9: MG701 layer-outlier error" in done.stdout
    assert "\non\n" not in done.stdout
    assert "Traceback" not in done.stdout


def test_a_decorator_used_twice_and_inside_itself(python: Python) -> None:
    text = """
@mirage_gate.guard(output=None)
def made(depth=1):
    if depth: made(depth - 1)
    build().compile()
made(); made()
print("quiet")
"""
    done = python(text)
    assert (done.returncode, done.stdout) == (0, "quiet\n")


def test_what_emits_nothing_does_not_pass(python: Python) -> None:
    done = python("with mirage_gate.guard(): pass")
    assert done.returncode == 1
    assert "no task graph was emitted inside, so nothing was audited" in done.stdout
    done = python("with mirage_gate.guard(): raise KeyError('mine')")
    assert done.stdout.strip().endswith("KeyError: 'mine'")


def test_afterwards_everything_is_as_it_was(python: Python) -> None:
    text = """
import mirage.kernel as k
before = dict(vars(k.KNGraph)), k.CyTBGraph, list(sys.meta_path)
with mirage_gate.guard(output=None): build().compile()
print((dict(vars(k.KNGraph)), k.CyTBGraph, list(sys.meta_path)) == before)
"""
    assert python(text).stdout == "True\n"


def test_a_user_may_take_the_report(python: Python) -> None:
    text = """
try:
    with mirage_gate.guard(output=None): build('--no-norm', '1').compile()
except SystemExit as error:
    print(error.code, sorted({f.rule for f in error.report.findings if f.severity == "error"}))
"""
    assert "1 ['MG102']\n" in python(text).stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"select": "MG999"}, "'MG999' names no rule"),
        ({"select": "MG1", "ignore": ["MG1"]}, "nothing is left"),
        ({"lock": "none.json"}, "none.json: No such file"),
        ({"config": "none.toml"}, "none.toml"),
        ({"builder": "none.py"}, "none.py"),
        ({"fail_on": "always"}, "fail_on='always'"),
        ({"output": "pdf"}, "'pdf' is no format"),
        ({"model_config": "none.json"}, "none.json"),
        ({"runtime_header": "none.h"}, "none.h"),
        ({"baseline": "none.json"}, "none.json"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        mirage_gate.guard(**options)  # type: ignore[arg-type]


def test_audit_takes_what_check_takes(tmp_path: Path) -> None:
    pair = qwen3(layers=2).with_extra_host("extra").emit()
    texts = pair.cuda_text(), pair.json_text()
    assert mirage_gate.audit(*texts).exit_status() == 1
    waiver = {"rule": "MG102", "tensor": "extra", "reason": "a table of the next model"}
    report = mirage_gate.audit(*texts, waivers=[waiver])
    assert (report.exit_status(), report.waived) == (0, 1)
    config = tmp_path / "mirage-gate.toml"
    config.write_text('[[waivers]]\nrule = "MG102"\ntensor = "extra"\nreason = "known"\n')
    assert mirage_gate.audit(*texts, config=config).exit_status() == 0
    for wrong in ({"rule": "MG102"}, {"rule": "MG9x", "reason": "r"}, {"x": 1}, 7):
        with pytest.raises(ValueError, match="waivers: "):
            mirage_gate.audit(*texts, waivers=[wrong])  # type: ignore[list-item]


def test_audit_holds_to_a_lock(tmp_path: Path) -> None:
    from mirage_gate.agreed.memory import Memory
    from mirage_gate.cli import main

    whole, broken = qwen3(layers=2).emit(), qwen3(layers=2).without_rope(1).emit()
    whole.write(tmp_path)
    lock = tmp_path / "lock.json"
    assert main(["lock", str(tmp_path), "-o", str(lock)]) == 0
    report = mirage_gate.audit(broken.cuda_text(), broken.json_text(), lock=lock)
    assert "MG801" in {finding.rule for finding in report.findings}
    with pytest.raises(TypeError, match="not both"):
        mirage_gate.audit("", "", lock=lock, memory=Memory())


@pytest.mark.parametrize("text", [None, 7, ["x"], Path("kernel_0.cu")])
def test_audit_of_no_text_is_a_type_error(text: object) -> None:
    with pytest.raises(TypeError, match="cuda_code is the text itself"):
        mirage_gate.audit(text, "{}")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="task_graph is the text itself"):
        mirage_gate.audit("", text)  # type: ignore[arg-type]
