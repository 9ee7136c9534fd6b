"""The rule table as text: what ``explain`` prints."""

from __future__ import annotations

from mirage_gate.rules import Rule, all_rules


def catalogue() -> str:
    """List every rule on one line each."""
    width = max(len(rule.name) for rule in all_rules())
    return "\n".join(
        f"{rule.id}  {rule.severity!s:7}  {rule.name:{width}}  {rule.claim}" for rule in all_rules()
    )


def page(rule: Rule) -> str:
    """Say all there is to say of one rule."""
    sections = [
        f"{rule.id} {rule.name} ({rule.severity})",
        rule.claim,
        f"Why\n{rule.why}",
        f"Example\n{rule.example}",
        f"Fix\n{rule.fix}",
    ]
    if rule.limits:
        sections.append(f"Limits\n{rule.limits}")
    return "\n\n".join(sections)
