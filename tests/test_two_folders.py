"""Two models in one report: what is said of one is not pinned on the other."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from mirage_gate.cli import cli
from tests.emitter import qwen3


def written(tmp_path: Path, form: str) -> str:
    qwen3(4).write(tmp_path / "sound")
    qwen3(4).without_rope(layer=2).write(tmp_path / "holed")
    out = tmp_path / "report"
    folders = [str(tmp_path / name) for name in ("sound", "holed")]
    CliRunner().invoke(cli, ["check", *folders, "-o", f"{form}={out}"], standalone_mode=False)
    return out.read_text()


def test_the_page_marks_a_finding_in_its_own_plan(tmp_path: Path) -> None:
    page = written(tmp_path, "html")
    plans = page[page.index("The model, read back") :]
    sound, holed = plans.index("/sound)"), plans.index("/holed)")
    first, second = sorted((sound, holed))
    parts = {first: plans[first:second], second: plans[second:]}
    assert "MG701" not in parts[sound].split("</section>")[0]
    assert re.search(r"MG701", parts[holed])


def test_a_table_with_a_hole_is_not_ticked(tmp_path: Path) -> None:
    page = written(tmp_path, "markdown")
    marks = dict.fromkeys(re.findall(r"^\| (\S+) \| `(\w+_position_embedding)`", page, re.M))
    assert ("❌", "cos_position_embedding") in marks
    assert ("✅", "cos_position_embedding") in marks


def test_settings_with_kernels_are_shown(tmp_path: Path) -> None:
    config = tmp_path / "mirage-gate.toml"
    config.write_text('[[kernels]]\nfunction = "f"\n')
    done = CliRunner().invoke(
        cli, ["check", "--show-settings", "--config", str(config)], standalone_mode=False
    )
    assert done.exception is None
    assert 'function = "f"' in done.output
    plain = CliRunner().invoke(cli, ["check", "--show-settings"], standalone_mode=False)
    assert "kernels = []" not in plain.output
