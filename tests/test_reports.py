"""What holds for every report format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from mirage_gate.findings import Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, format_names, load
from tests.command import gate_here
from tests.emitter import qwen3
from tests.findings import HOSTILE_NAMES, at, coverage, finding, hostile, not_audited, rank, report

FORMATS = format_names()
MACHINE = {"gitlab", "json", "sarif", "summary"}
"""Formats that must keep a name as it is, for programs to compare."""


def hostile_report() -> Report:
    """A report with every hostile name in every place where a name can stand."""
    tensors = [coverage(name, critical=True) for name in HOSTILE_NAMES]
    dead = [coverage(name, kind="scratch") for name in HOSTILE_NAMES]
    used = [coverage(f"layer_{n}_{name}", 3) for n, name in enumerate(HOSTILE_NAMES)]
    paths = [
        finding(f"in file {number}", "MG104", Severity.WARNING, location=at(f"{name}.cu"))
        for number, name in enumerate(HOSTILE_NAMES)
    ]
    notes = [finding(f"{name} is odd", "MG103", Severity.NOTE) for name in HOSTILE_NAMES]
    newer = finding("from another version", "MG999", rank=1)
    failed = [not_audited(n, f"{name} failed") for n, name in enumerate(HOSTILE_NAMES, 5)]
    return report(
        *(*hostile(), *paths, *notes, newer),
        ranks=(rank(0, *tensors, *dead, *used), rank(1), *failed),
    )


def render(name: str, of: Report, **settings: Any) -> str:
    return load(name).render(of, Context(root=os.getcwd(), **settings))  # noqa: PTH109


@pytest.mark.parametrize("name", FORMATS)
class TestEveryFormat:
    def test_it_says_what_it_is(self, name: str) -> None:
        module = load(name)
        assert name == module.NAME
        assert 10 < len(module.DESCRIPTION) < 80

    def test_it_is_deterministic(self, name: str) -> None:
        of = hostile_report()
        turned = Report(of.ranks, tuple(reversed(of.findings)), of.seconds)
        assert render(name, of) == render(name, of)
        assert render(name, of) == render(name, turned)

    def test_hostile_names_are_harmless(self, name: str) -> None:
        text = render(name, hostile_report())
        text.encode()
        # Nothing that steers a terminal, turns the writing direction or ends a line early.
        allowed = "\n"
        assert not [c for c in set(text) if not c.isprintable() and c not in allowed]
        if name not in MACHINE:
            assert "x" * 1_000 not in text
            assert len(text) < 2_000_000

    @pytest.mark.parametrize(
        "of",
        [
            report(),
            report(ranks=(not_audited(0, "no graph"),)),
            Report(ranks=(), findings=()),
            report(*(finding(f"f{n}", location=at(line=n)) for n in range(1, 3_000))),
        ],
        ids=["clean", "not audited", "nothing", "many"],
    )
    def test_odd_reports(self, name: str, of: Report) -> None:
        for fail_on in ("error", "never"):
            text = render(name, of, fail_on=fail_on)
            assert text.endswith("\n") or not text
            assert len(text) < 6_000_000


def test_text_and_json_load_nothing_slow() -> None:
    program = (
        "import sys; from mirage_gate.reports import load; load('text'); load('json'); "
        "slow = ('mirage_gate.reports._sarif_log', 'jsonschema', 'jinja2', 'xml'); "
        "print([name for name in slow if name in sys.modules])"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[]"


def test_hostile_markup_stays_text_in_html_and_xml() -> None:
    ET.fromstring(render("junit", hostile_report()))  # noqa: S314 - our own
    page = Tags()
    page.feed(render("html", hostile_report()))
    assert page.tags["script"] == 1
    assert not page.tags.keys() & {"img", "iframe", "b", "object", "form"}
    assert page.handlers == []


class Tags(HTMLParser):
    """Counts a page's tags, and lists its event handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_all_at_once(tmp_path: Path) -> None:
    """One run writes every format, in a repository whose folder name has a space."""
    folder = tmp_path / "my repo"
    (folder / ".git").mkdir(parents=True)
    qwen3(layers=4).without_rope().write(folder / "gen")
    outputs = [word for name in FORMATS for word in ("-o", f"{name}=out.{name}")]
    done = gate_here("check", "gen", *outputs, cwd=folder, apart=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    for name in FORMATS:
        written = (folder / f"out.{name}").read_text(encoding="utf-8")
        assert "cos_position_embedding" in written
        if name != "summary":
            assert str(tmp_path) not in written
    log = json.loads((folder / "out.sarif").read_text(encoding="utf-8"))
    uris = re.findall(r'"uri": "([^"]*)"', json.dumps(log["runs"][0]["results"]))
    assert uris
    assert all(uri.startswith("gen/") for uri in uris)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "shift-jis"])
def test_a_terminal_of_another_encoding_gets_its_report(encoding: str, tmp_path: Path) -> None:
    pair = qwen3(layers=1).emit()
    pair.declaration("lm_head").name = "köpf_😀_頭"
    pair.write(tmp_path)
    for name in ("text", "markdown", "github"):
        done = gate_here("check", tmp_path, "-o", name, apart=True, encoding=encoding)
        assert done.returncode == 1, done.stderr
        assert "MG1" in done.stdout
