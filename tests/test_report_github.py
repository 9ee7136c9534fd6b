"""Workflow commands, read the way GitHub's runner reads them."""

from __future__ import annotations

import os
import re

import msgspec

from mirage_gate.findings import Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, github, text
from tests.findings import HOSTILE_NAMES, at, coverage, finding, hostile, not_audited, rank, report


class Command(msgspec.Struct, frozen=True):
    name: str
    properties: dict[str, str]
    message: str


def commands(log: str) -> list[Command]:
    """What the runner takes for commands, those between stop-commands and its end left out."""
    found: list[Command] = []
    stopped = ""
    for line in log.split("\n"):
        assert "\r" not in line
        match = re.match(r"\s*::([\w-]+)(?: ([^:]*(?:(?!::).)*?))?::(.*)$", line)
        if stopped:
            # While stopped, only the word itself ends it, in either form of command.
            if line.strip() == f"::{stopped}::" or f"##[{stopped}]" in line:
                stopped = ""
            continue
        if match is None:
            assert "##[" not in line
            continue
        if match[1] == "stop-commands":
            stopped = match[3]
            continue
        properties = dict(pair.split("=", 1) for pair in (match[2] or "").split(",") if pair)
        found.append(Command(match[1], {k: decoded(v) for k, v in properties.items()}, match[3]))
    assert not stopped
    return found


def decoded(value: str) -> str:
    assert not re.search(r"[:,\r\n]", value)
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        value = value.replace(code, char)
    return value


def rendered(of: Report) -> str:
    return github.render(of, Context(root=os.getcwd()))  # noqa: PTH109


def test_an_annotation_for_each_finding() -> None:
    of = report(
        finding(hint="pass it on", location=at(line=41, width=90)),
        finding("odd", "MG104", Severity.WARNING),
        finding("so what", "MG103", Severity.NOTE, location=at("task_graph_0.json", 0)),
    )
    error, warning, notice = commands(rendered(of))
    assert error == Command(
        "error",
        {"file": "kernel_0.cu", "line": "41", "title": "MG101 unwired-critical-tensor"},
        "rope_cos is declared and no task reads it%0Ahint: pass it on",
    )
    assert (warning.name, warning.message) == ("warning", "odd")
    assert (notice.name, notice.properties["line"]) == ("notice", "1")


def test_ten_of_a_level_and_how_many_more() -> None:
    findings = [finding(f"f{n:02}", location=at(line=n)) for n in range(1, 15)]
    of = report(*findings, *(finding("n", "MG103", Severity.NOTE, location=at(line=1)),))
    log = rendered(of)
    assert [c.message for c in commands(log)] == [*(f"f{n:02}" for n in range(1, 11)), "n"]
    assert "mirage-gate: 4 more errors not shown as annotations" in log


def test_ranks_that_say_the_same_are_one_annotation() -> None:
    findings = [finding(location=at(f"kernel_{n}.cu"), rank=n) for n in range(4)]
    (one,) = commands(rendered(report(*findings, ranks=tuple(map(rank, range(4))))))
    assert one.message.endswith("(ranks 0-3)")


def test_what_no_finding_tells_is_told() -> None:
    unread = finding("broken", "MG901", rank=1)
    failed = (not_audited(1, "broken"), not_audited(2, "internal error in MG301"))
    messages = [c.message for c in commands(rendered(report(unread, ranks=(rank(0), *failed))))]
    assert messages == ["rank 2 was not audited: internal error in MG301", "broken (rank 1)"]


def test_the_text_report_is_fenced_off() -> None:
    names = ("##[error]forged", "::error::forged", *HOSTILE_NAMES)
    of = report(*hostile(), ranks=(rank(0, *(coverage(name, critical=True) for name in names)),))
    log = rendered(of)
    told = text.render(of, Context(root=os.getcwd()))  # noqa: PTH109
    fence = re.match(r"::stop-commands::([0-9a-f]{64})\n", log)
    assert fence
    assert log.startswith(f"{fence[0]}{told}::{fence[1]}::\n")
    assert fence[1] not in told
    assert {c.name for c in commands(log)} == {"error"}
    assert rendered(report(*hostile()))[:90] != log[:90]


def test_hostile_names_forge_nothing() -> None:
    names = (*HOSTILE_NAMES, "##[add-mask]x", "a:b,c=d::e", "%3A%2C%25")
    findings = [
        finding(f"{name} is unread", location=at(f"{name}.cu", n), tensor=name)
        for n, name in enumerate(names[:9], 1)
    ]
    findings.append(finding("##[add-mask]x is unread", location=at("a:b,c=d::e.cu", 99)))
    log = rendered(report(*findings))
    found = commands(log)
    assert len(found) == len(findings)
    assert {c.name for c in found} == {"error"}
    assert all(c.properties.keys() == {"file", "line", "title"} for c in found)
    assert [c.properties["file"] for c in found if c.properties["line"] == "99"] == [
        "a:b,c=d::e.cu"
    ]
    assert all(c.properties["title"] == "MG101 unwired-critical-tensor" for c in found)
