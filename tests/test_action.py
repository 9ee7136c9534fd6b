"""The GitHub action: its steps run here as the runner would run them."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from mirage_gate import __version__
from tests.emitter import qwen3
from tests.scratch import ROOT, SourceTree, clean_environment, run
from tests.test_report_github import Command, commands

if TYPE_CHECKING:
    from collections.abc import Callable

    Gate = Callable[..., "Job"]

ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = sorted(
    path
    for folder in (ROOT / "scripts", ROOT / ".ci")
    if folder.is_dir()
    for path in folder.iterdir()
    if path.is_file() and path.suffix != ".py"
)


def load(path: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load(path.read_text(encoding="utf-8")))


def action_steps() -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", load(ACTION)["runs"]["steps"])


def tool(name: str) -> str:
    """A program of the development extras, beside the Python that runs this."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"{name} is not installed: pip install -e '.[dev]'"
    return found


@dataclass
class Job:
    """What a runner keeps while it goes through the action's steps.

    Knows just the expressions that action.yml uses, and refuses any other.
    """

    workspace: Path
    temporary: Path
    action_path: Path
    inputs: dict[str, str]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    uploads: list[dict[str, str]] = field(default_factory=list)
    log: str = ""
    failed: bool = False
    upload_fails: bool = False
    fork: bool = False

    def value(self, expression: str) -> str:
        match expression.strip().split("."):
            case ["inputs", name]:
                return self.inputs[name]
            case ["steps", step, "outputs", name]:
                return self.outputs.get(step, {}).get(name, "")
        raise AssertionError(f"the test knows no expression {expression!r}")

    def filled(self, text: object) -> str:
        """A `with` or `env` value after the runner put its expressions in."""
        return re.sub(r"\$\{\{(.+?)\}\}", lambda match: self.value(match[1]), str(text))

    def wanted(self, condition: str) -> bool:
        """Whether a step's ``if`` holds; after a failure only ``always()`` lets one run."""
        terms = condition.split(" && ")
        if self.failed and "always()" not in terms:
            return False
        return all(self.holds(term) for term in terms)

    def holds(self, term: str) -> bool:
        if term in {"success()", "always()"}:
            return True
        comparison = re.fullmatch(r"(\S+) ([!=]=) '([^']*)'", term)
        assert comparison, f"the test knows no condition {term!r}"
        same = self.value(comparison[1]).lower() == comparison[3].lower()
        return same == (comparison[2] == "==")

    def run(self, steps: list[dict[str, Any]]) -> Job:
        for step in steps:
            if not self.wanted(step.get("if", "success()")):
                continue
            if "run" in step:
                self.run_script(step)
            elif step["uses"].startswith("actions/setup-python@"):
                self.outputs[step["id"]] = {"python-path": sys.executable}
            else:
                assert step["uses"].startswith("github/codeql-action/upload-sarif@")
                self.uploads.append({k: self.filled(v) for k, v in step["with"].items()})
                fork = step["continue-on-error"]
                assert fork == "${{ github.event.pull_request.head.repo.fork == true }}"
                self.failed = self.failed or (self.upload_fails and not self.fork)
        return self

    def run_script(self, step: dict[str, Any]) -> None:
        assert step["shell"] == "bash"
        script = self.temporary / "script.sh"
        script.write_text(step["run"], encoding="utf-8")
        output = self.temporary / "output"
        output.write_text("", encoding="utf-8")
        env = {name: self.filled(value) for name, value in step.get("env", {}).items()}
        done = run(
            *("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script),
            cwd=self.workspace,
            env=clean_environment(
                GITHUB_ACTION_PATH=str(self.action_path),
                GITHUB_OUTPUT=str(output),
                GITHUB_STEP_SUMMARY=str(self.temporary / "summary"),
                GITHUB_WORKSPACE=str(self.workspace),
                RUNNER_TEMP=str(self.temporary),
                **env,
            ),
        )
        self.log += done.stdout
        self.failed = self.failed or done.returncode != 0
        if "id" in step:
            lines = output.read_text(encoding="utf-8").splitlines()
            pairs = [line.split("=", 1) for line in lines]
            assert len({name for name, _ in pairs}) == len(pairs), "an output was set twice"
            self.outputs[step["id"]] = dict(pairs)

    @property
    def summary(self) -> str:
        """What the summary page shows; nothing if no step wrote to it."""
        page = self.temporary / "summary"
        return page.read_text(encoding="utf-8") if page.exists() else ""

    @property
    def commands(self) -> list[Command]:
        """The workflow commands that the runner took from the log."""
        return commands(self.log)

    @property
    def results(self) -> dict[str, str]:
        """The action's own outputs, as its user sees them."""
        declared = load(ACTION)["outputs"].items()
        return {name: self.filled(output["value"]) for name, output in declared}


def defaults() -> dict[str, str]:
    return {name: given["default"] for name, given in load(ACTION)["inputs"].items()}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, source_tree: SourceTree) -> str:
    """Where the action's first steps installed the gate: done once, used by every test."""
    temporary = tmp_path_factory.mktemp("runner temp")
    job = Job(temporary, temporary, source_tree.folder, defaults())
    job.run(action_steps()[:2])
    assert not job.failed, job.log
    return job.outputs["install"]["home"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work space"
    folder.mkdir()
    return folder


@pytest.fixture
def gate(workspace: Path, home: str, tmp_path: Path, source_tree: SourceTree) -> Gate:
    """Run the steps after the installation with some inputs: ``gate(paths="gen")``."""

    def run_gate(upload_fails: bool = False, fork: bool = False, **inputs: str) -> Job:
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert given.keys() <= defaults().keys()
        job = Job(workspace, tmp_path, source_tree.folder, defaults() | given)
        job.upload_fails, job.fork = upload_fails, fork
        job.outputs["install"] = {"home": home}
        return job.run(action_steps()[2:])

    return run_gate


@pytest.mark.slow
class TestSteps:
    def test_clean_pair_passes(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).write(workspace / "gen")
        job = gate(paths="gen")
        assert not job.failed, job.log
        assert job.results["exit-code"] == "0"
        assert job.uploads == []

    def test_defective_pair_fails(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).without_rope().write(workspace / "gen")
        job = gate(paths="gen")
        assert job.failed
        assert job.results["exit-code"] == "1"
        assert int(job.results["findings"]) >= 1
        assert Path(job.results["sarif-file"]).is_file()
        assert "MG101" in job.log

    def test_upload_comes_before_the_verdict(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).without_rope().write(workspace / "gen")
        job = gate(paths="gen", upload_sarif="true", category="mpk")
        assert job.failed
        assert job.uploads == [{"sarif_file": job.results["sarif-file"], "category": "mpk"}]

    def test_clean_run_is_uploaded_too(self, gate: Gate, workspace: Path) -> None:
        """It closes the alerts of the findings that were fixed."""
        qwen3(layers=2).write(workspace / "gen")
        job = gate(paths="gen", upload_sarif="true")
        assert not job.failed, job.log
        assert len(job.uploads) == 1

    def test_nothing_audited_fails_and_closes_no_alert(self, gate: Gate) -> None:
        job = gate(upload_sarif="true")
        assert job.failed
        assert job.results["exit-code"] == "2"
        assert job.results["findings"] == "0"
        assert job.uploads == []

    def test_a_builder_that_is_run_without_a_gpu(self, gate: Gate, workspace: Path) -> None:
        """As far as this goes without MPK's sources; each line is an argument as it stands."""
        (workspace / "demo.py").write_text("", encoding="utf-8")
        job = gate(run="demo.py\n--prompt\n$(touch ran) `touch ran`; touch ran\n", paths="gen")
        assert job.results["exit-code"] == "2", job.log
        assert "name a checkout with --mirage DIR" in job.log
        assert "is neither" not in job.log
        assert not (workspace / "ran").exists()
        job = gate(run="demo.py", mirage="none", gpu="b200", world_size="2")
        assert job.results["exit-code"] == "2"
        assert "--mirage none: no such folder" in job.log
        assert gate(run="demo.py", world_size="$(touch ran)").results["exit-code"] == "2"
        assert not (workspace / "ran").exists()

    def test_fail_on_never(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).without_rope().write(workspace / "gen")
        job = gate(paths="gen", fail_on="never")
        assert not job.failed, job.log
        assert job.results["exit-code"] == "0"
        assert int(job.results["findings"]) >= 1

    def test_several_paths(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).write(workspace / "one")
        qwen3(layers=2).without_rope().write(workspace / "the other")
        assert not gate(paths="one").failed
        for paths in ("one\nthe other\n", "\n  \r\none\r\n\r\nthe other", "*/*.json"):
            job = gate(paths=paths)
            assert job.results["exit-code"] == "1", job.log

    def test_working_directory(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).write(workspace / "-model")
        for folder in ("-model", str(workspace / "-model")):
            job = gate(working_directory=folder)
            assert not job.failed, job.log

    @pytest.mark.parametrize("folder", ["absent", "-", "--", "$HOME"])
    def test_working_directory_that_is_none(self, gate: Gate, workspace: Path, folder: str) -> None:
        qwen3(layers=2).write(workspace)
        job = gate(working_directory=folder, upload_sarif="true")
        assert job.failed
        assert job.results == {
            "sarif-file": "",
            "exit-code": "2",
            "findings": "0",
            "errors": "0",
        }
        assert job.uploads == []

    def test_internal_error_uploads_nothing(self, gate: Gate, workspace: Path, home: str) -> None:
        """A stand-in for the gate writes its file, and then dies."""
        broken = workspace / "home"
        (broken / "venv" / "bin").mkdir(parents=True)
        python = broken / "venv" / "bin" / "python"
        python.write_text(
            "#!/bin/sh\n"
            'case " $* " in\n'
            f'  *" -c "* | *" - "*) exec "{home}/venv/bin/python" "$@" ;;\n'
            "esac\n"
            "for word; do\n"
            '  case $word in sarif=*) echo \'{"runs": []}\' > "${word#sarif=}" ;; esac\n'
            "done\n"
            "exit 3\n",
            encoding="utf-8",
        )
        python.chmod(0o755)
        job = Job(workspace, workspace, workspace, defaults() | {"upload-sarif": "true"})
        job.outputs["install"] = {"home": str(broken)}
        job.run(action_steps()[2:])
        assert job.failed
        assert job.results["exit-code"] == "3"
        assert job.uploads == []

    @pytest.mark.parametrize("annotations", ["true", "false"])
    def test_what_the_gate_prints_is_fenced_off(
        self, gate: Gate, workspace: Path, annotations: str
    ) -> None:
        """No name out of an artifact can give the runner a command."""
        qwen3(layers=2).without_rope().write(workspace / "gen")
        fences = set()
        for _ in range(2):
            job = gate(paths="gen", annotations=annotations)
            opening = re.match(r"::stop-commands::([0-9a-f]{32})\n", job.log)
            assert opening
            assert f"\n::{opening[1]}::\n" in job.log
            fences.add(opening[1])
            told = {command.name for command in job.commands}
            assert told == ({"error", "notice"} if annotations == "true" else {"error"})
        assert len(fences) == 2

    def test_annotations_and_summary(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).without_rope().write(workspace / "gen")
        job = gate(paths="gen")
        errors = [command for command in job.commands if command.name == "error"]
        assert len(errors) == 3
        assert errors[-1].message == "mirage-gate: failed, 2 errors, 7 notes"
        assert "file" not in errors[-1].properties
        assert errors[0].properties["file"] == "gen/kernel_0.cu"
        assert job.results["errors"] == "2"
        assert job.log.count("[MISSING-WIRING] cos_position_embedding") == 1
        assert "mirage-gate: failed" in job.summary
        assert "`cos_position_embedding`" in job.summary

    @pytest.mark.parametrize(
        ("inputs", "status", "says"),
        [
            ({"paths": "absent"}, "2", "nothing is proven: Error: no artifacts found in absent"),
            ({"fail_on": "sometimes"}, "2", "Invalid value for '--fail-on'"),
            ({"working_directory": "absent"}, "2", "No such file or directory"),
            ({"paths": "half"}, "2", "Rank 0 was not audited: kernel_0.cu has no partner"),
        ],
    )
    def test_a_failing_step_says_why(
        self, gate: Gate, workspace: Path, inputs: dict[str, str], status: str, says: str
    ) -> None:
        qwen3(1).write(workspace / "half")
        (workspace / "half" / "task_graph_0.json").unlink()
        job = gate(**inputs)
        assert job.results["exit-code"] == status
        last = job.commands[-1]
        assert last.name == "error"
        assert last.properties["title"] == "mirage-gate"
        assert says in last.message
        assert "mirage-gate: no" in job.summary  # no verdict, or nothing audited

    def test_a_passing_step_says_so_too(self, gate: Gate, workspace: Path) -> None:
        qwen3(1).write(workspace / "gen")
        job = gate(paths="gen")
        assert job.log.rstrip().endswith("mirage-gate: passed")
        assert not [command for command in job.commands if command.name == "error"]

    def test_findings_are_counted_as_everywhere(self, gate: Gate, workspace: Path) -> None:
        qwen3(2, ranks=4).without_rope().write(workspace / "gen")
        job = gate(paths="gen")
        assert job.results["errors"] == "2"
        assert "mirage-gate: failed, 2 errors" in job.commands[-1].message

    def test_python_that_breaks_is_no_finding(
        self, gate: Gate, workspace: Path, home: str, tmp_path: Path
    ) -> None:
        """Python's own status for an import that fails is 1, which would mean findings."""
        qwen3(1).write(workspace / "gen")
        broken = tmp_path / "broken"
        (broken / "venv" / "bin").mkdir(parents=True)
        python = broken / "venv" / "bin" / "python"
        python.write_text(
            "#!/bin/sh\n"
            'case " $* " in\n'
            f'  *" -m mirage_gate "*) exec "{home}/venv/bin/python" -I -c "import gone" ;;\n'
            f'  *) exec "{home}/venv/bin/python" "$@" ;;\n'
            "esac\n",
            encoding="utf-8",
        )
        python.chmod(0o755)
        job = Job(workspace, tmp_path, workspace, defaults() | {"paths": "gen"})
        job.outputs["install"] = {"home": str(broken)}
        job.run(action_steps()[2:])
        assert job.results["exit-code"] == "3"
        assert job.uploads == []
        assert "broke with status 3: ModuleNotFoundError: No module" in job.commands[-1].message
        assert "mirage-gate: no verdict" in job.summary

    def test_pip_settings_of_the_job(
        self, workspace: Path, tmp_path: Path, source_tree: SourceTree, monkeypatch: Any
    ) -> None:
        """Where packages come from stays the job's to say; where they go to does not."""
        settings = {
            "PIP_USER": "1",
            "PIP_TARGET": str(tmp_path / "elsewhere"),
            "PIP_PREFIX": str(tmp_path / "prefix"),
            "PIP_ROOT": str(tmp_path / "root"),
            "PIP_REQUIRE_HASHES": "1",
            "PIP_NO_DEPS": "1",
            "PIP_DRY_RUN": "1",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        job = Job(workspace, tmp_path, source_tree.folder, defaults())
        job.run(action_steps()[:2])
        assert not job.failed, job.log
        assert not (tmp_path / "elsewhere").exists()
        qwen3(1).write(workspace)
        job.run(action_steps()[2:])
        assert job.results["exit-code"] == "0", job.log

    def test_an_installation_that_fails_says_so(
        self, workspace: Path, tmp_path: Path, source_tree: SourceTree, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        job = Job(workspace, tmp_path, source_tree.folder, defaults())
        job.run(action_steps())
        assert job.failed
        assert job.results["exit-code"] == ""
        (error,) = job.commands
        assert error.message.startswith("mirage-gate: it could not be installed")
        assert "mirage-gate: no verdict" in job.summary

    def test_neither_if_not_wanted(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).without_rope().write(workspace / "gen")
        job = gate(paths="gen", annotations="false", summary="false")
        (verdict,) = job.commands
        assert verdict.message == "mirage-gate: failed, 2 errors, 7 notes"
        assert job.summary == ""
        assert "[MISSING-WIRING] cos_position_embedding" in job.log

    def test_page(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).write(workspace / "gen")
        job = gate(paths="gen", html="a page.html")
        assert not job.failed, job.log
        assert "Wiring map" in (workspace / "a page.html").read_text(encoding="utf-8")

    def test_builder(self, gate: Gate, workspace: Path) -> None:
        """Artifacts that git does not track are not in the pull request; the builder is."""
        qwen3(layers=2).without_rope().write(workspace / "gen")
        text = "mpk.attach_input(\n    cos, name='cos_position_embedding')\n"
        (workspace / "my demo.py").write_text(text, encoding="utf-8")
        (workspace / "other.py").write_text("", encoding="utf-8")
        job = gate(paths="gen", builder="\nother.py\r\nmy demo.py\n")
        places = [(c.properties.get("file"), c.properties.get("line")) for c in job.commands]
        assert ("my demo.py", "1") in places

    def test_baseline_and_lock(self, gate: Gate, workspace: Path, home: str) -> None:
        python = f"{home}/venv/bin/python"
        qwen3(layers=2).write(workspace / "gen")
        done = run(python, "-m", "mirage_gate", "lock", "gen", "-o", "a.lock", cwd=workspace)
        assert done.returncode == 0, done.stdout
        assert not gate(paths="gen", lock="a.lock").failed
        qwen3(layers=2).without_rope().write(workspace / "gen")
        assert "MG801" in gate(paths="gen", lock="a.lock").log
        run(python, "-m", "mirage_gate", "check", "gen", "-o", "json=old.json", cwd=workspace)
        job = gate(paths="gen", baseline="old.json")
        assert not job.failed, job.log
        assert job.results["errors"] == "0"

    def test_upload_that_a_fork_may_not_do(self, gate: Gate, workspace: Path) -> None:
        qwen3(layers=2).write(workspace / "gen")
        assert gate(paths="gen", upload_sarif="true", upload_fails=True).failed
        job = gate(paths="gen", upload_sarif="true", upload_fails=True, fork=True)
        assert not job.failed
        assert "mirage-gate: passed" in job.summary

    def test_repository_cannot_replace_the_gates_modules(self, gate: Gate, workspace: Path) -> None:
        for module in ("click", "json", "mirage_gate", "msgspec", "secrets"):
            (workspace / f"{module}.py").write_text("raise SystemExit(0)", encoding="utf-8")
        qwen3(layers=2).without_rope().write(workspace / "gen")
        assert gate(paths="gen").results["exit-code"] == "1"

    HOSTILE = (
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned #",
        '" && touch pwned && "',
        "'; touch pwned; '",
        "x\ntouch pwned\nexit-code=0",
        "x\nEOF\ntouch pwned\n",
        "--help",
        "--version",
        "-",
        "* ? [a-z] {a,b} ~",
        "$HOME/\\\t%s%n",
        "${{ github.token }}",
    )

    def test_hostile_inputs_do_nothing(self, gate: Gate, workspace: Path, tmp_path: Path) -> None:
        qwen3(layers=2).without_rope().write(workspace)
        texts = (
            *("paths", "ranks", "critical", "config", "fail_on", "select", "ignore", "lock"),
            *("baseline", "model_config", "weights", "builder", "annotations", "summary", "html"),
        )
        everywhere = (*texts, "working_directory")
        for number, hostile in enumerate(self.HOSTILE):
            # In all inputs at once, and in one alone, which the others cannot hide.
            alone = texts[number % len(texts)]
            for inputs in (dict.fromkeys(everywhere, hostile), {alone: hostile}):
                job = gate(**inputs)
                assert job.failed, f"{inputs} let a defective pair pass:\n{job.log}"
                assert job.results["exit-code"] in {"1", "2"}, job.log
        assert list(tmp_path.rglob("*pwned*")) == []


def test_uploads_nothing_unless_asked() -> None:
    assert defaults()["upload-sarif"] == "false"


def scripts_in(node: object) -> list[str]:
    """Every ``run`` of a workflow or an action."""
    if isinstance(node, dict):
        own = [node["run"]] if isinstance(node.get("run"), str) else []
        return own + [script for value in node.values() for script in scripts_in(value)]
    if isinstance(node, list):
        return [script for value in node for script in scripts_in(value)]
    return []


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
class TestFiles:
    def test_no_expression_in_a_script(self, path: Path) -> None:
        scripts = scripts_in(load(path))
        assert scripts
        assert not [script for script in scripts if "${{" in script]

    def test_every_action_is_pinned(self, path: Path) -> None:
        used = re.findall(r"^\s*(?:- )?uses: (.*)$", path.read_text(encoding="utf-8"), re.M)
        assert used
        for action in used:
            if not action.startswith("./ "):
                assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)


def test_every_input_is_used_and_none_is_unknown() -> None:
    text = ACTION.read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == defaults().keys()


def test_zizmor_finds_nothing() -> None:
    done = run(
        *(tool("zizmor"), "--offline", "--no-progress", "--quiet"),
        *(ACTION, ROOT / ".github", ROOT / ".pre-commit-hooks.yaml"),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_on_scripts(path: Path) -> None:
    done = run(tool("shellcheck"), path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("tag", "heading", "says"),
    [
        ("v{}", "## [{}] - 2026-12-24", ""),
        ("v9.9.9", "## [{}] - 2026-12-24", "is not v{}"),
        ("{}", "## [{}] - 2026-12-24", "is not v{}"),
        ("v{}", "## [Unreleased] - {}", "has no heading"),
    ],
)
def test_only_a_tag_of_the_version_is_released(
    tmp_path: Path, tag: str, heading: str, says: str
) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "check-tag", tmp_path / "scripts")
    (tmp_path / "mirage_gate").mkdir()
    shutil.copy(ROOT / "mirage_gate" / "__init__.py", tmp_path / "mirage_gate")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading.format(__version__)}\n")
    done = run("sh", "scripts/check-tag", tag.format(__version__), cwd=tmp_path)
    assert done.returncode == (1 if says else 0)
    assert says.format(__version__) in done.stdout


def test_a_release_publishes_what_was_built_and_attested() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    needs = {name: job.get("needs") for name, job in jobs.items()}
    assert needs == {"build": None, "attest": "build", "publish": "attest", "release": "publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "scripts/check-tag" in str(jobs["build"]["steps"])
    assert "password" not in str(jobs["publish"])


def test_the_container_takes_what_the_package_is_made_of(tmp_path: Path) -> None:
    """What the Dockerfile copies is there, is not ignored, and installs."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    sources = [name for words in copied for name in words[:-1] if words[0][:2] != "--"]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert sources
    for name in sources:
        assert (ROOT / name).exists()
        assert f"!{name}" in kept
    for name in sources:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    build = ("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", "out", ".")
    done = run(sys.executable, *build, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "out").glob("mirage_gate-*.whl"))


def test_shellcheck_on_the_actions_steps(tmp_path: Path) -> None:
    for number, script in enumerate(scripts_in(load(ACTION))):
        file = tmp_path / f"{number}.sh"
        file.write_text(script, encoding="utf-8")
        done = run(tool("shellcheck"), "--shell=bash", file)
        assert done.returncode == 0, done.stdout
