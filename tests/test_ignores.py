"""Comments in the builder that say a finding is meant, and the waivers that `waive` writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mirage_gate import audit, config
from mirage_gate.artifacts.builder.ignores import read
from tests.command import gate_here, invoke
from tests.emitter import qwen3
from tests.findings import HOSTILE_NAMES

BUILDER = """
def build(mpk, cos, sin):
    mpk.attach_input(
        cos,
        name="cos_position_embedding",{comment}
    )
    mpk.attach_input(sin, name="sin_position_embedding")
"""


def built(folder: Path, comment: str) -> tuple[Path, Path]:
    qwen3(2).without_rope().write(folder / "gen")
    builder = folder / "demo.py"
    builder.write_text(BUILDER.format(comment=comment and f"  # {comment}"))
    return folder / "gen", builder


@pytest.mark.parametrize("rule", ["MG101", "unwired-critical-tensor", "MG102, mg101"])
def test_a_comment_on_the_call_hides_its_finding(tmp_path: Path, rule: str) -> None:
    gen, builder = built(tmp_path, f"mirage-gate: ignore[{rule}] next release")
    done = invoke("check", gen, "--builder", builder, "--show-hidden")
    assert "(ignored: next release)" in done.output
    assert "1 waived" in done.output
    assert "error: critical tensor cos_position_embedding" not in done.output.split("hidden:")[0]
    assert done.return_value == 1  # the other table is still lost


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("mirage-gate: ignore[MG104] gone", "ignore[MG104] is needed by no finding"),
        ("mirage-gate: ignore everything", "names no rule"),
        ("mirage-gate: ignore[MG1O1] typo", "names none that there is"),
    ],
)
def test_a_comment_that_does_nothing_is_said(tmp_path: Path, comment: str, says: str) -> None:
    gen, builder = built(tmp_path, comment)
    done = invoke("check", gen, "--builder", builder)
    assert "demo.py:5:" in done.output
    assert "MG803" in done.output
    assert says in done.output
    assert "critical tensor cos_position_embedding" in done.output


def test_a_comment_elsewhere_hides_nothing(tmp_path: Path) -> None:
    gen, builder = built(tmp_path, "")
    builder.write_text("# mirage-gate: ignore[MG101] no\n" + builder.read_text())
    done = invoke("check", gen, "--builder", builder)
    assert "waived" not in done.output
    assert "needed by no finding" in done.output


def test_text_that_looks_like_a_comment_is_none(tmp_path: Path) -> None:
    file = tmp_path / "demo.py"
    file.write_text('x = "# mirage-gate: ignore[MG101] no"\n# mirage-gate: ignore[MG102] yes\n(')
    (one,) = read(str(file))
    assert (one.rules, one.reason, one.location.line) == (("MG102",), "yes", 2)
    file.write_bytes(b"# mirage-gate: ignore[MG101]\n\xff\x00")
    assert read(str(file)) == ()


def test_waive_writes_what_the_configuration_takes(tmp_path: Path) -> None:
    gen, _ = built(tmp_path, "")
    done = invoke("waive", gen)
    file = tmp_path / "mirage-gate.toml"
    file.write_text(done.output)
    file.write_text(done.output.replace('reason = ""', 'reason = "on purpose"'))
    passed = invoke("check", gen, "--config", file)
    assert passed.return_value == 0
    assert "2 waived" in passed.output
    assert invoke("waive", gen, "--config", file).output == ""


def gate(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return gate_here(*arguments, cwd=cwd, apart=True)


def test_a_waiver_that_is_not_finished_stops_what_honours_waivers(tmp_path: Path) -> None:
    """Where, and how to finish it, in one line; nothing that takes no waivers is stopped."""
    built(tmp_path, "")
    written = gate(tmp_path, "waive", "gen").stdout
    known = "# ours\n" + written
    (tmp_path / "mirage-gate.toml").write_text(known)
    line = known.split("\n").index("[[waivers]]") + 1
    says = (
        f"mirage-gate.toml:{line}:1: the waiver of MG101 for cos_position_embedding gives no "
        'reason, nor do 1 more in that file: write into its `reason = ""` why the finding is '
        "accepted, or delete the waiver"
    )
    gate(tmp_path, "check", "gen", "--no-config", "-o", "summary=rank.json")
    for stopped in (("check", "gen"), ("merge", "rank.json"), ("run", "demo.py")):
        done = gate(tmp_path, *stopped)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert says in done.stderr
    for command in (
        ("check", "gen", "--show-settings"),
        ("merge", "rank.json", "--show-settings"),
        ("show", "gen", "lm_head"),
        ("diff", "gen", "gen"),
        ("plan", "gen"),
        ("lock", "gen", "--force", "-o", "wiring.lock.json"),
        ("explain", "MG101"),
        ("schema", "config"),
    ):
        done = gate(tmp_path, *command)
        assert done.returncode == 0, done.stderr
        assert "reason" not in done.stderr
    # What is written already is not written again; what is missing of it is said.
    again = gate(tmp_path, "waive", "gen")
    assert (again.returncode, again.stdout) == (0, "")
    assert says in again.stderr
    with pytest.raises(ValueError, match=f"mirage-gate.toml:{line}:1: the waiver of MG101"):
        audit("", "", config=tmp_path / "mirage-gate.toml")


@pytest.mark.parametrize("option", ["-o", "--output", "--color", "-q", "--statistics"])
def test_waive_takes_no_option_that_it_would_not_heed(tmp_path: Path, option: str) -> None:
    done = gate(tmp_path, "waive", option, "text")
    assert done.returncode == 2
    assert "No such option" in done.stderr


def test_a_waiver_means_its_name_alone_whatever_is_in_it(tmp_path: Path) -> None:
    from fnmatch import fnmatchcase

    from mirage_gate.commands.waive import _literally, _quoted

    for name in (*HOSTILE_NAMES, "a[0]*?", 'quote"d', "back\\slash"):
        file = tmp_path / "mirage-gate.toml"
        file.write_text(
            f'[[waivers]]\nrule = "MG102"\ntensor = {_quoted(_literally(name))}\nreason = "r"\n',
            encoding="utf-8",
        )
        (waiver,) = config.load(file).waivers
        assert fnmatchcase(name, waiver.tensor)
        assert not fnmatchcase(name + "x", waiver.tensor)


def test_what_follows_from_an_ignored_finding_is_said(tmp_path: Path) -> None:
    """The table may be meant to be lost: the kernel that looks for it reads address 0."""
    pair = qwen3(2).emit()
    for task in pair.tasks(153):
        for slot in (5, 6):
            task["inputs"][slot]["base_ptr"] = "nullptr"
    pair.write(tmp_path / "gen")
    builder = tmp_path / "demo.py"
    for comment, said in (("", False), ("  # mirage-gate: ignore[MG101] meant", True)):
        builder.write_text(BUILDER.format(comment=comment))
        done = invoke("check", tmp_path / "gen", "--builder", builder, "-o", "json")
        rules = [finding["rule"] for finding in json.loads(done.output)["findings"]]
        assert ("MG510" in rules) is said
        assert "MG803" not in rules
