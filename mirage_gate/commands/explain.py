"""``explain``: the rule table as text."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mirage_gate.commands._common import complete_rules
from mirage_gate.rules import Rule, all_rules, rule_by_id


@click.command(short_help="Say what a rule proves and how to fix it.")
@click.argument("rules", nargs=-1, metavar="[RULE]...", shell_complete=complete_rules)
def command(rules: tuple[str, ...]) -> int:
    """Say what each RULE proves, with an example and how to fix it.

    A family, such as MG1, is listed; so are all rules without RULE.
    """
    if not rules:
        click.echo(catalogue(all_rules()))
        return 0
    click.echo("\n\n\n".join(map(_told, dict.fromkeys(rules))))
    return 0


def _told(word: str) -> str:
    if family := [rule for rule in all_rules() if rule.family == word.strip().upper()]:
        return catalogue(family)
    found = rule_by_id(word)
    if found is None:
        raise click.UsageError(f"{word!r} is no rule; `mirage-gate explain` lists them")
    return page(found)


def catalogue(rules: Sequence[Rule]) -> str:
    """List rules on one line each."""
    width = max(len(rule.name) for rule in rules)
    return "\n".join(
        f"{rule.id}  {rule.severity!s:7}  {rule.name:{width}}  {rule.claim}" for rule in rules
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
