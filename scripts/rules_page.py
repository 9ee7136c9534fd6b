"""Write docs/rules.md from the rule table.

    python scripts/rules_page.py

A test fails while the page and the table differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mirage_gate.rules import Rule, all_rules  # noqa: E402
from mirage_gate.rules.base import question_of  # noqa: E402

PAGE = ROOT / "docs" / "rules.md"


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
    families: dict[str, list[Rule]] = {}
    for rule in rules:
        families.setdefault(rule.folder, []).append(rule)
    for folder, members in families.items():
        yield ""
        yield f"**{question_of(folder)}**"
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
                # A block of code stands on lines of its own.
                between = "\n\n" if body.startswith("```") else " "
                yield from ("", f"**{title}.**{between}{body}")
        if rule.limits:
            yield from ("", f"**When it is wrong to complain, or cannot see.** {rule.limits}")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
