"""What the gate promises whatever it meets: it reads only, repeats itself, and fails closed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage_gate.artifacts import graph_text
from mirage_gate.artifacts.pairs import find
from mirage_gate.auditing.ranks import check
from tests.command import gate, gate_here, program
from tests.emitter import deepseek_v3, qwen3
from tests.scratch import ROOT, clean_environment

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown", "html", "summary")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's special files")


def assert_closed(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The gate said no, in a sentence, and did not fall over."""
    assert done.returncode in (1, 2), done.stdout
    assert "Traceback" not in done.stdout
    assert "internal error" not in done.stdout
    for word in words:
        assert word in done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clean pair."""
    qwen3(2).write(tmp_path / "artifacts")
    return tmp_path / "artifacts"


# -- inputs that are none ------------------------------------------------------------------------


GRAPHS = {
    "empty": b"",
    "blank": b" \n" * 1000,
    "a NUL": b"\x00",
    "binary": bytes(range(256)) * 100,
    "a number": b"1",
    "an array": b"[]",
    "an empty object": b"{}",
    "null": b"null",
    "NaN": b'{"all_events": [], "all_tasks": [], "first_tasks": [NaN]}',
    "deep nesting": b"[" * 1_000_000,
    "deep objects": b'{"all_tasks":' * 200_000,
    "a long line": b'{"all_tasks": "' + b"x" * 200_000 + b'"}',
    "a huge number": b'{"all_events": [], "all_tasks": [], "first_tasks": ['
    + b"1" * 100_000
    + b"]}",
    "a lone surrogate": b'{"all_events": [], "all_tasks": ["\\ud800"], "first_tasks": []}',
    "raw surrogates": b'{"all_events": [], "all_tasks": ["\xed\xa0\x80"], "first_tasks": []}',
    "UTF-16": '{"all_events": []}'.encode("utf-16"),
    "nothing in it": b'{"all_events": [], "all_tasks": [], "first_tasks": []}',
}


@pytest.mark.parametrize("what", GRAPHS)
def test_a_graph_that_is_none_does_not_pass(folder: Path, what: str) -> None:
    (folder / "task_graph_0.json").write_bytes(GRAPHS[what])
    assert_closed(gate_here("check", folder), "task_graph_0.json")


def test_a_truncated_graph_does_not_pass(folder: Path) -> None:
    path = folder / "task_graph_0.json"
    whole = path.read_bytes()
    for cut in (1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        done = gate_here("check", folder)
        assert_closed(done, "MG902")
        assert re.search(r"task_graph_0\.json:\d+", done.stdout)


def test_a_repeated_key_counts_once(folder: Path) -> None:
    path = folder / "task_graph_0.json"
    text = path.read_text()
    path.write_text(text.rstrip().rstrip("}").rstrip() + ',\n  "all_tasks": []\n}')
    assert_closed(gate_here("check", folder))


@pytest.mark.parametrize(
    "cuda", [b"", b"\x00", b"\xff" * 1000, b"/*" * 100_000, b'"' * 100_001, b"#if 0\n" * 1000]
)
def test_a_cuda_file_that_is_none_does_not_pass(folder: Path, cuda: bytes) -> None:
    (folder / "kernel_0.cu").write_bytes(cuda)
    assert_closed(gate_here("check", folder), "kernel_0.cu")


@linux_only
@pytest.mark.parametrize("name", ["kernel_0.cu", "task_graph_0.json"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "device", "dangling", "loop"])
def test_what_is_no_file_does_not_pass(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    path = folder / name
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            monkeypatch.chdir(folder)  # a socket's path may have some hundred characters
            bound.bind(name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to("nowhere" if kind == "dangling" else name)
    endless = kind in ("fifo", "device")  # a process that waits for it can be ended
    done = gate("check", folder, timeout=20) if endless else gate_here("check", folder)
    assert_closed(done, name)


@linux_only
def test_an_unreadable_file_does_not_pass(folder: Path) -> None:
    (folder / "task_graph_0.json").chmod(0)
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:  # root may read everything, unless it gives that up
        before = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    done = gate("check", folder, before=before)
    assert_closed(done, "task_graph_0.json", "Permission denied")


def test_a_file_that_shrinks_while_it_is_read_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deepseek_v3(7).write(tmp_path)
    path = tmp_path / "task_graph_0.json"
    monkeypatch.setattr(graph_text, "_BLOCK", 1 << 14)
    read = graph_text.GraphText._read
    reads = 0

    def shrinking(text: graph_text.GraphText, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 3:
            os.truncate(path, 1 << 16)
        return read(text, size)

    monkeypatch.setattr(graph_text.GraphText, "_read", shrinking)
    report = check(find([str(tmp_path)]))
    assert [rank.audited for rank in report.ranks] == [False]
    assert report.exit_status("never") == 2


@linux_only
@pytest.mark.parametrize("kind", ["fifo", "device"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "artifacts", "--lock"),
        ("check", "artifacts", "--baseline"),
        ("check", "artifacts", "--config"),
        ("check", "artifacts", "--model-config"),
        ("check", "artifacts", "--runtime-header"),
        ("check", "artifacts", "--builder"),
        ("diff", "artifacts"),
        ("merge",),
    ],
    ids=lambda arguments: arguments[-1],
)
def test_what_is_no_file_is_not_waited_for(
    folder: Path, arguments: tuple[str, ...], kind: str
) -> None:
    path = folder.parent / "named"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    done = gate(*arguments, path, cwd=folder.parent, timeout=20)
    assert "named" in done.stdout
    assert "Traceback" not in done.stdout
    # Without its builder a graph is judged all the same.
    assert done.returncode == (0 if "--builder" in arguments else 2)


# -- outputs that cannot be written ----------------------------------------------------------------


@linux_only
@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_is_said(folder: Path, name: str) -> None:
    done = gate_here("check", folder, "-o", f"{name}=/dev/full")
    assert done.returncode not in (0, 1), done.stdout
    assert "Traceback" not in done.stdout
    assert "/dev/full" in done.stdout


@linux_only
def test_a_full_disk_behind_standard_output_is_said(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = gate("check", folder, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode not in (0, 1)
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made_is_said(folder: Path) -> None:
    done = gate_here("check", folder, "-o", f"json={folder / 'kernel_0.cu' / 'no' / 'report.json'}")
    assert done.returncode == 2
    assert "Traceback" not in done.stdout


def test_a_closed_pipe_is_no_traceback(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = gate("check", folder, "-v", stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.returncode != 0
    assert done.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_without_standard_streams(folder: Path) -> None:
    command = [sys.executable, "-m", "mirage_gate", "check", str(folder)]
    for closed in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        line = f'"$@" {closed}'
        done = subprocess.run(
            ["sh", "-c", line, "sh", *command],
            cwd=ROOT,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stdout + done.stderr, closed


def test_a_symbolic_link_is_replaced_not_followed(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    link = tmp_path / "report.json"
    link.symlink_to(precious)
    assert gate_here("check", folder, "-o", f"json={link}").returncode == 0
    assert precious.read_text() == "precious"
    assert not link.is_symlink()


def test_nothing_is_left_behind_by_a_failed_write(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.mkdir()
    done = gate_here("check", folder, "-o", f"json={target}")
    assert done.returncode not in (0, 1)
    assert "Traceback" not in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["artifacts", "report.json"]


# -- surroundings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX"},
        {"HOME": "/nonexistent"},
        {"HOME": ""},
        {"PATH": "/nonexistent"},
        {"TERM": "dumb", "COLUMNS": "0"},
        {"PYTHONWARNINGS": "error"},
    ],
    ids=str,
)
def test_in_any_surroundings(folder: Path, tmp_path: Path, env: dict[str, str]) -> None:
    kernel = folder / "kernel_0.cu"
    extra = '  char *é☃ = x;\n  all_tensors["é☃"] = é☃;\n  all_tensors["nullptr"]'
    kernel.write_text(kernel.read_text().replace('  all_tensors["nullptr"]', extra), "utf-8")
    others = [w for name in FORMATS[1:] for w in ("-o", f"{name}={tmp_path / name}")]
    done = gate("check", folder, "-o", "text", *others, env=env)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout
    assert "internal error" not in done.stdout


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_shown_in_ascii(folder: Path, name: str) -> None:
    kernel = folder / "kernel_0.cu"
    kernel.write_text(kernel.read_text().replace("lm_head", "lm_é☃_head"), "utf-8")
    done = gate_here("check", folder, "-o", name, encoding="ascii")
    assert done.returncode == 1, done.stdout


@linux_only
def test_in_a_folder_that_cannot_be_written(folder: Path) -> None:
    assert gate("check", folder, cwd="/proc").returncode == 0


def test_in_a_folder_that_is_gone(folder: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = gate("check", folder, cwd=gone, code=f"import os; os.rmdir({str(gone)!r})")
    assert "Traceback" not in done.stdout


def test_offline(folder: Path, tmp_path: Path) -> None:
    code = (
        "import socket\n"
        "def no(*a, **k): raise SystemExit('the network was asked for')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = no"
    )
    outputs = [word for name in FORMATS for word in ("-o", f"{name}={tmp_path / name}")]
    done = gate("check", folder, *outputs, code=code)
    assert done.returncode == 0, done.stdout


def test_from_an_installation_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "mirage_gate", place / "mirage_gate", ignore=ignored)
    shutil.copytree(ROOT / "schemas", place / "mirage_gate" / "schemas")
    before = _tree(place)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "from mirage_gate.cli import main; raise SystemExit(main())"]
    done = subprocess.run(
        [*command, "check", str(folder)],
        cwd=place,
        env=clean_environment() | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755)
    assert done.returncode == 0, done.stdout + done.stderr
    assert _tree(place) == before


# -- promises --------------------------------------------------------------------------------------


def _tree(folder: Path) -> dict[str, tuple[str, int]]:
    """Contents and times of all files."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_artifacts_are_only_read(tmp_path: Path) -> None:
    place = tmp_path / "artifacts"
    qwen3(4, ranks=2).without_rope(2).write(place)
    before = _tree(place)
    outputs = [word for name in FORMATS for word in ("-o", f"{name}={tmp_path / name}")]
    gate_here("check", place, *outputs, cwd=place)
    gate_here("show", place, "lm_head", cwd=place)
    gate_here("lock", place, "-o", tmp_path / "lock.json", cwd=place)
    assert _tree(place) == before


def test_a_report_is_the_same_every_time(tmp_path: Path) -> None:
    place = tmp_path / "artifacts"
    qwen3(5, ranks=2).without_rope(2).stale_residual(3).with_extra_host("b", "a").write(place)
    told: dict[str, set[str]] = {name: set() for name in FORMATS}
    for seed, jobs in (("0", "1"), ("1", "2"), ("4711", "1"), ("random", "2")):
        outputs = [f"{name}={tmp_path / f'report-{name}'}" for name in FORMATS]
        options = [word for output in outputs for word in ("-o", output)]
        done = gate("check", place, *options, "--jobs", jobs, env={"PYTHONHASHSEED": seed})
        assert done.returncode == 1, done.stdout
        for name in FORMATS:
            told[name].add((tmp_path / f"report-{name}").read_text())
    assert {name: len(texts) for name, texts in told.items()} == dict.fromkeys(FORMATS, 1)


RAISES = """
from mirage_gate.rules import rule_by_id
@rule_by_id("MG101").checked_by
def that_raises(facts):
    if facts.rank == 1:
        raise {error}
    return iter(())
"""


@pytest.mark.parametrize("error", ["KeyError('x')", "MemoryError()", "RecursionError('deep')"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_rule_that_raises_fails_closed(tmp_path: Path, error: str, jobs: str) -> None:
    qwen3(2, ranks=2).write(tmp_path / "artifacts")
    sarif = tmp_path / "report.sarif"
    done = gate(
        "check",
        tmp_path / "artifacts",
        "--jobs",
        jobs,
        "-o",
        f"sarif={sarif}",
        "-o",
        "text",
        "--fail-on",
        "never",
        code=RAISES.format(error=error),
    )
    assert done.returncode not in (0, 130), done.stdout
    assert "Traceback" not in done.stdout
    assert '"executionSuccessful": false' in sarif.read_text()
    assert re.search(r"rank 1\b.*not audited|not audited.*rank 1\b", done.stdout, re.DOTALL)


WAITS = """
import os, time
from mirage_gate.artifacts import cuda
parse = cuda.parse
def waiting(path, data):
    if path.endswith("kernel_1.cu"):
        print(os.getpid(), flush=True)
        time.sleep(60)
    return parse(path, data)
cuda.parse = waiting
"""


@linux_only
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_worker_that_is_killed_fails_closed(tmp_path: Path, sign: signal.Signals) -> None:
    qwen3(2, ranks=2).write(tmp_path / "artifacts")
    sarif = tmp_path / "report.sarif"
    options = ["--jobs", "2", "-o", f"sarif={sarif}", "-o", "text", "--fail-on", "never"]
    with subprocess.Popen(
        [sys.executable, "-c", program(WAITS), "check", str(tmp_path / "artifacts"), *options],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        os.kill(int(process.stdout.readline()), sign)
        text = process.communicate(timeout=30)[0]
    assert process.returncode == 1
    assert "Traceback" not in text
    assert f"killed by signal {sign.value}" in text
    assert re.search(r"rank 1\b.*not audited|not audited.*rank 1\b", text, re.DOTALL)
    assert "rank 0: " in text
    assert '"executionSuccessful": false' in sarif.read_text()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run that has begun and has much to do, and where its report will stand."""
    place = tmp_path / "artifacts"
    qwen3(2).write(place)
    report = tmp_path / "report.json"
    code = (
        "import time\n"
        "from mirage_gate.artifacts import cuda\n"
        "parse = cuda.parse\n"
        "def slow(*a, **k):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(20)\n"
        "    return parse(*a, **k)\n"
        "cuda.parse = slow"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program(code), "check", str(place), "-o", f"json={report}"],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Under nohup, and in the background of some shells, SIGINT is ignored and inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    yield process, report
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_proves_nothing(
    slow: tuple[subprocess.Popen[str], Path], sign: signal.Signals
) -> None:
    process, report = slow
    time.sleep(0.1)
    process.send_signal(sign)
    _, errors = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "Traceback" not in errors
    assert not report.exists()
    assert not list(report.parent.glob(".report*"))
    if sign == signal.SIGINT:
        assert "interrupted" in errors


def test_a_builder_is_read_and_never_run(folder: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    builder = tmp_path / "builder.py"
    builder.write_text(f"open({str(witness)!r}, 'w').close()\nattach_input(x, name='lm_head')\n")
    assert gate_here("check", folder, "--builder", builder).returncode == 0
    assert not witness.exists()


def test_a_selection_that_leaves_nothing_on_does_not_pass(folder: Path) -> None:
    done = gate_here("check", folder, "--select", "MG101", "--ignore", "MG1")
    assert done.returncode == 2
    assert "nothing is left" in done.stdout
    assert gate_here("check", folder, "--select", "MG9").returncode == 0
    assert gate_here("check", folder, "--select", "MG1,MG2", "--ignore", "MG1").returncode == 0
