"""``mirage-gate run``: what it audits, where findings land, how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from mirage_gate import schema_files
from tests.building.conftest import BUILDER, Gate, line_of

SOURCE = BUILDER.read_text()
ATTENTION = line_of(SOURCE, "mpk.paged_attention_layer(")
Q_NORM = line_of(SOURCE, 'f"layer_{i}_q_norm"')


def script(folder: Path, text: str) -> Path:
    file = folder / "script.py"
    file.write_text(f"import sys\nsys.path.insert(0, 'demo')\n{text}")
    return file


BUILD = "import builder; sys.argv[1:] = []; mpk = builder.build(builder.arguments())\n"
BROKEN = BUILD.replace("[]", "['--no-rope', '2']")


def test_a_graph_that_passes_goes_on(folder: Path, gate: Gate) -> None:
    done = gate("run", "demo/builder.py", "--compiled", "nvcc.txt")
    assert done.returncode == 0, done.stdout
    assert "mirage-gate: PASSED" in done.stdout
    assert done.stdout.index("PASSED") < done.stdout.index("the kernel runs")
    assert (folder / "nvcc.txt").exists()
    assert sorted(path.name for path in folder.iterdir()) == [".git", "demo", "nvcc.txt"]


def test_a_graph_that_fails_stops_before_nvcc(folder: Path, gate: Gate) -> None:
    done = gate("run", "demo/builder.py", "--compiled", "nvcc.txt", "--no-rope", "2")
    assert done.returncode == 1, done.stdout
    assert (
        f"\ndemo/builder.py:{ATTENTION}:9: MG701 layer-outlier error: layer 2 runs without cos"
        in done.stdout
    )
    assert "made by paged_attention_layer of layer 2" in done.stdout
    assert "the kernel runs" not in done.stdout
    assert not (folder / "nvcc.txt").exists()
    assert "Traceback" not in done.stdout


def test_a_norm_that_was_forgotten_is_found_where_it_was_attached(gate: Gate) -> None:
    done = gate("run", "demo/builder.py", "--no-norm", "1")
    assert done.returncode == 1
    assert (
        f"\ndemo/builder.py:{Q_NORM}:20: MG102 unwired-loaded-tensor error: host tensor layer_1_q_n"
        in done.stdout
    )


def test_emit_only_ends_there(folder: Path, gate: Gate) -> None:
    done = gate("run", "--emit-only", "--keep", "out", "demo/builder.py", "--compiled", "nvcc.txt")
    assert done.returncode == 0, done.stdout
    assert "PASSED" in done.stdout
    assert not (folder / "nvcc.txt").exists()
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "kernel_0.cu",
        "provenance_0.json",
        "task_graph_0.json",
    ]


def test_the_provenance_that_is_kept_serves_check(folder: Path, gate: Gate) -> None:
    gate("run", "--keep", "out", "demo/builder.py", "--no-rope", "2")
    text = (folder / "out" / "provenance_0.json").read_text()
    document = json.loads(text)
    jsonschema.validate(document, json.loads(schema_files.text("provenance")))
    assert document["files"] == ["demo/builder.py"]
    attention = [one for one in document["operators"] if one["call"] == "paged_attention_layer"]
    assert [one["layer"] for one in attention] == [0, 1, 2, 3]
    assert attention[2]["tensors"][5:7] == [None, None]
    silu = [one["layer"] for one in document["operators"] if one["call"] == "silu_mul_layer"]
    assert silu == [0, 1, 2, 3]

    # Its tasks are the graph's: every operator's operands, task by task.
    graph = json.loads((folder / "out" / "task_graph_0.json").read_text())
    at = 2
    for operator in document["operators"]:
        assert operator["first_task"] == at
        for task in graph["all_tasks"][at : at + operator["tasks"]]:
            slots = (task["inputs"] or []) + (task["outputs"] or [])
            names = [None if s["base_ptr"] == "nullptr" else s["base_ptr"] for s in slots]
            assert names == operator["tensors"]
        at += operator["tasks"]
    assert at == len(graph["all_tasks"])

    done = gate("check", "out")
    assert done.returncode == 1
    assert f"\ndemo/builder.py:{ATTENTION}:9: MG701 layer-outlier error" in done.stdout
    other = gate("check", "out", "--locate", "artifact")
    assert "\nout/task_graph_0.json:" in other.stdout
    assert f"demo/builder.py:{ATTENTION}:9: made here, by paged_attention_layer" in other.stdout


def test_a_provenance_of_another_build_is_not_believed(folder: Path, gate: Gate) -> None:
    gate("run", "--keep", "out", "demo/builder.py", "--no-rope", "2")
    kernel = folder / "out" / "kernel_0.cu"
    kernel.write_text(kernel.read_text() + "// what compile() adds\n")
    assert f"demo/builder.py:{ATTENTION}:9" in gate("check", "out").stdout
    kernel.write_text(kernel.read_text().replace("//", "/ /", 1))
    done = gate("check", "out")
    assert "provenance not used: out/provenance_0.json was written beside another pair" in (
        done.stdout
    )
    assert "\nout/task_graph_0.json:" in done.stdout
    for text in ("", "{}", "[]", "\0", '{"version": 7}'):
        (folder / "out" / "provenance_0.json").write_text(text)
        done = gate("check", "out")
        assert done.returncode == 1
        assert "provenance not used: out/provenance_0.json is no provenance" in done.stdout


def test_reports_go_where_they_are_asked_to(folder: Path, gate: Gate) -> None:
    done = gate("run", "-o", "sarif=out.sarif", "-o", "json", "demo/builder.py", "--no-rope", "2")
    assert done.returncode == 1
    sarif = json.loads((folder / "out.sarif").read_text())
    places = [
        result["locations"][0]["physicalLocation"]
        for result in sarif["runs"][0]["results"]
        if result["ruleId"] == "MG701"
    ]
    assert [place["artifactLocation"]["uri"] for place in places] == ["demo/builder.py"]
    assert places[0]["region"]["startLine"] == ATTENTION
    assert '"rule": "MG701"' in done.stdout


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("x = 1", 2, "ended without emitting a task graph: nothing was audited; no module with"),
        ("import mirage", 2, "nothing called KNGraph.generate_task_graph"),
        ("raise KeyError('x')", 2, "raised KeyError before it emitted a task graph"),
        ("import sys; sys.exit(3)", 2, "ended with status 3 before it emitted"),
        ("import os; os._exit(0)", 2, "left with os._exit or os.exec (0) before it emitted"),
        ("import os; os.execv(sys.executable, ['python', '-c', ''])", 2, "before it emitted"),
        (BUILD + "mpk.compile(); raise KeyError('x')", 1, "all graphs passed; then script.py"),
        (BUILD + "mpk.compile(); sys.exit(7)", 7, "then script.py ended with status 7"),
        (BUILD + "mpk.compile(); import os; os._exit(0)", 0, "PASSED"),
        (BROKEN + "mpk.compile()", 1, "MG701 layer-outlier error"),
        (
            BROKEN + "try: mpk.compile()\nexcept: pass\nimport os; os._exit(0)",
            1,
            "MG701 layer-outlier error",
        ),
        (BROKEN + "try: mpk.compile()\nexcept BaseException: pass", 1, "MG701 layer-outlier error"),
        (BUILD + "mpk.compile()\n" + BROKEN + "mpk.compile()", 1, "MG701 layer-outlier error"),
        (BUILD + "mpk.compile(); mpk.compile()", 0, "PASSED"),
    ],
)
def test_however_a_script_ends(folder: Path, gate: Gate, text: str, status: int, says: str) -> None:
    script(folder, text)
    done = gate("run", "script.py")
    assert done.returncode == status, done.stdout
    assert says in done.stdout
    assert "mirage_gate/building" not in done.stdout, "a traceback of the gate's own"
    assert "internal error" not in done.stdout
    if "KeyError" in text:
        assert "Traceback" in done.stdout
        assert done.stdout.count("File ") == done.stdout.count('File "script.py", line') == 1


THREAD = "import threading\nthread = threading.Thread(target=mpk.compile{})\nthread.start()\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (BUILD + THREAD.format(""), 0),
        (BROKEN + THREAD.format(""), 1),
        (BROKEN + THREAD.format("") + "thread.join(); print('goes on')", 1),
        (BROKEN + THREAD.format(", daemon=True") + "thread.join(); print('goes on')", 1),
    ],
)
def test_in_a_thread(folder: Path, gate: Gate, text: str, status: int) -> None:
    script(folder, text)
    done = gate("run", "script.py")
    assert done.returncode == status, done.stdout
    assert ("FAILED" if status else "PASSED") in done.stdout
    assert "goes on" not in done.stdout


FORKED = """
import os
child = os.fork()
if not child:
    mpk.compile()
    os._exit(0)
print("child", os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_in_a_forked_process(folder: Path, gate: Gate) -> None:
    script(folder, BUILD + FORKED)
    assert gate("run", "script.py").returncode == 0
    script(folder, BROKEN + FORKED)
    assert gate("run", "script.py").returncode == 1


UNDER_PYTEST = """
import sys
sys.path.insert(0, "demo")
import builder

def test_builds(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", {args}])
    builder.build(builder.arguments()).compile()

def test_something_else():
    pass
"""


def test_under_pytest(folder: Path, gate: Gate) -> None:
    tests = folder / "test_builder.py"
    command = ("run", "--keep", "out", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests.name)
    tests.write_text(UNDER_PYTEST.format(args=""))
    done = gate(*command)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    tests.write_text(UNDER_PYTEST.format(args="'--no-rope', '2'"))
    done = gate(*command)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert f"demo/builder.py:{ATTENTION}:9: MG701 layer-outlier error" in done.stdout
    made = json.loads((folder / "out" / "provenance_0.json").read_text())
    assert made["files"] == ["demo/builder.py", "test_builder.py"]


def test_a_second_graph_of_a_rank_has_a_folder_of_its_own(folder: Path, gate: Gate) -> None:
    script(folder, BUILD + "mpk.compile()\n" + BROKEN + "mpk.compile()")
    done = gate("run", "--keep", "out", "-o", "json=out.json", "script.py")
    assert done.returncode == 1
    assert (folder / "out" / "2" / "kernel_0.cu").exists()
    ranks = json.loads((folder / "out.json").read_text())["ranks"]
    assert [rank["cuda"] for rank in ranks] == ["out/kernel_0.cu", "out/2/kernel_0.cu"]


def test_ranks_that_one_process_emits_are_compared(folder: Path, gate: Gate) -> None:
    text = "import builder\nsys.argv[1:] = {}\nargs = builder.arguments()\n"
    text += "for rank in range(2): builder.build(args, rank, 2).compile()\n"
    script(folder, text.format("[]"))
    done = gate("run", "script.py")
    assert done.returncode == 0, done.stdout
    assert "in 2 ranks" in done.stdout
    assert "not emitted here" not in done.stdout
    script(folder, text.format("['--no-rope', '2', '--wrong-ranks', '1']"))
    done = gate("run", "script.py")
    assert done.returncode == 1
    assert "MG601" in done.stdout


def test_what_is_no_script(folder: Path, gate: Gate) -> None:
    (folder / "bad.py").write_text("def f(:\n")
    for args, says in (
        (["run"], "name a script, or a module with -m"),
        (["run", "none.py"], "none.py cannot be read: No such file"),
        (["run", "demo"], "demo is a folder"),
        (["run", "bad.py"], "bad.py:1 is no Python"),
        (["run", "-m", "no_such_module"], "-m no_such_module: No module named"),
        (["run", "--keep", "bad.py", "demo/builder.py"], "bad.py"),
    ):
        done = gate(*args)
        assert done.returncode == 2, done.stdout
        assert says in done.stdout
        assert "Traceback" not in done.stdout


def test_arguments_are_the_script_s_own(folder: Path, gate: Gate) -> None:
    script(folder, "print(sys.argv, __name__, __file__)")
    said = gate("run", "--keep", "x", "script.py", "--keep", "-o", "--help", "--", "-q").stdout
    assert "['script.py', '--keep', '-o', '--help', '--', '-q'] __main__ script.py" in said
    said = gate("run", "--keep", "x", "-m", "script", "--help", "-q").stdout
    assert "'--help', '-q'] __main__" in said


def test_both_helps_say_who_runs_code(gate: Gate) -> None:
    assert "This runs SCRIPT: the one command that runs anything" in gate("run", "--help").stdout
    assert "runs nothing: not the builder" in " ".join(gate("check", "--help").stdout.split())


def test_it_takes_the_options_of_check(folder: Path, gate: Gate) -> None:
    from mirage_gate.commands import check, run

    own = {parameter.name for parameter in run.command.params}
    assert {p.name for p in check.command.params} - own == {"paths"}
    done = gate("run", "--ignore", "MG701", "demo/builder.py", "--no-rope", "2")
    assert done.returncode == 0, done.stdout
    (folder / "mirage-gate.toml").write_text('fail-on = "never"\n')
    assert gate("run", "demo/builder.py", "--no-rope", "2").returncode == 0
    lock = gate("run", "--keep", "out", "demo/builder.py")
    assert lock.returncode == 0
    gate("lock", "out", "-o", "wiring.json")
    (folder / "mirage-gate.toml").unlink()
    done = gate("run", "--lock", "wiring.json", "demo/builder.py", "--no-rope", "2")
    assert "MG801" in done.stdout
