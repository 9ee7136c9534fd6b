"""The command line: what it completes, checks before it begins, and says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage_gate import config
from mirage_gate.commands._run import _color
from mirage_gate.rules import all_rules
from tests.command import complete, gate, gate_here
from tests.emitter import qwen3
from tests.scratch import ROOT, clean_environment

root_sees_all = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's own files")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    qwen3(2).write(tmp_path / "gen")
    return tmp_path


# -- outputs -----------------------------------------------------------------------------------


def test_folders_of_reports_are_made(folder: Path) -> None:
    (folder / "mirage-gate.toml").write_text('output = ["text", "sarif=out/deep/x.sarif"]')
    done = gate_here("check", "gen", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert (folder / "out" / "deep" / "x.sarif").is_file()


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        (("sarif=x", "json=x"), "sarif and json would both go to x"),
        (("sarif=x", "json=gen/../x"), "would both go to gen/../x"),
        (("json=gen/kernel_0.cu",), "gen/kernel_0.cu is read by this run"),
        (("json=demo.py",), "demo.py is read by this run"),
        (("json=gen",), "Is a directory"),
        (("json=demo.py/x",), "Not a directory"),
        (("json=" + "n" * 300 + "/x",), "File name too long"),
    ],
)
def test_reports_are_checked_before_the_audit(
    folder: Path, outputs: tuple[str, ...], says: str
) -> None:
    (folder / "demo.py").write_text("")
    wanted = [word for output in ("html=first.html", *outputs) for word in ("-o", output)]
    before = (folder / "gen" / "kernel_0.cu").read_bytes()
    done = gate(
        *("check", "gen", "--builder", "demo.py", *wanted),
        cwd=folder,
        code="import mirage_gate.auditing.ranks as e; e.check = lambda *a, **k: sys.exit(77)",
    )
    assert done.returncode == 2, done.stdout
    assert says in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["demo.py", "gen"]
    assert (folder / "gen" / "kernel_0.cu").read_bytes() == before


@linux_only
def test_a_read_only_folder_is_said_before_the_audit(folder: Path) -> None:
    (folder / "out").mkdir(mode=0o555)
    before = root_sees_all if os.geteuid() == 0 else ()
    done = gate("check", "gen", "-o", "json=out/x", cwd=folder, before=before)
    assert done.returncode == 2
    assert "Permission denied" in done.stdout


@linux_only
def test_a_report_that_fails_keeps_no_other_from_being_written(folder: Path) -> None:
    done = gate_here(
        "check", "gen", "-o", "json=/dev/full", "-o", "text", "-o", "sarif=x", cwd=folder
    )
    assert done.returncode == 2
    assert "/dev/full" in done.stdout
    assert "mirage-gate: PASSED" in done.stdout
    assert (folder / "x").is_file()


def test_several_reports_may_go_to_a_device(folder: Path) -> None:
    done = gate_here("check", "gen", "-o", "json=/dev/null", "-o", "sarif=/dev/null", cwd=folder)
    assert done.returncode == 0, done.stdout


# -- what the operating system will not do -----------------------------------------------------


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m mirage_gate"
    return subprocess.run(
        ["bash", "-c", line.replace("mirage-gate", command)],
        cwd=cwd,
        env=clean_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )


@linux_only
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("mirage-gate check gen >&-", "standard output is closed"),
        ("mirage-gate check gen > /dev/full", "standard output: No space left on device"),
        ("mirage-gate explain > /dev/full", "standard output: No space left on device"),
        ("mirage-gate check gen -vv -o json > /dev/full", "No space left on device"),
        ("mirage-gate check gen -o json=/dev/full", "No space left on device"),
        ("mirage-gate check gen -v | true; exit ${PIPESTATUS[0]}", ""),
    ],
)
def test_no_internal_error(folder: Path, line: str, says: str) -> None:
    done = shell(line, folder)
    assert done.returncode == 2 or (not says and done.returncode == 0), done.stderr
    assert "internal error" not in done.stderr
    assert says in done.stderr
    if not says:
        assert done.stderr == ""


@linux_only
def test_an_unreadable_folder_is_said(folder: Path) -> None:
    before = root_sees_all if os.geteuid() == 0 else ()
    (folder / "gen").chmod(0)
    for arguments in (("check", "gen"), ("show", "gen", "x"), ("lock", "gen", "-o", "-")):
        done = gate(*arguments, cwd=folder, before=before)
        assert done.returncode == 2, done.stdout
        assert "gen cannot be listed: Permission denied" in done.stdout
    done = gate("check", "gen/kernel_0.cu", cwd=folder, before=before)
    assert done.returncode == 2
    assert "internal error" not in done.stdout


def test_one_folder_by_two_paths_is_audited_once_and_said(folder: Path) -> None:
    (folder / "link").symlink_to("gen")
    done = gate_here("check", "gen", "link", str(folder / "gen"), "./gen", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert "link and gen are one folder: its pairs are audited once" in done.stdout
    assert done.stdout.count("one folder") == 2
    assert "in 1 rank (" in done.stdout


# -- ranks, show, schema -----------------------------------------------------------------------


def test_ranks_as_a_span(tmp_path: Path) -> None:
    qwen3(1, ranks=4).write(tmp_path)
    done = gate_here("check", tmp_path, "--ranks", "0-1,3")
    assert "ranks 0-1, 3:" in done.stdout
    for wrong in ("3-0", "a-b", "0-", "-1", "1-2-3", ",", "0-99999999999"):
        done = gate_here("check", tmp_path, f"--ranks={wrong}")
        assert done.returncode == 2, wrong
        assert "--ranks" in done.stdout


def test_show_takes_names_and_globs_and_lists(folder: Path) -> None:
    done = gate_here("show", "gen", cwd=folder)
    assert done.returncode == 0
    assert "  cos_position_embedding" in done.stdout
    assert "host, input_refs=" in done.stdout
    done = gate_here("show", "gen", "layer_*_q_norm", "lm_head", cwd=folder)
    assert done.returncode == 0
    for name in ("layer_0_q_norm", "layer_1_q_norm", "lm_head"):
        assert f"rank 0: {name} (host" in done.stdout
    done = gate_here("show", "gen", "lm_head", "nothing_*", cwd=folder)
    assert done.returncode == 2
    assert "no tensor is named nothing_*" in done.stdout


def test_schema_without_a_name_lists(folder: Path) -> None:
    done = gate_here("schema")
    assert done.returncode == 0
    assert "config      mirage-gate's configuration\n" in done.stdout


# -- settings ----------------------------------------------------------------------------------


def test_no_config(folder: Path) -> None:
    (folder / "mirage-gate.toml").write_text("nonsense = 1")
    for arguments in (("check", "gen"), ("show", "gen", "lm_head"), ("lock", "gen", "-o", "-")):
        assert gate_here(*arguments, cwd=folder).returncode == 2
        assert gate_here(*arguments, "--no-config", cwd=folder).returncode == 0
    done = gate_here("check", "gen", "--no-config", "--config", "mirage-gate.toml", cwd=folder)
    assert done.returncode == 2
    assert "exclude each other" in done.stdout


def test_settings_are_shown_as_a_configuration(folder: Path) -> None:
    text = (
        'critical = ["+x"]\nfail-on = "note"\nignore = ["MG5"]\n[severity]\nMG104 = "error"\n'
        '[[waivers]]\nrule = "MG102"\nreason = "a \\"reason\\""\nexpires = 2099-01-02\n'
        '[[task-types]]\nname = "TASK_X"\ncode = 900\ninputs = "r rw"\n'
    )
    own = folder / "mirage-gate.toml"
    own.write_text(text)
    arguments = ("check", "gen", "--fail-on", "warning", "--ranks", "0-1", "-o", "html=out/x")
    done = gate_here(*arguments, "--show-settings", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert 'fail-on = "warning"  # the command line' in done.stdout
    assert f'critical = ["+x"]  # {own}' in done.stdout
    assert 'locate = "auto"  # by default' in done.stdout
    assert not (folder / "out").exists()
    before = config.load(own)
    own.write_text(done.stdout)
    after = config.load(own)
    for key in ("critical", "ignore", "severity", "waivers", "task_types"):
        assert getattr(after, key) == getattr(before, key)
    assert after.ranks == [0, 1]
    done = gate_here("merge", "x.json", "--show-settings", "--no-config", cwd=folder)
    assert "# configuration: none" in done.stdout
    assert 'paths = ["x.json"]  # the command line' in done.stdout


@pytest.mark.parametrize(
    ("variables", "terminal", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": ""}, False, False),
    ],
)
def test_color(
    variables: dict[str, str], terminal: bool, colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert _color("auto") is colored
    assert _color("always")
    assert not _color("never")


# -- completion --------------------------------------------------------------------------------


def test_rules_are_completed() -> None:
    ids = [rule.id for rule in all_rules() if rule.id.startswith("MG10")]
    for option in ("--select", "--ignore"):
        assert complete("mirage-gate", "check", option, "MG10") == ids
        assert complete("mirage-gate", "check", option, "MG1,mg10") == [f"MG1,{id}" for id in ids]
        assert complete("mirage-gate", "merge", option, "unused-b") == ["unused-buffer"]
        assert "MG1" in complete("mirage-gate", "check", option, "")
    assert complete("mirage-gate", "explain", "unused-b") == ["unused-buffer"]


def test_several_rules_are_explained() -> None:
    done = gate_here("explain", "MG101", "unused-buffer", "MG101")
    assert done.stdout.count("MG101 unwired-critical-tensor (error)") == 1
    assert done.stdout.count("MG103 unused-buffer (note)") == 1
    assert gate_here("explain", "MG101", "MG999").returncode == 2


def test_files_are_completed_behind_a_format(folder: Path) -> None:
    (folder / "generated.json").write_text("")
    assert complete("mirage-gate", "check", "-o", "json=gen", cwd=folder) == [
        "json=gen/",
        "json=generated.json",
    ]
    assert complete("mirage-gate", "check", "-o", "json=gen/k", cwd=folder) == [
        "json=gen/kernel_0.cu"
    ]
    assert complete("mirage-gate", "check", "-o", "json=absent/", cwd=folder) == []
    # Bash parts a word at the equals sign, and completes a file by itself where told to.
    words = ("mirage-gate", "check", "-o", "json", "=", "ge")
    assert complete(*words, of="bash", cwd=folder) == ["ge"]
    assert complete("mirage-gate", "check", "ge", of="bash", cwd=folder) == ["ge"]
