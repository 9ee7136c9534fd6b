"""``waive``: write waivers for the findings of a run, each with a reason to fill in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mirage_gate.commands import _asked, _common, _run

if TYPE_CHECKING:
    from mirage_gate.report import Report


@click.command(short_help="Write waivers for what is found.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=_common.AnyPath())
@click.option("--pyproject", is_flag=True, help="For pyproject.toml rather than mirage-gate.toml.")
@_asked.questions
def command(paths: tuple[str, ...], pyproject: bool, **values: Any) -> int:
    """Print a waiver for each finding of the artifacts in each PATH that would fail the gate.

    To be added to the configuration (`>> mirage-gate.toml`), each with its reason filled in: an
    empty one is refused by what honours waivers. What could not be read cannot be waived, and what
    the configuration waives already is not printed again.
    """
    from mirage_gate import config
    from mirage_gate.artifacts import pairs
    from mirage_gate.auditing import ranks as all_ranks

    asked = _asked.asked(values, unfinished=True)
    try:
        found = pairs.find(paths or asked.settings.paths or ["."], asked.ranks, _run.warn)
    except pairs.NothingFound as error:
        raise _common.Refused(str(error)) from error
    report = all_ranks.check(
        found,
        asked.options,
        asked.selection,
        memory=asked.memory,
        jobs=asked.jobs or all_ranks.default_jobs(found),
        by_layer=False,
        chosen=bool(asked.ranks),
    )
    report = _asked.located(report, asked)
    click.echo("".join(_waivers(report, asked, pyproject)), nl=False)
    if without := [waiver for waiver in asked.memory.waivers if not waiver.reason.strip()]:
        _run.warn(config.lacks_reason(without))
    for rank in report.failed_ranks:
        _run.warn(f"rank {rank.rank} was not audited: {rank.failure}")
    return int(bool(report.failed_ranks))


def _waivers(report: Report, asked: _asked.Asked, pyproject: bool) -> Iterator[str]:
    from mirage_gate.escaping import plain
    from mirage_gate.findings import INPUT, Severity
    from mirage_gate.rules import rule_by_id

    bar = Severity.NOTE if asked.fail_on == "never" else Severity(asked.fail_on)
    table = "tool.mirage-gate.waivers" if pyproject else "waivers"
    told: set[tuple[str, str]] = set()
    # What follows from a finding is said itself once that one is waived.
    every = [one for finding in report.findings for one in (finding, *finding.folded)]
    for finding in every:
        if finding.severity.weight < bar.weight or finding.rule.startswith(INPUT):
            continue
        rule = rule_by_id(finding.rule)
        for name in finding.tensors or ("",):
            if (finding.rule, name) in told:
                continue
            told.add((finding.rule, name))
            comment = f"{rule.name if rule else finding.rule}: {plain(finding.message)}"
            yield f"# {comment}\n[[{table}]]\n"
            yield f"rule = {_quoted(finding.rule)}\n"
            yield f"tensor = {_quoted(_literally(name))}\n"
            yield 'reason = ""\n\n'


def _literally(name: str) -> str:
    """A pattern that a name alone matches."""
    quoted = {"*": "[*]", "?": "[?]", "[": "[[]"}
    # Half of a surrogate pair cannot be written in TOML.
    return "".join("?" if "\ud800" <= c <= "\udfff" else quoted.get(c, c) for c in name)


def _quoted(text: str) -> str:
    """A TOML basic string."""
    from mirage_gate.escaping import visible

    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(_escape(c) if visible(c) != c else c for c in escaped)}"'


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
