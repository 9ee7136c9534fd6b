"""What CONTRIBUTING.md says of the package's files."""

from __future__ import annotations

import re

from tests.scratch import ROOT

PACKAGE = ROOT / "mirage_gate"


def test_files_are_as_short_as_they_are_said_to_be() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = re.search(r"Files of the package stay under (\d+) lines, rules under (\d+)", page)
    assert said
    most, most_of_a_rule = map(int, said.groups())
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    long = {}
    for file in files:
        name = file.relative_to(PACKAGE)
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines >= (most_of_a_rule if name.parts[0] == "rules" else most):
            long[str(name)] = lines
    assert long == {}, "a file that grows has two thoughts"
