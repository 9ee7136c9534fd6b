"""The pre-commit hooks, by pre-commit itself."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from mirage_gate.artifacts import pairs
from tests.emitter import qwen3
from tests.scratch import ROOT, Repository, SourceTree, clean_environment, run


def hooks() -> dict[str, dict[str, Any]]:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    return {hook["id"]: hook for hook in cast("list[dict[str, Any]]", yaml.safe_load(text))}


@pytest.mark.parametrize(
    "name",
    [
        "kernel_0.cu",
        "kernel_12.cu",
        "kernel_100000.cu",
        "task_graph_0.json",
        "task_graph_12.json",
        "test_rank0.cu",
        "task_graph_rank12.json",
        "test.cu",
        "task_graph.json",
        "gen/kernel_0.cu",
        "a folder/with ünïcode/task_graph_3.json",
    ],
)
def test_hook_takes_either_half_of_a_pair(name: str) -> None:
    assert re.search(hooks()["mirage-gate"]["files"], name)
    assert pairs.match(Path(name).name)


@pytest.mark.parametrize(
    "name",
    [
        "kernel_metadata_rank0.json",
        "kernel_metadata_0.json",
        "my_kernel_0.cu",
        "kernel_0.cuh",
        "kernel_0.cu.bak",
        "kernel_0_cu",
        "kernel_.cu",
        "kernel.cu",
        "kernel_a.cu",
        "kernel_00.cu",
        "kernel_1234567.cu",
        "kernel_rank0.cu",
        "task_graph_0.json.gz",
        "task_graph_0.jsonl",
        "old_task_graph.json",
        "task_graph_rank.json",
        "task_graph_schema.json",
        "unit_test.cu",
        "test_0.cu",
        "test_rank0.py",
        "kernel_0.cu/readme.md",
        "kernel_0 .cu",
    ],
)
def test_hook_takes_nothing_else(name: str) -> None:
    assert not re.search(hooks()["mirage-gate"]["files"], name)
    assert not pairs.match(Path(name).name)


def test_both_hooks_run_one_call_of_the_gate() -> None:
    for hook in hooks().values():
        assert hook["entry"] == "mirage-gate check"
        assert hook["language"] == "python"
        assert hook["require_serial"]
    assert hooks()["mirage-gate-all"]["always_run"]
    assert hooks()["mirage-gate-all"]["pass_filenames"] is False


class User(Repository):
    """A repository whose owner set up the hooks."""

    def __init__(self, folder: Path, home: Path, source: SourceTree) -> None:
        super().__init__(folder)
        self.home = home
        self.source = source

    def configure(self, **hook: object) -> None:
        """Write the configuration a README would show, with one hook in it."""
        config = {
            "repos": [
                {
                    "repo": str(self.source.folder),
                    "rev": self.source.commit_id,
                    "hooks": [hook],
                }
            ]
        }
        text = yaml.safe_dump(config)
        (self.folder / ".pre-commit-config.yaml").write_text(text, encoding="utf-8")
        self.git("add", ".pre-commit-config.yaml")

    def pre_commit(self, *arguments: str) -> tuple[int, str]:
        """Run pre-commit: its exit status and all that it printed."""
        done = run(
            *(sys.executable, "-m", "pre_commit", *arguments, "--color=never"),
            cwd=self.folder,
            env=clean_environment(PRE_COMMIT_HOME=str(self.home)),
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="session")
def pre_commit_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the hook's environment: installed once, used by every test."""
    return tmp_path_factory.mktemp("pre-commit")


@pytest.fixture
def user(tmp_path: Path, pre_commit_home: Path, source_tree: SourceTree) -> User:
    return User(tmp_path / "user's repository", pre_commit_home, source_tree)


@pytest.mark.slow
class TestForReal:
    def test_try_repo(self, user: User) -> None:
        """The one command that needs no configuration."""
        qwen3(layers=2).without_rope().write(user.folder)
        user.git("add", "--all")
        status, output = user.pre_commit("try-repo", str(user.source.folder), "mirage-gate")
        assert status == 1, output
        assert "MG101" in output
        assert "Failed" in output

    def test_defective_pair_fails(self, user: User) -> None:
        user.configure(id="mirage-gate")
        qwen3(layers=2).without_rope().write(user.folder / "gen")
        user.git("add", "--all")
        status, output = user.pre_commit("run")
        assert status == 1, output
        assert "MG101" in output
        assert "- exit code: 1" in output

    def test_clean_pair_passes(self, user: User) -> None:
        user.configure(id="mirage-gate")
        qwen3(layers=2).write(user.folder / "gen")
        user.git("add", "--all")
        status, output = user.pre_commit("run")
        assert status == 0, output
        assert "Passed" in output

    @pytest.mark.parametrize("half", [0, 1])
    def test_one_half_staged_is_enough(self, user: User, half: int) -> None:
        user.configure(id="mirage-gate")
        files = qwen3(layers=2).without_rope().write(user.folder / "gen")
        user.git("add", str(files[half]))
        status, output = user.pre_commit("run")
        assert status == 1, output
        assert "MG101" in output

    @pytest.mark.parametrize("half", [0, 1])
    def test_deleted_partner_fails(self, user: User, half: int) -> None:
        user.configure(id="mirage-gate")
        files = qwen3(layers=2).write(user.folder / "gen")
        files[half].unlink()
        user.git("add", "--all")
        status, output = user.pre_commit("run")
        assert status == 1, output
        assert "MG903" in output

    def test_other_files_do_not_wake_it(self, user: User) -> None:
        user.configure(id="mirage-gate")
        (user.folder / "kernel_metadata_rank0.json").write_text("{}", encoding="utf-8")
        user.git("add", "--all")
        status, output = user.pre_commit("run")
        assert status == 0, output
        assert "no files to check" in output

    def test_arguments_reach_the_gate(self, user: User) -> None:
        user.configure(id="mirage-gate", args=["--fail-on=never"])
        qwen3(layers=2).without_rope().write(user.folder / "gen")
        user.git("add", "--all")
        status, output = user.pre_commit("run")
        assert status == 0, output

    def test_ignored_folder(self, user: User) -> None:
        """Nothing of it is staged, and it is audited all the same."""
        user.configure(id="mirage-gate-all", args=["gen dir"])
        (user.folder / ".gitignore").write_text("gen dir/\n", encoding="utf-8")
        user.git("add", "--all")
        qwen3(layers=2).without_rope().write(user.folder / "gen dir")
        status, output = user.pre_commit("run")
        assert status == 1, output
        assert "MG101" in output

        shutil.rmtree(user.folder / "gen dir")
        qwen3(layers=2).write(user.folder / "gen dir")
        status, output = user.pre_commit("run")
        assert status == 0, output

    def test_folder_without_artifacts_does_not_pass(self, user: User) -> None:
        user.configure(id="mirage-gate-all")
        status, output = user.pre_commit("run")
        assert status == 1, output
        assert "- exit code: 2" in output

    def test_more_names_than_one_call_takes(self, user: User) -> None:
        """Names that come in four calls, with one defective pair and one pair cut in two."""
        user.configure(id="mirage-gate", args=["-q"])
        clean = qwen3(layers=1).write(user.folder / "clean")
        broken = qwen3(layers=1).without_rope().write(user.folder / "broken")
        long = "/".join("x" * 200 for _ in range(3))
        pairs = 330
        for number in range(pairs):
            folder = user.folder / f"{number:03}" / long
            folder.mkdir(parents=True)
            for file in broken if number == 200 else clean:
                (folder / file.name).hardlink_to(file)
        for folder in (user.folder / "clean", user.folder / "broken"):
            shutil.rmtree(folder)
        user.git("add", "--all")
        status, output = user.pre_commit("run")
        assert status == 1, output
        verdicts = re.findall(r"^mirage-gate: (\w+), .* in (\d+) ranks?", output, re.M)
        assert [word for word, _ in verdicts].count("FAILED") == 1
        assert len(verdicts) >= 3
        # A pair cut in two is audited in both calls; none is left out.
        assert pairs <= sum(int(count) for _, count in verdicts) <= pairs + len(verdicts)
        assert output.count("MG101 unwired-critical-tensor error") == 2

    def test_ranks_that_come_in_two_calls_are_no_gap(self, user: User) -> None:
        """pre-commit sorts names: rank 10 comes before rank 2, which may be in another call."""
        folder = user.folder / "gen"
        for rank in range(3):
            qwen3(layers=1, ranks=4).emit(rank).write(folder)
        qwen3(layers=1, ranks=4).emit(3).write(folder)
        user.configure(id="mirage-gate")
        user.git("add", "--", "gen/kernel_0.cu", "gen/kernel_2.cu")
        status, output = user.pre_commit("run")
        assert status == 0, output
