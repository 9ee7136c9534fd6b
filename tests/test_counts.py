"""One run has one count: whatever the format, the same number of findings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mirage_gate.artifacts.pairs import find
from mirage_gate.auditing.ranks import check
from mirage_gate.findings import Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, load
from tests.command import gate_here
from tests.emitter import qwen3
from tests.findings import at, finding, rank, report


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Four ranks that lost the same, and one rank more."""
    folder = tmp_path_factory.mktemp("gen")
    qwen3(3, ranks=4).without_rope().write(folder)
    text = (folder / "kernel_2.cu").read_text()
    (folder / "kernel_2.cu").write_text(text.replace('["lm_head"]', '["lost_head"]'))
    return check(find([str(folder)]))


def counts(of: Report) -> dict[str, int]:
    return {str(severity): of.count(severity) for severity in Severity}


def said(text: str) -> dict[str, int]:
    found = {word: int(number) for number, word in re.findall(r"(\d+) (error|warning|note)", text)}
    return {str(severity): found.get(str(severity), 0) for severity in Severity}


def render(of: Report, name: str, **settings: object) -> str:
    return load(name).render(of, Context(root="/", **settings))  # type: ignore[arg-type]


def test_every_format_counts_the_same(run: Report) -> None:
    wanted = counts(run)
    assert 0 < wanted["error"] < sum(f.severity is Severity.ERROR for f in run.findings)
    text = render(run, "text", verbosity=1)
    assert said(text.splitlines()[-1]) == wanted
    assert len(re.findall(r"^\S+: MG\d+ [\w-]+ error:", text, re.M)) == wanted["error"]
    assert said(render(run, "html").split('class="found">')[1].split("<")[0]) == wanted
    page = render(run, "markdown")
    assert said(page.splitlines()[2]) == wanted
    assert said(" ".join(re.findall(r"(?:###|<summary>).*", page))) == wanted
    document = json.loads(render(run, "json"))
    assert document["verdict"]["counts"] == wanted
    assert sum(document["verdict"]["listed"].values()) == len(document["findings"])
    for lines in document["statistics"].values():
        assert sum(line["count"] for line in lines) == sum(wanted.values())
    log = json.loads(render(run, "sarif"))["runs"][0]
    assert log["properties"]["findings"] == wanted
    levels = [entry["severity"] for entry in json.loads(render(run, "gitlab"))]
    assert levels.count("critical") == wanted["error"]
    assert len(levels) == sum(wanted.values())
    told = render(run, "github")
    assert min(10, wanted["error"]) == told.count("\n::error ")


def test_statistics(run: Report) -> None:
    lines = render(run, "text", statistics=True).splitlines()
    start = lines.index("findings by rule") + 1
    by_rule = lines[start : lines.index("", start)]
    assert sum(int(line.split()[0]) for line in by_rule) == sum(counts(run).values())
    assert any(re.fullmatch(r" +2  error    MG101 unwired-critical-tensor", b) for b in by_rule)
    roles = "\n".join(lines[lines.index("findings by role") :])
    assert re.search(r"^ +\d+  error +cos_position_embedding: .*MG101", roles, re.M)


def test_roles_put_the_layers_together() -> None:
    of = report(
        *(finding(f"q{n}", tensor=f"layer_{n}_q_norm", location=at(line=n + 1)) for n in range(5)),
        finding("event 3", "MG401"),
    )
    text = render(of, "text", statistics=True)
    assert "      5  error    layer_N_q_norm: MG101\n" in text
    assert "      1  error    about no one tensor: MG401\n" in text


def test_min_severity_hides_and_says_so(tmp_path: Path) -> None:
    qwen3(2).without_rope().write(tmp_path / "gen")
    whole = gate_here("check", "gen", "-o", "json", cwd=tmp_path)
    notes = json.loads(whole.stdout)["verdict"]["counts"]["note"]
    assert notes
    done = gate_here(
        "check", "gen", "--min-severity", "error", "-o", "text", "-o", "json=x", cwd=tmp_path
    )
    assert done.returncode == 1
    assert f"2 errors, {notes} below --min-severity in" in done.stdout
    assert " note: " not in done.stdout
    assert json.loads((tmp_path / "x").read_text())["verdict"]["counts"]["note"] == 0
    (tmp_path / "mirage-gate.toml").write_text('min-severity = "error"')
    assert f"{notes} below" in gate_here("check", "gen", cwd=tmp_path).stdout
    done = gate_here("check", "gen", "--fail-on", "warning", cwd=tmp_path)
    assert done.returncode == 2
    assert "--min-severity error would hide what --fail-on warning fails on" in done.stdout


def test_a_summary_keeps_what_is_not_shown(tmp_path: Path) -> None:
    qwen3(2).without_rope().write(tmp_path / "gen")
    for extra in ((), ("--min-severity", "error")):
        done = gate_here("check", "gen", "-o", f"summary={len(extra)}", *extra, cwd=tmp_path)
        assert done.returncode == 1
    assert (tmp_path / "0").read_text() == (tmp_path / "2").read_text()


def test_the_text_names_the_rule_and_explain() -> None:
    lines = render(report(finding()), "text").splitlines()
    assert any(": MG101 unwired-critical-tensor error: " in line for line in lines)
    assert "explained: `mirage-gate explain MG101` says why, and how to mend it" in lines
    note = finding("n", "MG103", Severity.NOTE)
    assert "explained" not in render(report(note), "text")
    assert ": MG103 unused-buffer note: n" in render(report(note), "text")
    assert "explained" in render(report(note), "text", fail_on="note")
    assert ": MG999 error: x" in render(report(finding("x", "MG999")), "text")


def test_the_text_names_every_rule_that_was_found() -> None:
    rules = [f"MG30{n}" for n in range(1, 6)] + ["MG401", "MG402", "MG404"]
    found = [finding("x", rule) for rule in ("MG101", "MG203", "MG101")]
    assert "explained: `mirage-gate explain MG101 MG203` says why" in render(report(*found), "text")
    text = render(report(*(finding("x", rule) for rule in rules)), "text")
    shown = list(dict.fromkeys(re.findall(r": (MG\d+) [\w-]+ error: ", text)))
    assert sorted(shown) == rules
    explained = next(line for line in text.splitlines() if line.startswith("explained: "))
    assert explained == (
        f"explained: `mirage-gate explain {' '.join(shown[:6])}` says why, and how to mend it "
        "(and 2 more rules)"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ignore", "MG101"), "MG101 ignored"),
        (("--ignore", "unwired-critical-tensor,mg7"), "MG101 and MG7 ignored"),
        (("--select", "MG2,MG3"), "only MG2 and MG3 asked"),
        (("--select", "MG1", "--ignore", "MG101"), "only MG1 asked, MG101 ignored"),
        (("--ignore", "MG0,MG101,MG2,MG3,MG4,MG5,MG6,MG7"), "MG5 and 2 more ignored"),
    ],
)
def test_what_was_not_asked_is_said_in_the_verdict(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    """Or a rule that is switched off looks like one that found nothing."""
    qwen3(2).without_rope().write(tmp_path / "gen")
    done = gate_here("check", "gen", *words, "-o", "text", "-o", "json=report.json", cwd=tmp_path)
    verdict = done.stdout.splitlines()[-1]
    assert verdict.startswith("mirage-gate: PASSED")
    assert says in verdict
    told = json.loads((tmp_path / "report.json").read_text())["verdict"]
    assert [*told["selected"], *told["ignored"]] == [
        {"unwired-critical-tensor": "MG101"}.get(word, word.upper())
        for listed in words[1::2]
        for word in listed.split(",")
    ]


def test_a_rule_that_the_configuration_switches_off_is_said_too(tmp_path: Path) -> None:
    qwen3(2).without_rope().write(tmp_path / "gen")
    (tmp_path / "mirage-gate.toml").write_text('[severity]\nMG101 = "off"\n')
    done = gate_here("check", "gen", "-q", cwd=tmp_path)
    assert done.stdout.startswith("mirage-gate: PASSED, ")
    assert "MG101 ignored" in done.stdout


def test_gitlab_fingerprints_stay_when_lines_and_numbers_move() -> None:
    def marks(*findings: object) -> list[str]:
        entries = json.loads(render(report(*findings), "gitlab"))  # type: ignore[arg-type]
        assert len({entry["fingerprint"] for entry in entries}) == len(entries)
        return [entry["fingerprint"] for entry in entries]

    def stall(event: int, line: int) -> object:
        return finding(
            f"event {event} waits for {event + 1:,} triggers", "MG401", location=at(line=line)
        )

    assert marks(stall(3, 7)) == marks(stall(999, 8))
    assert marks(stall(3, 7), stall(5, 9)) == marks(stall(4, 7), stall(6, 9))
    assert marks(finding(tensor="a")) != marks(finding(tensor="b"))


def test_gitlab_entries(tmp_path: Path) -> None:
    qwen3(2).without_rope().write(tmp_path / "gen")
    (tmp_path / "gen" / "kernel_1.cu").write_text("")
    done = gate_here("check", "gen", "-o", "gitlab", cwd=tmp_path)
    entries = json.loads(done.stdout)
    assert {entry["severity"] for entry in entries} <= {"info", "minor", "critical", "blocker"}
    lost = next(e for e in entries if "cos_position_embedding" in e["description"])
    assert lost["check_name"] == "MG101 unwired-critical-tensor"
    assert lost["location"]["path"] == "gen/kernel_0.cu"
    assert lost["location"]["lines"]["begin"] > 1
    assert any(entry["check_name"].startswith("MG903") for entry in entries)


def test_sarif_levels_and_sentences(run: Report) -> None:
    low = finding("it is odd", "MG101", Severity.NOTE, location=at(line=9))
    for of in (run, report(finding(), low), report(finding("cos is lost", tensor="cos"))):
        log = json.loads(render(of, "sarif"))["runs"][0]
        rules = {rule["id"]: rule for rule in log["tool"]["driver"]["rules"]}
        weight = ("note", "warning", "error").index
        for result in log["results"]:
            level = rules[result["ruleId"]]["defaultConfiguration"].get("level", "warning")
            assert weight(level) <= weight(result["level"])
            text = result["message"]["text"]
            first = text.split()[0]
            assert text[0].isupper() or not first.isalpha() or first == "cos", text
        assert "security-severity" not in json.dumps(log)
    unused = rules["MG402"]["defaultConfiguration"]["level"]
    assert unused == "error"


def test_a_baseline_knows_a_sentence_by_its_words(tmp_path: Path) -> None:
    qwen3(2).without_rope().write(tmp_path / "gen")
    gate_here("check", "gen", "-o", "sarif=known.sarif", cwd=tmp_path)
    done = gate_here("check", "gen", "--baseline", "known.sarif", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_ranks_that_share_a_finding_count_once() -> None:
    shared = [finding(rank=n, location=at(f"kernel_{n}.cu")) for n in range(3)]
    of = report(*shared, finding("other", rank=1), ranks=(rank(0), rank(1), rank(2)))
    assert of.count(Severity.ERROR) == 2
    assert [len(same) for same in of.distinct] == [1, 3] or [len(s) for s in of.distinct] == [3, 1]
    assert of.at_least(Severity.NOTE) is of
