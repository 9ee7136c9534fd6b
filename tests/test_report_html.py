"""The page; slow tests look at it in headless Chromium."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mirage_gate import __version__
from mirage_gate.artifacts import pairs
from mirage_gate.auditing.ranks import check
from mirage_gate.findings import Severity
from mirage_gate.report import LayerUse, RankReport, Report
from mirage_gate.reports import Context, html
from mirage_gate.reports._drawing import drawing
from mirage_gate.reports._excerpts import Excerpts
from mirage_gate.reports._wiring_map import wiring_map
from tests.chromium import chromium
from tests.command import gate_here
from tests.emitter import deepseek_v3, qwen3
from tests.findings import at, coverage, finding, rank, report
from tests.node import need, node
from tests.scratch import Repository
from tests.test_reports import hostile_report


def audited(folder: Path) -> Report:
    return check(pairs.find([str(folder)]))


def rendered(of: Report, root: Path | None = None, **settings: Any) -> str:
    return html.render(of, Context(root=str(root or os.getcwd()), **settings))  # noqa: PTH109


RACE = finding(
    "race",
    "MG301",
    trace=(
        at(line=1, note="task 356 (TASK_X, layer 0, input 3) writes bytes 0..99 of kv"),
        at(line=2, note="task 356 triggers event 164 (END) then"),
        at(line=3, note="event 3 is the last that comes before both"),
        at(line=4, note="task 357 (TASK_Y) waits for event 11 only, and reads bytes 0..99 of kv"),
    ),
)
STALL = finding(
    "stall", "MG403", trace=tuple(at(line=n, note=f"event {n} needs 9") for n in range(1, 20))
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What Chromium found on a page with a hole, in several ways, and on two others."""
    browser = chromium()
    need(browser, "Chromium is not installed: apt install chromium")
    folder = tmp_path_factory.mktemp("pages")
    qwen3(layers=8).without_rope(layer=2).write(folder)
    pages = {
        "hole": audited(folder),
        "hostile": hostile_report(),
        "race": report(RACE, STALL),
    }
    deepseek_v3(61).without_rope(layer=7).write(folder / "deep")
    pages["deep"] = audited(folder / "deep")
    for name, of in pages.items():
        (folder / f"{name}.html").write_text(rendered(of, folder), encoding="utf-8")
    visits = {
        name: f"{(folder / name.split()[0]).as_uri()}.html{''.join(f',{w}' for w in words)}"
        for name, words in {
            "hole": (),
            "hole dark": ("dark", "phone"),
            "hole plain": ("nojs",),
            "hostile": (),
            "race": (),
            "deep": (),
            "deep phone": ("phone",),
            "deep plain": ("phone", "nojs"),
        }.items()
    }
    out = node("browser.mjs", str(browser), *visits.values(), package="playwright-core")
    return dict(zip(visits, json.loads(out), strict=True))


@pytest.mark.slow
def test_the_hole_is_seen(seen: dict[str, dict[str, Any]]) -> None:
    found = seen["hole"]
    assert [role for role, _ in found["holes"]] == [
        "cos_position_embedding",
        "sin_position_embedding",
    ]
    assert all(
        re.fullmatch(r"Layer 2, \w+: no task reads it; declared at line \d+", tip)
        for _, tip in found["holes"]
    )
    assert found["holes_shown"] == 2
    assert found["hole_color"] != found["read_color"]
    assert found["title"].startswith("mirage-gate: ")


@pytest.mark.slow
def test_no_page_complains_or_asks_the_network(seen: dict[str, dict[str, Any]]) -> None:
    for found in seen.values():
        assert found["said"] == []
        assert found["asked"] == []
        assert found["wider"] <= 0


@pytest.mark.slow
def test_findings_are_filtered_with_and_without_scripts(seen: dict[str, dict[str, Any]]) -> None:
    for name in ("hole", "hole plain"):
        found = seen[name]
        assert found["cards"] == ["error MG701"]  # the notes are folded away
        assert found["filtered"]["only-MG701"] == ["error MG701"]
        assert set(found["filtered"]["only-MG103"]) == {"note MG103"}
        assert "error MG701" not in found["without_errors"]
    assert seen["race"]["filtered"] == {
        "only-MG301": ["error MG301"],
        "only-MG403": ["error MG403"],
    }
    # A rule may be called anything by a summary of another version: it gets no selector.
    assert all(re.fullmatch(r"only-[A-Z]{2}\d+", id) for id in seen["hostile"].get("filtered", {}))


@pytest.mark.slow
def test_the_header_jumps(seen: dict[str, dict[str, Any]]) -> None:
    assert seen["hole"]["jumps"] == ["map", "plan", "errors", "notes"]
    assert all(found["jumped"] for found in seen.values())


@pytest.mark.slow
def test_a_wide_map_says_that_it_scrolls(seen: dict[str, dict[str, Any]]) -> None:
    for name, found in seen.items():
        if "plain" not in name:
            assert found["sign"] == found["scrolls"], name
    assert seen["deep phone"]["sign"]
    assert seen["deep plain"]["sign"]
    assert not seen["hole"]["sign"]
    assert len(seen["deep"]["holes"]) == 2


@pytest.mark.slow
def test_a_hole_is_seen_on_paper(seen: dict[str, dict[str, Any]]) -> None:
    """Black on white, with a border, in colours that the printer must keep; nothing sticks."""
    for name in ("hole", "hole dark", "deep"):
        assert seen[name]["printed_hole"] == ["rgb(0, 0, 0)", "2px", "exact"]
        assert seen[name]["printed_position"] == "static"


def test_the_header_says_what_was_audited(tmp_path: Path) -> None:
    ranks = (rank(0, folder=f"{tmp_path}/gen/"), rank(1, folder=f"{tmp_path}/gen/"))
    page = rendered(report(ranks=ranks), tmp_path, commit="0123456789ab")
    assert "<dt>Folder</dt><dd><code>gen</code></dd>" in page
    assert "<dt>Commit</dt><dd><code>0123456789ab</code></dd>" in page
    assert f">mirage-gate {__version__}</p>" in page
    assert "<title>mirage-gate: passed, no findings (gen)</title>" in page
    many = tuple(rank(n, folder=f"{tmp_path}/r{n}/") for n in range(6))
    page = rendered(report(ranks=many), tmp_path)
    assert "<dt>Folders</dt><dd><code>r0</code>, <code>r1</code>" in page
    assert "and 2 mores" not in page
    assert "and 2 more" in page
    assert "<dt>Commit" not in page
    # A commit says nothing of what lies outside of its repository.
    elsewhere = report(ranks=(rank(0, folder="/elsewhere/"),))
    assert "<dt>Commit" not in rendered(elsewhere, tmp_path, commit="0123456789ab")


def test_the_commit_is_the_repositorys(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo")
    qwen3(2).write(repository.folder / "gen")
    commit = repository.commit()
    done = gate_here("check", "gen", "-o", "html=out/x.html", cwd=repository.folder)
    assert done.returncode == 0, done.stdout
    page = (repository.folder / "out" / "x.html").read_text()
    assert f"<code>{commit[:12]}</code>" in page


def test_a_cell_of_a_tight_map_has_room_for_its_number() -> None:
    uses = [LayerUse(n, 7, 0, 0, 0, ()) for n in range(61)]
    for most, tight in ((7, True), (100, False)):
        layers = (*uses[:-1], LayerUse(60, most, 0, 0, 0, ()))
        tensor = msgspec.structs.replace(coverage("cos", 8, critical=True), layers=layers)
        page = rendered(report(ranks=(rank(0, tensor),)))
        assert ('class="map dense tight"' in page) is tight


@pytest.mark.slow
def test_the_map_is_reached_by_keys(seen: dict[str, dict[str, Any]]) -> None:
    found = seen["hole"]
    assert found["first_focus"].startswith("Layer 2, cos_position_embedding: no task reads it")
    assert found["first_detail"] == found["first_focus"]
    assert found["next_detail"].startswith("Layer 3, cos_position_embedding: read by 4 tasks")
    assert "bytes" in found["next_detail"]
    assert found["still_cell"] == "TD"
    assert found["target_shown"]


@pytest.mark.slow
def test_dark_on_a_phone_and_without_scripts(seen: dict[str, dict[str, Any]]) -> None:
    dark, plain = seen["hole dark"], seen["hole plain"]
    assert dark["background"] != plain["background"]
    assert plain["holes_shown"] == 2
    for words in ("Wiring map", "layer_N_q_norm", "cos_position_embedding"):
        assert words in dark["text"]
        assert words in plain["text"]


@pytest.mark.slow
def test_hostile_names_stay_text(seen: dict[str, dict[str, Any]]) -> None:
    found = seen["hostile"]
    assert found["scripts"] == 1
    assert found["foreign"] == 0
    for shown in ("<script>alert(1)</script>", r"\u202egnp.cu\u2066", r"\x1b[2J", "a\"b'c"):
        assert shown in found["text"]


def test_a_race_is_drawn() -> None:
    drawn = drawing(RACE)
    assert drawn
    assert drawn.missing
    assert [node.label for node in drawn.nodes] == [
        *("task 356", "task 357", "event 3", "END", "event 11")
    ]
    drawn = drawing(STALL)
    assert drawn
    assert [node.label for node in drawn.nodes][3:6] == ["event 4", "11 more", "event 16"]
    assert drawing(finding(trace=(at(note="<b>"),))) is None


@pytest.mark.slow
def test_drawings_say_what_they_show(seen: dict[str, dict[str, Any]]) -> None:
    assert [label[:8] for label in seen["race"]["drawings"]] == ["event 1,", "task 356"]


def test_code_stands_around_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "kernel_0.cu"
    lines = [f"line {n} <b> \t\x1b\u202e" for n in range(1, 200_000)]
    path.write_text("\n".join(lines), encoding="utf-8")
    place = at(str(path), 199_998, 1, width=4)
    found = Excerpts([place]).of(place)
    assert [line.number for line in found] == [199_996, 199_997, 199_998, 199_999]
    assert found[2].mark == "line"
    assert found[2].after == r" 199998 <b>     \x1b\u202e"
    page = rendered(report(finding(location=place)), tmp_path)
    assert "<mark>line</mark> 199998 &lt;b&gt;" in page
    assert str(tmp_path) not in page


def test_excerpts_of_odd_files(tmp_path: Path) -> None:
    long = tmp_path / "long.json"
    long.write_text("x" * 5_000_000 + "HERE" + "y" * 5_000_000, encoding="utf-8")
    place = at(str(long), 1, 5_000_001, width=4)
    (line,) = Excerpts([place]).of(place)
    assert line.mark == "HERE"
    assert len(line.before) < 100
    assert len(line.after) < 200
    for path in (str(tmp_path), str(tmp_path / "absent"), "\0"):
        assert Excerpts([at(path)]).of(at(path)) == []
    past = at(str(long), 9)
    assert Excerpts([past]).of(past) == []


def test_a_dense_layer_has_no_hole(tmp_path: Path) -> None:
    """What only the MoE layers have is not missing in the dense ones."""
    deepseek_v3(7).write(tmp_path)
    drawn = wiring_map(audited(tmp_path).ranks[0])
    assert drawn.holes == 0
    assert not [row.role for _, rows in drawn.groups for row in rows if row.gaps]
    assert drawn.columns == (None, 0, 1, 2, 3, 4, 5, 6)


def test_the_page_stays_small(tmp_path: Path) -> None:
    findings = [finding(f"f{n}", location=at(line=n)) for n in range(1, 6_000)]
    page = rendered(report(*findings, finding("n", "MG103", Severity.NOTE), ranks=(rank(0),)))
    assert len(page) < 1_000_000
    assert "4,000 more findings left out" in page
    assert "1,800 more findings" in page


def test_a_slot_that_may_be_ignored_is_no_hole() -> None:
    tensors = (
        coverage("input_token", inputs=1),
        coverage("cos", inputs=1, critical=True),
        coverage("w"),
    )
    of = RankReport(0, "kernel_0.cu", "task_graph_0.json", audited=True, coverage=tensors)
    drawn = wiring_map(of)
    holes = [row.role for _, rows in drawn.groups for row in rows if row.holes]
    assert holes == ["cos", "w"]


def test_a_summary_without_layers_has_no_hole() -> None:
    """After `merge`, a shared tensor's readers are known, and not in which layers they are."""
    tensors = (coverage("cos", 4, critical=True), coverage("layer_0_w", 1), coverage("x", 1))
    of = RankReport(0, "kernel_0.cu", "task_graph_0.json", audited=True, coverage=tensors)
    drawn = wiring_map(of)
    assert drawn.columns == (None, 0)
    cells = {row.role: [c.state for c in row.cells] for _, rows in drawn.groups for row in rows}
    assert cells == {
        "cos": ["read", "none"],
        "layer_N_w": ["none", "read"],
        "x": ["read", "none"],
    }
