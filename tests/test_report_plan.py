"""The plan on the page: a row for each operator, the stream beside it, findings in their place."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from mirage_gate.artifacts import pairs
from mirage_gate.auditing.ranks import check
from mirage_gate.report import Report
from mirage_gate.reports import Context, html
from tests.emitter import Model, deepseek_v3, qwen3, qwen3_moe


def audited(model: Model, folder: Path) -> Report:
    model.write(folder)
    return check(pairs.find([str(folder)]))


def section(report: Report) -> str:
    page = html.render(report, Context(root="/"))
    found = re.search(r'<section id="plan">(.*?)</section>', page, re.S)
    assert found, "no plan is drawn"
    assert '<a href="#plan">' in page
    return found[1]


def steps(drawn: str) -> list[tuple[set[str], str]]:
    """(what the stream does there, the statement) of every row."""
    return [
        (set(classes.split()), title)
        for classes, title in re.findall(r'<li class="step ?([^"]*)" title="([^"]*)"', drawn)
    ]


@pytest.mark.parametrize("layers", [4, 36])
def test_a_class_of_layers_is_drawn_once(layers: int, tmp_path: Path) -> None:
    drawn = section(audited(qwen3(layers), tmp_path))
    assert len(steps(drawn)) == 12
    assert f"{layers} times" in drawn
    assert "<script" not in drawn


def test_the_stream_is_taken_from_and_added_to(tmp_path: Path) -> None:
    rows = {title: marks for marks, title in steps(section(audited(qwen3(2), tmp_path)))}
    assert "takes" in rows["h = rms_norm(x, input_layernorm)"]
    assert "gives" in rows["r = linear(a, o_proj) + x"]
    assert rows["qkv = linear(h, qkv_proj)"] == {"follows"}


def test_what_two_branches_give_is_no_stream_yet(tmp_path: Path) -> None:
    rows = steps(section(audited(deepseek_v3(4), tmp_path)))
    (summed,) = (marks for marks, title in rows if title.startswith("r2 = weighted_sum"))
    (met,) = (marks for marks, title in rows if title == "x = r + r2")
    assert "gives" not in summed
    assert "gives" in met


def test_weights_stand_on_the_side(tmp_path: Path) -> None:
    drawn = section(audited(qwen3_moe(2).without_qk_norm(), tmp_path))
    assert '<span class="chip">gateup_proj</span>' in drawn
    assert '<span class="chip none">none</span>' in drawn


def test_a_finding_is_marked_where_it_is(tmp_path: Path) -> None:
    drawn = section(audited(qwen3(4).stale_residual(1), tmp_path))
    marked = [title for marks, title in steps(drawn) if "marked" in marks]
    assert marked
    assert all("@start" in title for title in marked)
    assert 'href="#finding-' in drawn


def test_names_are_escaped(tmp_path: Path) -> None:
    report = audited(qwen3(2), tmp_path)
    rank = report.ranks[0]
    block = rank.plan[0]
    line = msgspec.structs.replace(block.lines[0], operator="<b>", weights=('"><script>',))
    block = msgspec.structs.replace(block, lines=(line,))
    rank = msgspec.structs.replace(rank, plan=(block,))
    drawn = section(msgspec.structs.replace(report, ranks=(rank,)))
    assert "<script>" not in drawn
    assert "&lt;b&gt;" in drawn


def test_ranks_that_do_the_same_are_drawn_once(tmp_path: Path) -> None:
    drawn = section(audited(qwen3(2, ranks=4), tmp_path))
    assert drawn.count("<details") == 2
    assert "ranks 1-3" in drawn or "ranks 1, 2, 3" in drawn


def test_without_layers_nothing_is_drawn(tmp_path: Path) -> None:
    qwen3(2).write(tmp_path)
    report = check(pairs.find([str(tmp_path)]), by_layer=False)
    assert '<section id="plan">' not in html.render(report, Context(root="/"))
