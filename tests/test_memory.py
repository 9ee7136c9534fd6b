"""Memory: locks, diffs, waivers, baselines."""

from __future__ import annotations

import difflib
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from mirage_gate import Selection, schema_files
from mirage_gate.agreed import baseline, lock
from mirage_gate.agreed.baseline import Baseline, fingerprint, normal
from mirage_gate.agreed.lock import Lock, Locked
from mirage_gate.agreed.memory import Memory
from mirage_gate.agreed.waivers import Waiver
from mirage_gate.artifacts import pairs
from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.auditing.ranks import check
from mirage_gate.cli import cli
from mirage_gate.findings import Finding
from mirage_gate.report import Report
from tests.command import invoke
from tests.emitter import Model, deepseek_v3, qwen3
from tests.findings import at, finding

MEMORY = Selection(select=("MG8",))


def lock_of(folder: Path, model: Model) -> Lock:
    model.write(folder)
    return Lock.of(check(pairs.find([str(folder)]), selection=MEMORY, summarize=True).summaries)


def held(folder: Path, model: Model, to: Locked) -> tuple[Finding, ...]:
    """What is said of a model that is held to a lock."""
    model.write(folder)
    report = check(pairs.find([str(folder)]), selection=MEMORY, memory=Memory(lock=to))
    assert not report.failed_ranks
    return report.findings


# -- The lock ----------------------------------------------------------------------------------


def test_a_lock_holds_to_its_schema_and_reads_back(tmp_path: Path) -> None:
    written = lock_of(tmp_path, qwen3(3, ranks=4, collective="allgather"))
    schema = json.loads(schema_files.text("lock"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(written.text()))
    read = lock.decode(written.text().encode(), "x")
    assert read.lock == written
    text = written.text().split("\n")
    for name, line in read.lines.items():
        assert text[line - 1].startswith(f'    "{name}": ')
    assert set(read.lines) == set(written.tensors)
    assert list(written.tensors) == sorted(written.tensors)
    assert "nullptr" not in written.tensors


def test_ranks_that_are_alike_cost_nothing(tmp_path: Path) -> None:
    written = lock_of(tmp_path, qwen3(3, ranks=4, collective="allgather"))
    assert written.ranks == [0, 1, 2, 3]
    assert all(not held.ranks for held in written.tensors.values())


def test_a_rank_that_differs_is_kept_apart(tmp_path: Path) -> None:
    written = lock_of(tmp_path, qwen3(3, ranks=2))
    differing = {name for name, held in written.tensors.items() if held.ranks}
    assert differing == {"attn_allreduce_out", "embed_out", "mlp_final"}  # the residuals
    on_one = written.held("attn_allreduce_out", 1)
    assert on_one is not None
    assert on_one.read != written.tensors["attn_allreduce_out"].read


def test_a_change_of_one_tensor_is_a_change_of_one_line(tmp_path: Path) -> None:
    model = qwen3(4)
    before = lock_of(tmp_path / "a", model).text().split("\n")
    cuda, graph = model.emit().write(tmp_path / "b")
    pair = model.emit()
    for task in pair.tasks(tensor="layer_2_q_norm")[:2]:
        task["inputs"][3]["base_ptr"] = "nullptr"
    pair.write(tmp_path / "b")
    assert cuda.exists()
    assert graph.exists()
    after = Lock.of(
        check(pairs.find([str(tmp_path / "b")]), selection=MEMORY, summarize=True).summaries
    ).text()
    changed = [
        line
        for line in difflib.unified_diff(before, after.split("\n"), n=0, lineterm="")
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert [line.split('"')[1] for line in changed] == ["layer_2_q_norm", "layer_2_q_norm"]


def test_the_lock_of_a_deep_model_is_small(tmp_path: Path) -> None:
    text = lock_of(tmp_path, deepseek_v3(61)).text()
    assert len(text) < 300_000
    assert text.count("\n") > 2_400


def test_a_lock_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "wiring.lock.json"
    qwen3(3).write(tmp_path / "a")
    qwen3(3).without_rope().write(tmp_path / "b")
    assert invoke("lock", tmp_path / "a", "-o", file).return_value == 0
    assert invoke("check", tmp_path / "a", "--lock", file).return_value == 0
    failed = invoke("check", tmp_path / "b", "--lock", file, "--select", "MG8")
    assert failed.return_value == 1
    assert "readers 12 → 0" in failed.output
    (tmp_path / "s.json").write_text("")
    invoke("check", tmp_path / "a", "-o", f"summary={tmp_path / 's.json'}")
    again = tmp_path / "again.lock.json"
    invoke("lock", tmp_path / "s.json", "-o", again)
    assert again.read_bytes() == file.read_bytes()
    merged = invoke("merge", tmp_path / "s.json", "--lock", file)
    assert merged.return_value == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"version": 9}',
        '{"version": 1, "ranks": [], "tasks": {}, "events": {}, "layers": {}, "task_types": {}, '
        '"tensors": {"a": {"reads": {}}}}',
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, text: str) -> None:
    qwen3(1).write(tmp_path)
    (tmp_path / "x.lock.json").write_text(text)
    result = CliRunner().invoke(
        cli, ["check", str(tmp_path), "--lock", str(tmp_path / "x.lock.json")]
    )
    assert result.exit_code == 2
    assert "x.lock.json is" in result.output


def test_nothing_is_locked_of_a_rank_that_cannot_be_read(tmp_path: Path) -> None:
    _, graph = qwen3(1).emit().write(tmp_path)
    graph.write_text("{")
    result = CliRunner().invoke(cli, ["lock", str(tmp_path), "-o", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert not (tmp_path / "x").exists()


# -- diff --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sides")
    qwen3(3).write(folder / "wired")
    qwen3(3).without_rope().write(folder / "unwired")
    invoke("lock", folder / "wired", "-o", folder / "wired.lock.json")
    invoke("check", folder / "unwired", "-o", f"summary={folder / 'unwired.json'}")
    return folder


@pytest.mark.parametrize("old", ["wired", "wired.lock.json"])
@pytest.mark.parametrize("new", ["unwired", "unwired.json"])
def test_a_diff_of_whatever(sides: Path, old: str, new: str) -> None:
    result = invoke("diff", sides / old, sides / new)
    assert result.return_value == 0
    assert result.output.startswith("coverage lost\n  cos_position_embedding (critical): readers")
    assert "12 → 0" in result.output
    assert "gained" not in result.output
    assert invoke("diff", sides / old, sides / new, "--exit-code").return_value == 1
    back = invoke("diff", sides / new, sides / old, "--exit-code")
    assert back.return_value == 0
    assert back.output.startswith("coverage gained\n")


def test_a_diff_in_markdown_and_json(sides: Path) -> None:
    markdown = invoke("diff", sides / "wired", sides / "unwired", "-o", "markdown").output
    assert markdown.startswith("### Coverage lost\n\n- `cos_position_embedding`")
    document = json.loads(invoke("diff", sides / "wired", sides / "unwired", "-o", "json").output)
    assert [(c["tensor"], c["what"], c["ranks"]) for c in document["changes"]] == [
        ("cos_position_embedding", "lost", [0]),
        ("sin_position_embedding", "lost", [0]),
    ]
    assert document["changes"][0]["before"] == {"TASK_PAGED_ATTENTION_HOPPER": 12}


def test_a_diff_of_the_same_says_so(sides: Path) -> None:
    assert invoke("diff", sides / "wired", sides / "wired").output == "the wiring is the same\n"


def test_a_diff_of_ranks_names_them(tmp_path: Path) -> None:
    model = qwen3(2, ranks=2)
    model.write(tmp_path / "a")
    model.without_rope(layer=1).write(tmp_path / "b")
    output = invoke("diff", tmp_path / "a", tmp_path / "b").output
    assert output.count("cos_position_embedding") == 1
    assert "(ranks 0-1)" in output


@pytest.mark.parametrize("side", ["nothing-here", "unwired/kernel_7.cu"])
def test_a_diff_with_nothing_is_refused(sides: Path, side: str) -> None:
    result = CliRunner().invoke(cli, ["diff", str(sides / "wired"), str(sides / side)])
    assert result.exit_code == 2


# -- Waivers -----------------------------------------------------------------------------------

UNWIRED = """
[[waivers]]
rule = "MG101"
tensor = "*_position_embedding"
reason = "positions come with the next release"
{expires}
"""


def waived(tmp_path: Path, text: str, model: Model | None = None, *more: str) -> Result:
    (model or qwen3(3).without_rope()).write(tmp_path)
    (tmp_path / "mirage-gate.toml").write_text(text)
    return invoke("check", tmp_path, "--config", tmp_path / "mirage-gate.toml", *more)


def test_a_waiver_leaves_its_findings_out(tmp_path: Path) -> None:
    result = waived(tmp_path, UNWIRED.format(expires="expires = 2999-12-31"))
    assert result.return_value == 0
    assert "MG101" not in result.output
    assert "2 waived" in result.output


def test_a_waiver_that_is_expired_waives_nothing(tmp_path: Path) -> None:
    result = waived(tmp_path, UNWIRED.format(expires="expires = 2020-01-31"))
    assert result.return_value == 1
    assert result.output.count("MG101 unwired-critical-tensor error") == 2
    assert "mirage-gate.toml:2:1: MG803 stale-waiver warning: the waiver of MG101" in result.output
    assert "expired on 2020-01-31" in result.output


def test_a_waiver_that_nothing_needs_is_a_warning(tmp_path: Path) -> None:
    text = UNWIRED.format(expires="") + UNWIRED.format(expires="").replace("MG101", "unused-kernel")
    result = waived(tmp_path, text, qwen3(3))
    assert result.return_value == 0
    assert result.output.count("MG803 stale-waiver warning") == 2
    assert "mirage-gate.toml:8:1" in result.output
    assert "the waiver of MG503 for *_position_embedding matches no finding" in result.output


@pytest.mark.parametrize("more", [("--ranks", "0"), ("--select", "MG7")])
def test_a_waiver_is_not_missed_where_not_everything_was_looked_at(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    result = waived(tmp_path, UNWIRED.format(expires=""), qwen3(3), *more)
    assert "MG803" not in result.output


def test_what_cannot_be_read_cannot_be_waived(tmp_path: Path) -> None:
    qwen3(1).write(tmp_path)
    (tmp_path / "task_graph_0.json").write_text("{")
    (tmp_path / "mirage-gate.toml").write_text('[[waivers]]\nrule = "MG902"\nreason = "so"\n')
    result = invoke("check", tmp_path, "--config", tmp_path / "mirage-gate.toml")
    assert result.return_value == 2
    assert "MG902" in result.output


@pytest.mark.parametrize(
    "text",
    [
        '[[waivers]]\nrule = "MG101"\n',
        '[[waivers]]\nrule = "MG101"\nreason = "  "\n',
        '[[waivers]]\nrule = "MG999"\nreason = "x"\n',
        '[[waivers]]\nrule = "MG101"\nreason = "x"\nexpires = "soon"\n',
    ],
)
def test_a_waiver_without_sense_is_refused(tmp_path: Path, text: str) -> None:
    qwen3(1).write(tmp_path)
    (tmp_path / "mirage-gate.toml").write_text(text)
    config = str(tmp_path / "mirage-gate.toml")
    result = CliRunner().invoke(cli, ["check", str(tmp_path), "--config", config])
    assert result.exit_code == 2


def test_waivers_of_a_table_in_one_line_stand_where_the_key_does(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\nname = "x"\n\n[tool.mirage-gate]\n'
        'waivers = [{ rule = "MG101", reason = "so" }, { rule = "MG102", reason = "so" }]\n'
    )
    from mirage_gate.config import load, waivers

    found = waivers(load(file), str(file), ["MG101", "MG102"])
    assert [(w.rule, w.tensor, w.location.line) for w in found] == [
        ("MG101", "*", 5),
        ("MG102", "*", 5),
    ]


def test_the_last_day_of_a_waiver_is_a_day_of_it() -> None:
    waiver = Waiver("MG101", "*", "x", at(), date(2026, 3, 31))
    assert not waiver.expired(date(2026, 3, 31))
    assert waiver.expired(date(2026, 4, 1))
    assert not Waiver("MG101", "*", "x", at()).expired(date(9999, 12, 31))


# -- Baseline ----------------------------------------------------------------------------------


def report_file(folder: Path, form: str, model: Model) -> Path:
    model.write(folder)
    file = folder / f"report.{form}"
    invoke("check", folder, "-o", f"{form}={file}", "--fail-on", "never")
    return file


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_baseline_leaves_only_what_is_new(tmp_path: Path, form: str) -> None:
    known = report_file(tmp_path / "a", form, qwen3(4).without_rope(layer=2))
    same = invoke("check", tmp_path / "a", "--baseline", known)
    assert same.return_value == 0
    assert "known from the baseline" in same.output
    assert "no findings" in same.output
    qwen3(4).without_rope(layer=1).write(tmp_path / "b")
    other = invoke("check", tmp_path / "b", "--baseline", known)
    assert other.return_value == 1
    assert "layer 1 runs without" in other.output


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_baseline_survives_a_graph_that_moved(tmp_path: Path, form: str) -> None:
    known = report_file(tmp_path / "a", form, qwen3(4).without_rope())
    moved = qwen3(5, batch=8).without_rope()
    moved.write(tmp_path / "b")
    result = invoke("check", tmp_path / "b", "--baseline", known, "--select", "MG101")
    assert result.return_value == 0


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_baseline_of_ranks(tmp_path: Path, form: str) -> None:
    known = report_file(tmp_path / "a", form, qwen3(2, ranks=2).without_rope())
    assert invoke("check", tmp_path / "a", "--baseline", known).return_value == 0


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_baseline_knows_what_followed_and_no_more(tmp_path: Path, form: str) -> None:
    """An event that waits for too many, and later one that a task has stopped to trigger."""
    stalled, lost = qwen3(3).emit(), qwen3(3).emit()
    task = stalled.tasks(154)[8]
    stalled.graph["all_events"][task["trigger_event"] & 0xFFFF_FFFF]["num_triggers"] += 1
    lost.tasks(154)[8]["trigger_event"] = NO_EVENT
    for pair, folder in ((stalled, "a"), (lost, "b")):
        pair.write(tmp_path / folder)
    known = {}
    for folder in "ab":
        known[folder] = tmp_path / f"{folder}.{form}"
        at = tmp_path / folder
        invoke("check", at, "-o", f"{form}={known[folder]}", "--fail-on", "never")
        assert invoke("check", at, "--baseline", known[folder]).return_value == 0
    result = invoke("check", tmp_path / "b", "--baseline", known["a"])
    assert result.return_value == 1
    assert "MG401" not in result.output
    assert "MG301" in result.output


def _new(known: Baseline, *findings: Finding) -> tuple[list[Finding], int]:
    """The findings that are new, and how many are known."""
    new, old = known.new(findings)
    assert all(one.hidden for one in old)
    return new, len(old)


def test_a_name_that_ends_another_one_is_not_known() -> None:
    text = "mlp_mid is named in 3 slots and declared nowhere in the CUDA file"
    log = {
        "runs": [{"results": [{"ruleId": "MG101", "message": {"text": f"{text}. Emit again."}}]}]
    }
    known = baseline.decode(json.dumps(log).encode())
    one, other = finding(text, tensor="mlp_mid"), finding(text.removeprefix("mlp_"), tensor="mid")
    assert _new(known, other) == ([other], 0)
    assert _new(known, one, one) == ([one], 1)


def test_a_finding_that_is_known_once_is_known_once() -> None:
    one = finding("tensor x is read by 8 tasks (first: task 75)", tensor="x")
    two = finding("tensor x is read by 9 tasks (first: task 80)", tensor="x")
    known = Baseline({fingerprint(one): 1})
    assert _new(known, one, two) == ([two], 1)
    assert _new(Baseline({fingerprint(one): 2}), one, two) == ([], 2)
    assert _new(known, one) == ([], 1)  # asking changes nothing


def test_what_could_not_be_read_is_never_known() -> None:
    unreadable = finding("kernel_0.cu cannot be read", rule="MG902")
    assert _new(Baseline({fingerprint(unreadable): 5}), unreadable) == ([unreadable], 0)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("8 tasks (first: task 75, TASK_X)", "# tasks (first: task #, TASK_X)"),
        ("in layers 0-2, 4 input 3 of X", "in layers 0-2, 4 input 3 of X"),
        ("layer_12_q_norm, 16,384 bytes", "layer_12_q_norm, # bytes"),
        ("readers 156 → 0 at 0x7f00", "readers # → # at #"),
    ],
)
def test_numbers_that_move_do_not_count(message: str, expected: str) -> None:
    assert normal(message) == expected


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"findings": 3}', '{"runs": [{"results": [1]}]}']
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    qwen3(1).write(tmp_path)
    (tmp_path / "b.json").write_text(text)
    result = CliRunner().invoke(
        cli, ["check", str(tmp_path), "--baseline", str(tmp_path / "b.json")]
    )
    assert result.exit_code == 2
    assert "b.json is" in result.output


def test_an_empty_report_knows_nothing() -> None:
    assert baseline.decode(b'{"findings": []}') == Baseline({})
    assert baseline.decode(b'{"runs": []}') == Baseline({}, ())


# -- show --------------------------------------------------------------------------------------


def test_a_hole_is_seen_at_a_glance(tmp_path: Path) -> None:
    qwen3(12).without_rope(layer=5).write(tmp_path)
    result = invoke("show", tmp_path, "cos_position_embedding")
    assert result.return_value == 0
    row = next(line for line in result.output.split("\n") if "reads" in line)
    assert "#####.######" in row
    assert row.endswith("4 tasks each, none in layer 5")


def test_layers_without_the_operator_are_blank(tmp_path: Path) -> None:
    deepseek_v3(5).write(tmp_path)
    output = invoke("show", tmp_path, "rmsnorm_out").output
    row = next(line for line in output.split("\n") if "TENSOR_INIT" in line and "input" in line)
    assert "     ##  " in row
    assert "outside of the layers" in output


def test_many_layers_go_on_in_the_next_lines(tmp_path: Path) -> None:
    deepseek_v3(61).write(tmp_path)
    output = invoke("show", tmp_path, "rope_cos").output
    assert output.count("MLA_KV_GATHER") == 2
    assert max(map(len, output.split("\n"))) < 130


def test_memory_is_empty_by_default(tmp_path: Path) -> None:
    qwen3(2).write(tmp_path)
    report: Report = check(pairs.find([str(tmp_path)]), selection=MEMORY)
    assert (report.findings, report.waived, report.known) == ((), 0, 0)
    rest: dict[str, Any] = {"jobs": 4}
    assert check(pairs.find([str(tmp_path)]), selection=MEMORY, **rest).findings == ()
