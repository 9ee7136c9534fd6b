"""Markdown, rendered by a reader of GitHub's dialect."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from mirage_gate import escaping
from mirage_gate.findings import Severity
from mirage_gate.report import LayerUse, Report
from mirage_gate.reports import Context, markdown
from tests.findings import HOSTILE_NAMES, at, coverage, finding, not_audited, rank, report
from tests.node import node


def rendered(of: Report, **settings: Any) -> str:
    return markdown.render(of, Context(root=os.getcwd(), **settings))  # noqa: PTH109


class Page(HTMLParser):
    """Tags, links, and the text of each code span."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.code: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags and self.tags[-1] == "code":
            self.code[-1] += data


def page(text: str) -> Page:
    return Page(node("markdown.mjs", package="micromark-extension-gfm", stdin=text))


def test_verdict_table_and_findings() -> None:
    tensor = coverage("rope|cos", 8, critical=True)
    layers = tuple(LayerUse(n, 2, 0, 64, 1, (278,)) for n in (0, 1, 3))
    fields = {name: getattr(tensor, name) for name in tensor.__struct_fields__}
    tensor = type(tensor)(**fields | {"layers": layers})
    found = page(
        rendered(
            report(
                finding(hint="pass rope_cos on", related=(at(note="storage"),), trace=(at(),)),
                finding("n", "MG103", Severity.NOTE),
                ranks=(rank(0, tensor, coverage("sin", critical=True)), not_audited(1, "no graph")),
            )
        )
    )
    assert "mirage-gate: failed" in found.text
    assert (
        "1 error, 1 note in 1 rank (13,646 tasks, 126 tensors), 1 rank not audited." in found.text
    )
    assert found.tags.count("table") == 1
    assert found.tags.count("tr") == 3
    assert "rope|cos" in found.code
    assert "0-1, 3" in found.text
    assert "no task" in found.text
    assert found.tags.count("details") == 1
    assert any(link.endswith("/docs/rules.md#mg101") for link in found.links)
    assert "kernel_0.cu:41" in found.code


@pytest.mark.parametrize("cell", [False, True])
def test_hostile_names_stay_text(cell: bool) -> None:
    names = (
        *(name for name in HOSTILE_NAMES if len(name) < 100),
        *("@everyone", "#1", "www.example.invalid", "a@b.co", "https://example.invalid", "GH\\-1"),
        *("![x](y)", "$x$", "``", "` `", "|", "a||b", "&lt;b&gt;", "[^1]", ":+1:", "~~x~~", "*a*"),
        *("<!--", "-->", "</details>", "<img src=x onerror=alert(1)>", "\\", "\\`", "a\\|b", "  "),
    )
    lines = [escaping.markdown(f"tensor {name} is unread", cell) for name in names]
    if cell:
        text = "| n |\n|---|\n" + "".join(f"| {line} |\n" for line in lines)
    else:
        text = "".join(f"- {line}\n" for line in lines)
    found = page(text)
    own = {"ul", "li", "code", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag.lstrip("/") for tag in found.tags} <= own
    assert found.links == []
    rows = found.tags.count("td" if cell else "li")
    assert rows == len(names)
    for name in names:
        shown = escaping.plain(name).strip()
        assert shown in found.text or (cell and shown.replace("|", r"\x7c") in found.text)


def test_hostile_names_in_the_whole_page() -> None:
    tensors = [coverage(name, critical=True) for name in HOSTILE_NAMES]
    findings = [
        finding(name, severity=severity, hint=name, location=at(f"{name}.cu", n))
        for n, name in enumerate(HOSTILE_NAMES, 1)
        for severity in Severity
    ]
    found = page(rendered(report(*findings, ranks=(rank(0, *tensors), not_audited(1, "<b>")))))
    assert not {"script", "img", "b"} & set(found.tags)
    assert all("github.com/mirage-gate/" in link for link in found.links)
    assert found.tags.count("tr") == len(HOSTILE_NAMES) + 1


def test_a_summary_fits_into_a_mebibyte() -> None:
    findings = [
        finding(f"{n} " + "x_" * 400, location=at(line=n), hint="y_" * 300) for n in range(1, 4_000)
    ]
    tensors = [coverage(f"{n}" + "é" * 3_000, critical=True) for n in range(2_000)]
    text = rendered(report(*findings, ranks=(rank(0, *tensors),)))
    assert 900_000 < len(text.encode()) < 1 << 20
    assert re.search(r"- [\d,]+ more errors left out", text)
    assert "1,800 more rows left out" in text


def test_plain_english_stays_plain() -> None:
    text = "critical tensor rope_cos is declared and no task reads it (input_refs=0)"
    assert escaping.markdown(text) == (
        "critical tensor `rope_cos` is declared and no task reads it (`input_refs=0`)"
    )
    assert escaping.markdown_code("a`b``") == "``` a`b`` ```"
