"""MG902 unreadable."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emitter import Pair, qwen3
from tests.rules import At, Expect, Texts, fires, report_of, silent


@pytest.mark.parametrize("cut", [1, 100, 5000, -3])
@fires("MG902", says=("not JSON",), refuses=True)
def test_a_truncated_graph_ends_at_its_end(cut: int) -> Expect:
    pair = qwen3(1).emit()
    short = pair.json_text()[:cut]
    line = short.rstrip().count("\n") + 1
    return Expect(Texts(pair.cuda_text(), short), at=At(".json", line))


@fires("MG902", at=At(".json", 41), refuses=True)
def test_a_broken_line_is_named() -> Texts:
    pair = qwen3(1).emit()
    lines = pair.json_text().split("\n")
    lines[40] = lines[40].replace(":", "=")
    return Texts(pair.cuda_text(), "\n".join(lines))


@pytest.mark.parametrize("cuda", ["", "int main() {}", "\0\0\0", "// all_tensors"])
@fires("MG902", refuses=True)
def test_a_kernel_that_declares_nothing(cuda: str) -> Expect:
    return Expect(Texts(cuda, qwen3(1).emit().json_text()), at=At(".cu", 1))


@pytest.mark.parametrize(
    ("cut", "opened"),
    [
        ("  }", "RuntimeConfig const &runtime_config) {"),
        ("all_tensors[", "std::map<std::string, void*> const &model_tensors) {"),
        ("task.at(", "std::map<std::string, void*> const &all_tensors) {"),
    ],
)
@fires("MG902", says=("ends in the middle",), refuses=True)
def test_a_truncated_kernel_names_the_block_that_is_open(cut: str, opened: str) -> Expect:
    pair = qwen3(2).emit()
    text = pair.cuda_text()
    return Expect(Texts(text[: text.rindex(cut) + 1], pair.json_text()), cuda=opened)


@pytest.mark.parametrize(("tail", "what"), [("(" * 100_000, "parenthesis"), ("[", "bracket")])
@fires("MG902", refuses=True)
def test_a_kernel_with_brackets_that_stay_open(tail: str, what: str) -> Expect:
    pair = qwen3(2).emit()
    text = pair.cuda_text()
    line = text.count("\n") + 1
    return Expect(
        Texts(text + tail, pair.json_text()),
        at=At(".cu", line),
        says=("is not balanced", f"the {what} opened on line {line} never closes"),
    )


@silent("MG902")
def test_a_kernel_with_brackets_in_comments() -> Texts:
    pair = qwen3(2).emit()
    return Texts(pair.cuda_text() + "// ((([[[\n", pair.json_text())


@silent("MG902")
def test_a_kernel_that_ends_between_two_functions() -> Texts:
    """Nothing is open there: what is missing is another rule's."""
    pair = qwen3(2).emit()
    text = pair.cuda_text()
    return Texts(text[: text.rindex("void _execute_task") + 1], pair.json_text())


def test_a_kernel_without_its_dispatch_table_is_told_of() -> None:
    pair = qwen3(2).emit()
    text = pair.cuda_text()
    short = text[: text.rindex("void _execute_task") + 1]
    report = report_of(Texts(short, pair.json_text()))
    assert "no dispatch table" in report.findings[0].message


@pytest.mark.parametrize("half", ["kernel_0.cu", "task_graph_0.json"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
@fires("MG902", refuses=True)
def test_a_folder_and_a_pipe_with_an_artifacts_name(
    tmp_path: Path, half: str, make: Callable[[Path], None]
) -> Expect:
    qwen3(1).write(tmp_path)
    (tmp_path / half).unlink()
    make(tmp_path / half)
    return Expect(tmp_path, at=At(half, 1), says=("not a regular file",))


@fires("MG902", refuses=True)
def test_a_dangling_link(tmp_path: Path) -> Expect:
    qwen3(1).write(tmp_path)
    (tmp_path / "kernel_0.cu").unlink()
    (tmp_path / "kernel_0.cu").symlink_to(tmp_path / "nowhere")
    return Expect(tmp_path, at=At("kernel_0.cu", 1))


@silent("MG902", passes=True)
def test_a_link_that_leads_somewhere(tmp_path: Path) -> Path:
    qwen3(1).write(tmp_path / "there")
    (tmp_path / "here").mkdir()
    for name in ("kernel_0.cu", "task_graph_0.json"):
        (tmp_path / "here" / name).symlink_to(tmp_path / "there" / name)
    return tmp_path / "here"


@silent("MG902", passes=True)
def test_of_alternatives_only_the_first_opens_a_block() -> Texts:
    pair = qwen3(1).emit()
    text = pair.cuda_text() + "#ifdef A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\n"
    return Texts(text, pair.json_text())


@silent("MG902", passes=True)
def test_a_whole_pair() -> Pair:
    return qwen3(1).emit()
