"""What a file may say is bounded, whatever it says: memory, time and the length of reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirage_gate.agreed import summary
from mirage_gate.artifacts import builder, files
from mirage_gate.auditing import asking
from mirage_gate.config import ConfigError, load
from mirage_gate.findings import Location, Severity
from tests.command import gate_here
from tests.emitter import qwen3
from tests.findings import finding

HUGE = 1 << 30


def sparse(path: Path, start: bytes = b"") -> Path:
    path.write_bytes(start)
    os.truncate(path, HUGE)
    return path


def test_a_world_of_a_billion_ranks(tmp_path: Path) -> None:
    cuda, _ = qwen3(1).write(tmp_path)[:2]
    text = cuda.read_text().replace("num_gpus = 1", "num_gpus = 999999999")
    cuda.write_text(text)
    done = gate_here("check", tmp_path)
    assert "ranks 1-999999998 of 999999999 are not here" in done.stdout


def test_ranks_that_are_far_apart(tmp_path: Path) -> None:
    pair = qwen3(1).write(tmp_path)[:2]
    for path, name in zip(pair, ("kernel_9999.cu", "task_graph_9999.json"), strict=True):
        (tmp_path / name).write_bytes(path.read_bytes())
    done = gate_here("check", tmp_path)
    assert "ranks 1-9998 of ranks 0 to 9999 are not here" in done.stdout


def test_a_kernel_of_a_gigabyte_is_none(tmp_path: Path) -> None:
    cuda, _ = qwen3(1).write(tmp_path)[:2]
    sparse(cuda, cuda.read_bytes())
    done = gate_here("check", tmp_path)
    assert done.returncode == 2
    assert "it has 1,073,741,824 bytes" in done.stdout


@pytest.mark.parametrize("what", ["--lock", "--baseline", "--config"])
def test_no_other_file_has_a_gigabyte(tmp_path: Path, what: str) -> None:
    qwen3(1).write(tmp_path)
    done = gate_here("check", tmp_path, what, sparse(tmp_path / "huge"))
    assert done.returncode == 2
    assert "1,073,741,824 bytes" in done.stdout


def test_lines_cost_nothing_before_they_are_asked_for() -> None:
    text = files.Text("k.cu", "\n" * 3_000_000 + "ab\ncd")
    assert text.location(3_000_001, 3_000_004) == Location("k.cu", 3_000_001, 2, 3_000_002, 2)
    assert len(text._marks) < 1000


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 9000])
def test_a_place_is_on_its_line(size: int) -> None:
    written = "x" * size + "\n" + "y\n" * size + "z" * 5000
    text = files.Text("k.cu", written)
    for at in {0, 1, size, size + 1, size + 2, 2 * size, 3 * size, len(written)}:
        if at <= len(written):
            place = text.location(at, at)
            before = written[:at]
            assert (place.line, place.column) == (
                before.count("\n") + 1,
                at - (before.rfind("\n") + 1) + 1,
            )


@pytest.mark.parametrize("key", ["a." * 100_000 + "b = 1", "[" + "a . " * 100_000 + "b]"])
def test_a_key_of_many_parts(tmp_path: Path, key: str) -> None:
    path = tmp_path / "mirage-gate.toml"
    path.write_text(key)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(path)


def test_a_builder_of_two_million_lines(tmp_path: Path) -> None:
    path = tmp_path / "demo.py"
    path.write_text("x = 1\n" * 2_000_000)
    with pytest.raises(builder.BuilderError, match="it has 12,000,000 bytes"):
        builder.read(str(path))


def test_findings_of_one_rule_are_listed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST", 10)
    notes = [finding(f"n{n}", severity=Severity.NOTE) for n in range(30)]
    errors = [finding(f"e{n}") for n in range(4)]
    assert asking._listed([*notes[:6], *errors]) == [*notes[:6], *errors]
    listed = asking._listed([*notes, *errors])
    assert listed[:10] == [*errors, *notes[:6]]
    (rest,) = listed[10:]
    assert (rest.severity, rest.tensor) == (Severity.NOTE, "")
    told = f"24 more findings of this rule are not listed; the first: {notes[6].message}"
    assert rest.message == told


def test_a_summary_steers_no_terminal(tmp_path: Path) -> None:
    name = "a\u202eb\u009b2J\U0001f600é"
    qwen3(1).with_extra_host(name, "c").write(tmp_path / "pair")
    gate_here("check", tmp_path / "pair", "-o", f"summary={tmp_path / 'summary.json'}")
    data = (tmp_path / "summary.json").read_bytes()
    assert data.isascii()
    assert name in {tensor.name for rank in summary.decode(data) for tensor in rank.tensors}
