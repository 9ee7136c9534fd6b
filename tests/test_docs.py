"""The documentation, held to the program."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from mirage_gate import __url__, config
from mirage_gate.cli import cli
from mirage_gate.commands.check import command as check
from mirage_gate.reports import format_names
from mirage_gate.rules import all_rules
from scripts import rules_page
from tests.command import complete, gate_here
from tests.scratch import ROOT, clean_environment, run
from tests.test_action import TestFiles, action_steps, defaults, load, tool

PAGES = [
    path
    for path in (*sorted(ROOT.glob("[!.]*.md")), *sorted((ROOT / "docs").glob("*.md")))
    if path.is_file()
]
SKILL = ROOT / "skills" / "mirage-graph-coverage" / "SKILL.md"
WORKFLOW = ROOT / "examples" / "workflows" / "megakernel.yml"


def blocks(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def sessions(path: Path) -> list[tuple[str, list[str]]]:
    """Each ``$ command`` of the console blocks, and the output shown for it."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(path, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


CONSOLE = [
    pytest.param(command, output, id=f"{path.name}: {command}")
    for path in [*PAGES, SKILL]
    for command, output in sessions(path)
]


@pytest.mark.parametrize(("command", "shown"), CONSOLE)
def test_what_is_shown_is_what_is_printed(command: str, shown: list[str]) -> None:
    """The lines shown are all that the command prints; ``...`` stands for any."""
    program, *arguments = shlex.split(command)
    assert program == "mirage-gate"
    done = gate_here(*arguments, cwd=ROOT, apart=True, env={"COLUMNS": "80"})
    assert done.returncode in (0, 1), done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    for line in map(str.rstrip, shown):
        if line == "...":
            continue
        assert line in printed, f"{line!r} is not printed:\n{done.stdout}"
        at = printed.index(line)
        assert at == 0 or "..." in shown, f"{printed[:at]} is printed before {line!r}"
        del printed[: at + 1]
    rest = [line for line in printed if line]
    assert not rest or "..." in shown, f"{rest} is printed and not shown"


def test_the_rules_page_is_up_to_date() -> None:
    current = rules_page.PAGE.read_text(encoding="utf-8")
    assert current == rules_page.page(), "run python scripts/rules_page.py"
    anchors = re.findall(r"^## (\w+)$", current, re.M)
    assert anchors == [rule.id for rule in all_rules()]


@pytest.mark.parametrize("path", [*PAGES, SKILL], ids=lambda path: path.name)
class TestEveryPage:
    def test_links_lead_somewhere(self, path: Path) -> None:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"https?://", target):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            assert there.exists(), f"{target} in {path.name}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M)
                assert anchor in {
                    re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings
                }

    def test_options_and_rules_exist(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        context = cli.make_context("mirage-gate", [], resilient_parsing=True)
        options = {"--version", "--help"}
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command
            options |= {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        foreign = {"--all-files", "--hook-stage", "--output-dir", "--nproc-per-node"}
        foreign |= {"--model-path", "--all"}  # a builder's, and scripts/test's
        foreign |= {"--use-mirage", "--model", "--tp"}  # a builder's
        text = re.sub(r".*(benchmarks/|-m tests\.).*", "", text)  # these have options of their own
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
            assert option in options | foreign, f"{option} in {path.name}"
        ids = {rule.id for rule in all_rules()}
        for rule in re.findall(r"\bMG\d\d\d\b", text):
            assert rule in ids, f"{rule} in {path.name}"

    def test_lines_are_not_too_long_and_say_nothing_of_a_machine(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(?:work|tmp|root|home)/", text)
        assert "\t" not in text
        assert text.endswith("\n")


def test_what_is_slow_is_left_to_ci_and_run_there() -> None:
    ours = [".github/workflows/ci.yml", ".github/workflows/release.yml", ".ci/run"]
    for name in ours:
        path = ROOT / name
        if path.exists() or name != ".ci/run":  # no part of a source archive
            commands = re.findall(r"sh scripts/test\b.*", path.read_text(encoding="utf-8"))
            assert set(commands) == {"sh scripts/test --all"}, name
    assert "set -- -m '' \"$@\"" in (ROOT / "scripts" / "test").read_text(encoding="utf-8")


def test_toml_examples_are_valid(tmp_path: Path) -> None:
    examples = [block for path in PAGES for block in blocks(path, "toml") if "=" in block]
    assert len(examples) >= 2
    for example in examples:
        path = tmp_path / "mirage-gate.toml"
        path.write_text(example, encoding="utf-8")
        config.severities(config.load(path))


def test_configuration_page_has_every_key() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for key in config.Config.__struct_encode_fields__:
        assert f"`{key}`" in text, key


def test_action_page_has_every_input_and_output() -> None:
    text = (ROOT / "docs" / "action.md").read_text(encoding="utf-8")
    outputs = load(ROOT / "action.yml")["outputs"]
    for name in (*defaults(), *outputs):
        assert f"`{name}`" in text, name
    assert action_steps()


def test_reports_page_has_every_format() -> None:
    text = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    for name in format_names():
        assert f"| `{name}` |" in text, name


def test_python_examples_compile() -> None:
    for path in PAGES:
        for number, block in enumerate(blocks(path, "python")):
            compile(block, f"{path.name}:{number}", "exec")


@pytest.mark.parametrize("name", ["emit.yml", "megakernel.yml", "ranks.yml"])
def test_example_workflow(name: str) -> None:
    path = WORKFLOW.parent / name
    workflow = cast("dict[str, Any]", yaml.safe_load(path.read_text(encoding="utf-8")))
    used = [step for job in workflow["jobs"].values() for step in job["steps"] if "with" in step]
    for step in used:
        if step["uses"].startswith("mirage-gate/mirage-gate@"):
            assert step["with"].keys() <= defaults().keys()
    TestFiles().test_no_expression_in_a_script(path)
    done = run(tool("zizmor"), "--offline", "--no-progress", "--quiet", path, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def commands_in(node: object) -> list[str]:
    """Every line of a pipeline that calls the gate."""
    if isinstance(node, dict):
        return [line for value in node.values() for line in commands_in(value)]
    if isinstance(node, list):
        return [line for value in node for line in commands_in(value)]
    lines = node.splitlines() if isinstance(node, str) else []
    return [line.strip() for line in lines if line.strip().startswith("mirage-gate ")]


@pytest.mark.parametrize("path", sorted(WORKFLOW.parent.iterdir()), ids=lambda path: path.name)
def test_example_pipelines_call_what_there_is(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = {*pipeline, *pipeline.get("jobs", ())}
    uses = re.findall(r"uses: mirage-gate/mirage-gate@", path.read_text(encoding="utf-8"))
    # nvcc, where there is one, waits for the gate; a hosted runner has none.
    assert {"emit", "build"} <= jobs or "self-hosted" not in path.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for file in ("demo.py", "config.json"):
        (tmp_path / file).write_text("{}", encoding="utf-8")
    lines = commands_in(pipeline)
    assert lines or uses
    for line in lines:
        program, *arguments = shlex.split(re.sub(r"\$\w+", "3", line))
        group = cli.make_context(program, arguments)
        name, command, rest = cli.resolve_command(group, arguments)
        assert command
        command.make_context(name, rest, parent=group)


def test_skill_has_its_head() -> None:
    text = SKILL.read_text(encoding="utf-8")
    head = cast("dict[str, str]", yaml.safe_load(text.split("---\n")[1]))
    assert head["name"] == SKILL.parent.name
    assert 50 < len(head["description"]) < 1_024
    assert len(text.splitlines()) < 200


# --- The command line's own words --------------------------------------------------------


def offered(line: str) -> list[str]:
    return complete(*line.split(" "), of="bash")


def test_the_shell_completes() -> None:
    assert {"check", "explain", "show"} <= set(offered("mirage-gate "))
    assert "--locate" in offered("mirage-gate check --lo")
    assert offered("mirage-gate check -o s") == ["sarif", "summary"]
    assert offered("mirage-gate explain mg80") == ["MG801", "MG802", "MG803", "MG804"]
    assert "report" in offered("mirage-gate schema ")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [sys.executable, "-m", "mirage_gate"],
            env=clean_environment(PYTHONPATH=str(ROOT), _MIRAGE_GATE_COMPLETE=f"{shell}_source"),
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert "mirage-gate" in done.stdout
        assert done.returncode == 0


def test_help_lists_every_format() -> None:
    context = check.make_context("check", ["x"], resilient_parsing=True)
    text = check.get_help(context)
    for name in format_names():
        assert re.search(rf"^  {name}\s", text, re.M)


def test_schemas_are_published_under_their_names() -> None:
    raw = f"{__url__.replace('github.com', 'raw.githubusercontent.com')}/main/schemas"
    for path in (ROOT / "schemas").glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        assert schema["$id"] == f"{raw}/{path.name}", "where SchemaStore and editors fetch it"
    (entry,) = map(json.loads, blocks(ROOT / "docs" / "configuration.md", "json"))
    assert entry["url"] == f"{raw}/config.schema.json"
    assert entry.keys() == {"name", "description", "fileMatch", "url"}
