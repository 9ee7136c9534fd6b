"""The configuration: where it is found, what it may say, and its published schema."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from mirage_gate import config, schema_files
from mirage_gate.cli import cli
from mirage_gate.config import Config, ConfigError, KernelConfig, TaskTypeConfig, WaiverConfig
from mirage_gate.findings import Severity
from tests.command import gate_here
from tests.emitter import qwen3

SCHEMA = json.loads(schema_files.text("config"))
VALIDATOR = jsonschema.Draft202012Validator(
    SCHEMA, format_checker=jsonschema.FormatChecker(["date"])
)

EVERYTHING = """\
paths = ["gen", "other/*.cu"]
output = ["text", "sarif=out/a.sarif", "html"]
critical = ["+freqs"]
ranks = [0, 1]
select = ["MG1", "MG4??"]
ignore = ["MG103"]
fail-on = "warning"
min-severity = "warning"
lock = "wiring.lock.json"
plan = "model.plan"
baseline = "old.json"
builder = ["demo.py"]
locate = "builder"
model-config = "config.json"
layers = [0, 3]
runtime-header = "runtime_header.h"
workers = 96
jobs = 2

[severity]
MG104 = "error"
unused-buffer = "off"

[weights]
path = "model.safetensors.index.json"
names = { "layer_{layer}_wq" = "model.layers.{layer}.self_attn.q_proj.weight" }
absent = ["model.layers.{layer}.self_attn.kv_b_proj.weight"]

[[waivers]]
rule = "MG101"
tensor = "rope_*"
reason = "tables are baked in"
expires = 2026-12-31

[[task-types]]
name = "TASK_MINE"
code = 900
inputs = "r rw@ r?"
outputs = "w"
operator = "x[b,d] g[d] q?[e] -> y[b,d]"
final = true
collective = true

[[kernels]]
function = "mine_impl"
template = "T=T:x,y BATCH=b STRIDE=y.b"
call = "in=x weight=g out=y"
where = "BATCH=b"
"""


def load(folder: Path, text: str, name: str = "mirage-gate.toml") -> Config:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return config.load(path)


def jsonable(table: Any) -> Any:
    return json.loads(json.dumps(table, default=lambda value: value.isoformat()))


def test_everything_that_can_be_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = load(tmp_path, EVERYTHING)
    unset = [field for field in Config.__struct_fields__ if not getattr(found, field)]
    assert unset == []
    assert found.paths == ["gen", "other/*.cu"]
    assert found.waivers == [
        WaiverConfig("MG101", "tables are baked in", "rope_*", date(2026, 12, 31))
    ]
    assert config.severities(found) == ({"MG104": Severity.ERROR}, ("MG103",))
    VALIDATOR.validate(jsonable(config._toml(tmp_path / "mirage-gate.toml")))


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    found = load(tmp_path, EVERYTHING)
    assert found.paths == [str(tmp_path / "gen"), str(tmp_path / "other/*.cu")]
    assert found.output == ["text", f"sarif={tmp_path / 'out/a.sarif'}", "html"]
    assert found.lock == str(tmp_path / "wiring.lock.json")
    assert found.builder == [str(tmp_path / "demo.py")]
    assert load(tmp_path, 'output = ["text=-"]\nlock = "/x"').lock == "/x"


def test_the_nearest_file_is_found_up_to_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "mirage-gate.toml").write_text("", encoding="utf-8")
    assert config.find(deep) == tmp_path / "mirage-gate.toml"
    (repository / ".git").mkdir()
    assert config.find(deep) is None
    project = repository / "pyproject.toml"
    project.write_text("tool = 1", encoding="utf-8")
    assert config.find(deep) is None
    project.write_text("[tool.mirage-gate]\nfail-on = 'note'", encoding="utf-8")
    assert config.find(deep) == project
    assert config.load(project).fail_on == "note"
    own = repository / "a" / "mirage-gate.toml"
    own.write_text("", encoding="utf-8")
    assert config.find(deep) == own


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("critcal = []", "unknown field `critcal`; did you mean `critical`?"),
        ("fail_on = 'error'", "did you mean `fail-on`?"),
        ("FAIL-ON = 'error'", "did you mean `fail-on`?"),
        ("zzz = 1", "there are: paths, output, critical"),
        ("fail-on = 'eror'", "it is one of error, warning, note, never"),
        ("locate = 'here'", "it is one of auto, artifact, builder"),
        ("severity = {MG101 = 'loud'}", "it is one of error, warning, note, off"),
        ("paths = 'gen'", "got `str` - at `$.paths`"),
        ("ranks = [-1]", "`$.ranks[0]`"),
        ("workers = 0", ">= 1"),
        ("[[waivers]]\nrule = 'MG101'", "missing required field `reason`"),
        ("[[waivers]]\nrule = 'MG1'\nreason = 'x'\ntensors = 'y'", "did you mean `tensor`?"),
        ("[[task-types]]\nname = 'T'\ninput = 'r'", "did you mean `inputs`?"),
        ("paths = [", "mirage-gate.toml: "),
        ("paths = ['\x00']", "mirage-gate.toml: "),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert message in str(error.value)
    assert "mirage-gate.toml" in str(error.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("MG1O1", "'MG1O1' is no rule; did you mean"),
        ("unwired-critcal-tensor", "did you mean `unwired-critical-tensor`?"),
        ("zzz", "`mirage-gate explain` lists the rules"),
    ],
)
def test_a_wrong_rule_in_severity(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match="severity: ") as error:
        config.severities(Config(severity={key: "off"}))
    assert message in str(error.value)


# --- The schema ------------------------------------------------------------------------


def properties(struct: Any) -> dict[str, bool]:
    """Each key of a struct, and whether it must be there."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(struct)}


@pytest.mark.parametrize(
    ("struct", "at"),
    [
        (Config, SCHEMA),
        (WaiverConfig, SCHEMA["properties"]["waivers"]["items"]),
        (TaskTypeConfig, SCHEMA["properties"]["task-types"]["items"]),
        (KernelConfig, SCHEMA["properties"]["kernels"]["items"]),
    ],
)
def test_the_schema_has_the_same_keys(struct: Any, at: dict[str, Any]) -> None:
    assert list(properties(struct)) == list(at["properties"]) or set(properties(struct)) == set(
        at["properties"]
    )
    assert {key for key, needed in properties(struct).items() if needed} == set(
        at.get("required", [])
    )
    assert at["additionalProperties"] is False
    assert (
        all("description" in value for value in at["properties"].values()) or struct is not Config
    )


VALUES: tuple[Any, ...] = (
    *("", "gen", "error", "warning", "note", "never", "off", "auto", "builder", "2026-12-31"),
    *(0, 1, -1, 96, 1.5, True, False),
    *([], [""], ["a", "b"], [0], [0, 1], [-1], [1.5], [None], [[]], [True]),
    *({}, {"MG101": "off"}, {"MG101": "error"}, {"MG101": "never"}, {"x": 1}, [{}]),
    *([{"name": "T"}], [{"name": "T", "code": 3, "inputs": "r"}], [{"name": 1}], [{"nam": "T"}]),
    *([{"rule": "MG1", "reason": "r"}], [{"rule": "MG1"}], [{"rule": "a", "reason": "b", "x": 1}]),
    [{"rule": "a", "reason": "b", "tensor": "c", "expires": "2026-01-01"}],
    [{"rule": "a", "reason": "b", "expires": "soon"}],
    *([{"name": "T", "final": True, "collective": False}], [{"name": "T", "final": 1}]),
)


@pytest.mark.parametrize("key", [*properties(Config), "unknown", "fail_on"])
def test_the_schema_and_the_program_agree(key: str) -> None:
    for value in VALUES:
        table = {key: value}
        try:
            msgspec.convert(table, Config)
            accepted = True
        except msgspec.ValidationError:
            accepted = False
        assert VALIDATOR.is_valid(table) == accepted, table


# --- Precedence ------------------------------------------------------------------------


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    qwen3(layers=2).without_rope().write(tmp_path / "gen")
    settings = tmp_path / "mirage-gate.toml"
    settings.write_text('paths = ["gen"]\nfail-on = "never"\n', encoding="utf-8")

    def check(*options: str, cwd: Path = tmp_path) -> tuple[int, str]:
        done = gate_here("check", *options, cwd=cwd)
        return done.returncode, done.stdout

    assert check()[0] == 0
    assert check("--fail-on=error")[0] == 1
    below = tmp_path / "below"
    below.mkdir()
    assert check(cwd=below)[0] == 0
    settings.write_text(
        'paths = ["gen"]\noutput = ["text", "json=out.json"]\n[severity]\nMG101 = "off"\n',
        encoding="utf-8",
    )
    status, told = check("-v")
    assert told.count("MG101") == told.count("MG101 ignored") == 1
    assert (tmp_path / "out.json").is_file()
    os.remove(tmp_path / "out.json")  # noqa: PTH107
    status, told = check("-o", "github")
    assert not (tmp_path / "out.json").exists()
    settings.write_text('[severity]\nMG1O1 = "off"\n', encoding="utf-8")
    status, told = check("gen")
    assert status == 2
    assert "did you mean `MG" in told


@pytest.mark.parametrize("key", ["lock", "plan", "baseline", "runtime-header", "model-config"])
def test_a_zero_byte_in_a_path_is_said(tmp_path: Path, key: str) -> None:
    qwen3(1).write(tmp_path / "a")
    (tmp_path / "mirage-gate.toml").write_text(f'{key} = "a\\u0000b"\n')
    arguments = ["check", str(tmp_path / "a"), "--config", str(tmp_path / "mirage-gate.toml")]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert "holds a zero byte" in done.output


def test_a_zero_byte_in_the_path_of_a_report_is_said(tmp_path: Path) -> None:
    qwen3(1).write(tmp_path / "a")
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "a"), "-o", "json=a\0b"])
    assert done.exit_code != 0
    assert "holds a zero byte" in done.output
