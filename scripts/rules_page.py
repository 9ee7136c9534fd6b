"""Write docs/rules.md from the rule table.

    python scripts/rules_page.py

A test fails while the page and the table differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mirage_gate.rules import Rule, all_rules  # noqa: E402

PAGE = ROOT / "docs" / "rules.md"

FAMILIES = {
    "MG1": "Wiring: is every declared tensor wired to a task, and every wired tensor declared?",
    "MG2": "Bytes: does what is read lie inside what is written and allocated?",
    "MG3": "Order: does every read come after its write?",
    "MG4": "Events: do the counts let the graph run to its end?",
    "MG5": "Kernels: does every task have a body, and every body its slots?",
    "MG6": "Ranks: do all ranks agree?",
    "MG7": "Layers: is every layer wired like its siblings?",
    "MG8": "Memory: has coverage fallen since it was agreed on?",
    "MG9": "Input: could the files be taken in at all?",
}


def page() -> str:
    """Give the whole page."""
    return "\n".join(_lines(all_rules())).rstrip() + "\n"


def _lines(rules: tuple[Rule, ...]) -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield "<!-- Written by scripts/rules_page.py from the rule table. Do not edit it here. -->"
    yield ""
    yield "`mirage-gate explain` prints the same at a terminal. A severity can be changed, a rule"
    yield "switched off, in the [configuration](configuration.md); `--select` and `--ignore` choose"
    yield "rules for one run. The severity given here is the highest that a rule's findings have."
    for family, of_family in groupby(rules, lambda rule: rule.family):
        members = list(of_family)
        yield ""
        yield f"**{FAMILIES[family]}**"
        yield ""
        yield "| rule | name | severity | what it proves |"
        yield "|---|---|---|---|"
        for rule in members:
            claim = rule.claim.replace("|", "\\|")
            yield f"| [{rule.id}](#{rule.id.lower()}) | {rule.name} | {rule.severity} | {claim} |"
    for rule in rules:
        yield from ("", f"## {rule.id}", "")
        yield f"**{rule.name}** · {rule.severity}"
        yield from ("", rule.claim, "", rule.why)
        for title, body in (("Example", rule.example), ("Fix", rule.fix)):
            if body:
                yield from ("", f"**{title}.** {body}")
        if rule.limits:
            yield from ("", f"**When it is wrong to complain, or cannot see.** {rule.limits}")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
