"""The SARIF report: its shape, what GitHub asks of it, and the reference validator."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mirage_gate import __version__
from mirage_gate.escaping import sarif_link, sarif_message
from mirage_gate.findings import Location, Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, sarif
from mirage_gate.reports._fingerprints import line_hashes
from mirage_gate.reports._paths import git_root, relative, relative_uri
from mirage_gate.rules.base import all_rules
from tests.findings import HOSTILE_NAMES, at, coverage, finding, hostile, not_audited, rank, report

if TYPE_CHECKING:
    from tests.sarif_validator import Validate

pytest_plugins = ("tests.sarif_validator",)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a pair of files worth pointing at."""
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / "out dir").mkdir()
    cuda = "".join(f'  all_tensors["t{n}"] = t{n};\n' for n in range(60))
    (folder / "out dir" / "kernel_0.cu").write_text(cuda, encoding="utf-8")
    (folder / "out dir" / "task_graph_0.json").write_text("{\n" * 60, encoding="utf-8")
    return folder


def log_of(of: Report, root: Path | str = "/", **settings: Any) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.render(of, Context(root=str(root), **settings)))
    return log


def run_of(of: Report, root: Path | str = "/", **settings: Any) -> dict[str, Any]:
    (run,) = log_of(of, root, **settings)["runs"]
    assert isinstance(run, dict)
    return run


def test_one_log_with_one_run() -> None:
    log = log_of(report())
    assert list(log) == ["$schema", "version", "runs"]
    assert log["version"] == "2.1.0"
    assert log["$schema"].startswith("https://")
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["name"] == "mirage-gate"
    assert driver["version"] == driver["semanticVersion"] == __version__
    assert log["runs"][0]["results"] == []
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_every_rule_is_described() -> None:
    rules = run_of(report())["tool"]["driver"].get("rules", [])
    assert [rule["id"] for rule in rules] == [rule.id for rule in all_rules()]
    for shown, rule in zip(rules, all_rules(), strict=True):
        assert re.fullmatch(r"([A-Z][a-z0-9]+)+", shown["name"])
        assert shown["defaultConfiguration"] == {"level": str(rule.severity)}
        assert shown["helpUri"].endswith(f"#{rule.id.lower()}")
        assert len(shown["shortDescription"]["text"]) <= 1024
        assert len(shown["fullDescription"]["text"]) <= 1024
        assert rule.why in shown["help"]["markdown"]
        assert rule.fix in shown["help"]["text"]
        assert set(shown["properties"]) == {"precision", "problem.severity", "tags"}


def test_a_rule_of_another_version_is_described_too() -> None:
    run = run_of(report(finding(rule="MG999")))
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "MG999"


@pytest.mark.parametrize("severity", list(Severity))
def test_the_level_is_always_written(severity: Severity) -> None:
    (result,) = run_of(report(finding(severity=severity)))["results"]
    assert result["level"] == str(severity)


def test_a_result_with_all_its_parts(root: Path) -> None:
    cuda, graph = (str(root / "out dir" / name) for name in ("kernel_0.cu", "task_graph_0.json"))
    run = run_of(
        report(
            finding(
                location=Location(cuda, 42, 3, 42, 28),
                hint="pass it to attention",
                related=(at(graph, 7, note="the [q] slot"), at(cuda, 40)),
                trace=(at(graph, 10, 5, "written"), at(graph, 12, 5, "read")),
                tensor="rope_cos",
            )
        ),
        root,
    )
    (result,) = run["results"]
    assert result["ruleId"] == "MG101"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "MG101"
    assert result["message"]["text"] == (
        "rope_cos is declared and no task reads it. Pass it to attention. "
        r"See [the \[q\] slot](1), [out dir/kernel_0.cu:40](2)."
    )
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "out%20dir/kernel_0.cu", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 42, "startColumn": 3, "endLine": 42, "endColumn": 28},
            }
        }
    ]
    assert set(run["originalUriBaseIds"]) == {"%SRCROOT%"}
    assert "workingDirectory" not in run["invocations"][0]
    assert result["partialFingerprints"] == {"primaryLocationLineHash": line_hashes(cuda, [42])[42]}
    assert [place["id"] for place in result["relatedLocations"]] == [1, 2]
    assert result["relatedLocations"][0]["message"]["text"] == "the [q] slot"
    (flow,) = result["codeFlows"]
    steps = flow["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == ["written", "read"]
    assert result["properties"] == {"ranks": [0], "tensors": ["rope_cos"]}


def test_a_place_without_lines_gets_a_region_still(root: Path) -> None:
    graph = str(root / "out dir" / "task_graph_0.json")
    (result,) = run_of(report(finding(location=Location(graph))), root)["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2}
    assert result["partialFingerprints"]["primaryLocationLineHash"].endswith(":1")


def test_a_file_that_is_not_there_has_no_fingerprint() -> None:
    (result,) = run_of(report(finding(location=at("/nowhere/kernel_0.cu"))))["results"]
    assert "partialFingerprints" not in result


def test_a_file_outside_the_root_has_an_absolute_uri(root: Path) -> None:
    outside = root.parent / "a b" / "kernel_0.cu"
    run = run_of(report(finding(location=at(str(outside)))), root)
    artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": outside.as_uri()}
    assert run["invocations"][0]["workingDirectory"] == {"uri": "file:///"}
    assert "originalUriBaseIds" not in run


def test_findings_of_one_rule_on_one_line_are_one_result() -> None:
    run = run_of(
        report(
            finding("a is unread", tensor="a", related=(at(line=1),), hint="wire it"),
            finding("b is unread", tensor="b", related=(at(line=1),), hint="wire it"),
            finding("b is unread", tensor="b", rank=1),
            finding("c is odd", severity=Severity.NOTE),
            finding("of another rule", "MG102"),
            finding("elsewhere", location=at(line=7)),
        ),
        os.getcwd(),  # noqa: PTH109
    )
    told = [(result["ruleId"], result["message"]["text"]) for result in run["results"]]
    assert told == [
        ("MG101", "elsewhere."),
        ("MG101", "a is unread. b is unread. C is odd. Wire it. See [kernel_0.cu:1](1)."),
        ("MG102", "Of another rule."),
    ]
    merged = run["results"][1]
    assert merged["level"] == "error"
    assert merged["properties"] == {"ranks": [0, 1], "tensors": ["a", "b"]}
    assert len(merged["relatedLocations"]) == 1


def test_no_more_results_than_github_shows() -> None:
    notes = [finding(severity=Severity.NOTE, location=at(line=line)) for line in range(1, 5_002)]
    run = run_of(report(*notes, finding(location=at(line=6_000))))
    assert len(run["results"]) == 5_000
    assert run["results"][0]["level"] == "error"
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["level"] == "warning"
    assert "2 more were left out" in notification["message"]["text"]
    assert run["invocations"][0]["executionSuccessful"] is True


def test_a_long_trace_keeps_both_ends() -> None:
    trace = tuple(at(line=line, note=str(line)) for line in range(1, 301))
    (result,) = run_of(report(finding(trace=trace)))["results"]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    told = [step["location"]["message"]["text"] for step in steps]
    assert len(told) == sarif.MOST_STEPS
    assert (told[0], told[-1]) == ("1", "300")


def test_a_rank_not_audited_is_a_failed_run(root: Path) -> None:
    run = run_of(report(ranks=(rank(0), not_audited(3, "no graph [x](1)"))), root)
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["exitCode"] == 1
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "error"
    assert notification["message"]["text"] == r"Rank 3 was not audited: no graph \[x\](1)."
    assert run_of(Report((), ()))["invocations"][0]["executionSuccessful"] is False


def test_two_runs_give_the_same_bytes(root: Path) -> None:
    findings = hostile(str(root / "out dir" / "kernel_0.cu"))
    context = Context(root=str(root))
    assert sarif.render(report(*findings), context) == sarif.render(
        report(*reversed(findings)), context
    )


_LINK = re.compile(r"(?<!\\)(?:\\\\)*\[((?:\\.|[^\]\\])*)\]\(([^)]*)\)")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_forges_no_link_and_no_placeholder(name: str) -> None:
    (result,) = run_of(
        report(
            finding(f"{name} is declared", related=(at(line=1, note=f"storage of {name}"),)),
        )
    )["results"]
    for message in (result["message"], result["relatedLocations"][0]["message"]):
        assert message["text"].isprintable()
        assert not re.search(r"\{\d+\}", re.sub(r"\{\{|\}\}", "", message["text"]))
    targets = [target for _, target in _LINK.findall(result["message"]["text"])]
    assert targets == ["1"]
    assert not _LINK.findall(result["relatedLocations"][0]["message"]["text"])


def test_brackets_that_cannot_mislead_stay_as_they_are() -> None:
    assert sarif_message(r"types=[278, 296] \x1b (x)") == r"types=[278, 296] \x1b (x)"
    assert sarif_message("[a](1)") == r"\[a\](1)"
    assert sarif_message("[a [b](1)") == r"\[a \[b\](1)"
    assert sarif_message("{0}") == "{{0}}"
    assert sarif_link("a]b", 3) == r"[a\]b](3)"


# --- The reference validator -----------------------------------------------------------


def everything(root: Path) -> Report:
    folder = root / "out dir"
    cuda, graph = str(folder / "kernel_0.cu"), str(folder / "task_graph_0.json")
    findings = (
        *hostile(cuda),
        *(finding(rule=rule.id, severity=rule.severity) for rule in all_rules()),
        finding("outside", location=at(str(root.parent / "x y" / "kernel_0.cu"))),
        finding("no line", "MG901", location=Location(graph)),
        finding("same line", severity=Severity.NOTE, location=at(cuda, 1)),
    )
    ranks = (rank(0, coverage("x", critical=True)), not_audited(1, "\x1b[x](1) {0}"))
    return report(*findings, ranks=ranks)


def inside(root: Path) -> Report:
    return report(*(f for f in everything(root).findings if "x y" not in f.location.path))


@pytest.mark.parametrize(
    "made",
    [
        everything,
        pytest.param(inside, marks=pytest.mark.slow),
        pytest.param(lambda root: report(), marks=pytest.mark.slow, id="nothing"),
    ],
)
def test_the_validator_has_nothing_against_it(
    root: Path, valid_sarif: Callable[[str], None], made: Callable[[Path], Report]
) -> None:
    settings = Context(root=str(root), command_line=("mirage-gate", "check", "out dir"))
    valid_sarif(sarif.render(made(root), settings))


@pytest.mark.slow
def test_the_validator_does_find_faults(sarif_complaints: Validate) -> None:
    log = log_of(report(finding()))
    log["runs"][0]["results"][0]["unheard"] = 1
    del log["runs"][0]["tool"]["driver"]["rules"]
    found = {(complaint.level, complaint.rule) for complaint in sarif_complaints(json.dumps(log))}
    # One by the schema, one by GitHub's rules, one by the standard's.
    assert {("error", "JSON1005"), ("error", "GH1018"), ("error", "SARIF1009")} <= found
    assert [c.level for c in sarif_complaints("{")] == ["error"]


# --- Paths -----------------------------------------------------------------------------


def test_the_git_root_is_found_by_walking_up(tmp_path: Path, root: Path) -> None:
    assert git_root(root / "out dir") == str(root.resolve())
    worktree = root / "worktree"
    (worktree / "deep").mkdir(parents=True)
    (worktree / ".git").write_text("gitdir: elsewhere\n", encoding="utf-8")
    assert git_root(worktree / "deep") == str(worktree.resolve())
    assert git_root(worktree / "not there" / "yet") == str(worktree.resolve())


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a/kernel_0.cu", "a/kernel_0.cu"),
        ("./a//b/../kernel_0.cu", "a/kernel_0.cu"),
        ("a b/ü%#?.cu", "a%20b/%C3%BC%25%23%3F.cu"),
        ("c:x/k.cu", "c%3Ax/k.cu"),
        ("\udcff.cu", "%FF.cu"),
        ("line\nbreak.cu", "line%0Abreak.cu"),
        ("../outside.cu", None),
    ],
)
def test_uris_are_relative_to_the_root(
    monkeypatch: pytest.MonkeyPatch, root: Path, path: str, uri: str | None
) -> None:
    monkeypatch.chdir(root)
    assert relative_uri(path, str(root)) == uri
    assert relative_uri(os.path.abspath(path), str(root)) == uri  # noqa: PTH100


def test_a_link_into_the_root_is_inside(tmp_path: Path, root: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert relative(str(link / "out dir" / "kernel_0.cu"), str(root)) == "out dir/kernel_0.cu"
    assert relative(str(root / "kernel_0.cu"), str(link)) == "kernel_0.cu"


def test_only_this_report_loads_the_object_model() -> None:
    program = (
        "import sys; from mirage_gate.reports import load; "
        "load('text'); print('mirage_gate.reports._sarif_log' in sys.modules); "
        "load('sarif'); print('mirage_gate.reports._sarif_log' in sys.modules)"
    )
    here = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=here, capture_output=True, check=True
    )
    assert done.stdout.split() == [b"False", b"True"]
