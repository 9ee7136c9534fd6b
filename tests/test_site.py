"""The documentation's site and the manual page, built with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from mirage_gate.cli import cli
from mirage_gate.rules import all_rules
from tests.scratch import ROOT, run


def built(kind: str, folder: Path) -> Path:
    options = ("-W", "--keep-going", "-n", "-q", "-d", str(folder / "trees"), "-b", kind)
    done = run(sys.executable, "-m", "sphinx", *options, "docs", folder / kind, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    return folder / kind


@pytest.mark.slow
def test_the_site_has_every_page_and_every_option(tmp_path: Path) -> None:
    site = built("html", tmp_path)
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file(), page
    commands = (site / "commands.html").read_text(encoding="utf-8")
    context = cli.make_context("mirage-gate", [], resilient_parsing=True)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command
        for option in (o for p in command.params for o in p.opts if o.startswith("--")):
            assert f"{name}-{option[2:]}" in commands, f"{name} {option}"
    rules = (site / "rules.html").read_text(encoding="utf-8")
    for rule in all_rules():
        assert f'id="{rule.id.lower()}"' in rules
    # A link out of the documentation leads to the repository.
    assert not re.search(r'href="\.\./', (site / "index.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_manual_page(tmp_path: Path) -> None:
    page = (built("man", tmp_path) / "mirage-gate.1").read_text(encoding="utf-8")
    assert page.splitlines()[3].startswith('.TH "MIRAGE-GATE" "1"') or ".TH" in page
    for word in ("check", "explain", r"\-\-ranks", r"\-\-model\-config", "exit status"):
        assert word in page, word
    assert "option::" not in page


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["a link", "a page"])
def test_a_mistake_fails_the_site(tmp_path: Path, missing: str) -> None:
    (tmp_path / "docs").mkdir()
    for path in (ROOT / "docs").glob("*.*"):
        (tmp_path / "docs" / path.name).write_bytes(path.read_bytes())
    index = tmp_path / "docs" / "index.md"
    if missing == "a link":
        index.write_text(index.read_text() + "\n[x](absent.md)\n")
    else:
        (tmp_path / "docs" / "hook.md").unlink()
    options = ("-W", "-n", "-q", "-b", "dummy")
    done = run(
        sys.executable, "-m", "sphinx", *options, tmp_path / "docs", tmp_path / "o", cwd=ROOT
    )
    assert done.returncode != 0


def test_read_the_docs_fails_on_a_warning() -> None:
    settings = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text(encoding="utf-8"))
    assert settings["sphinx"] == {"configuration": "docs/conf.py", "fail_on_warning": True}
    assert settings["python"]["install"][0]["extra_requirements"] == ["docs"]
