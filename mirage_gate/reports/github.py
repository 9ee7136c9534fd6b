"""Workflow commands: the findings as annotations of a pull request, for a GitHub job's log.

The text report comes first, fenced off: a line of it that looks like a workflow command is
none to the runner. Then one command for each finding that GitHub will show.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from mirage_gate.escaping import workflow_data, workflow_property
from mirage_gate.findings import INPUT, Finding, Severity
from mirage_gate.report import Report
from mirage_gate.reports import Context, _words, text
from mirage_gate.reports._paths import shown

NAME = "github"
DESCRIPTION = "for a GitHub job's log: the text report, then annotations as workflow commands"

MOST_PER_LEVEL = 10
"""GitHub shows no more annotations of one level from one step."""

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, context: Context) -> str:
    """Give the text report in its fence, and a workflow command per finding."""
    told = text.render(report, context)
    fence = _fence(told)
    fenced = f"::stop-commands::{fence}\n{told}::{fence}::\n"
    return fenced + "".join(f"{line}\n" for line in _annotations(report, context))


def _fence(content: str) -> str:
    """A word that ends the fence, and that the fenced text cannot hold.

    Who writes a name into an artifact cannot write the hash of a text that holds the name.
    """
    fence = sha256(content.encode("utf-8", errors="backslashreplace")).hexdigest()
    while fence in content:
        fence = sha256(fence.encode()).hexdigest()
    return fence


def _annotations(report: Report, context: Context) -> Iterator[str]:
    groups = report.distinct
    told = {finding.rank for finding in report.findings if finding.rule.startswith(INPUT)}
    for rank in report.failed_ranks:
        if rank.rank not in told:
            # Its reader says nothing of it: an internal error.
            path = rank.cuda_path or rank.graph_path
            where = f" file={workflow_property(shown(path, context.root))},line=1" if path else ""
            failure = workflow_data(f"rank {rank.rank} was not audited: {rank.failure}")
            yield f"::error{where}::{failure}"
    for severity, command in _COMMANDS.items():
        of_level = [same for same in groups if same[0].severity is severity]
        for same in of_level[:MOST_PER_LEVEL]:
            yield _annotation(command, same, len(report.ranks) > 1, context)
        if (more := len(of_level) - MOST_PER_LEVEL) > 0:
            yield (
                f"mirage-gate: {_words.count(more, f'more {severity}')} not shown as annotations: "
                f"GitHub takes {MOST_PER_LEVEL} of a level"
            )


def _annotation(command: str, same: list[Finding], ranks: bool, context: Context) -> str:
    first = same[0]
    message = first.message
    if ranks:
        message += f" ({_words.ranks(finding.rank for finding in same)})"
    lines = [message, *([f"hint: {first.hint}"] if first.hint else [])]
    properties = ",".join(
        f"{key}={workflow_property(value)}"
        for key, value in (
            ("file", shown(first.location.path, context.root)),
            # The start line alone: a span of several lines hides the mark.
            ("line", str(max(1, first.location.line))),
            ("title", _words.name(first.rule)),
        )
    )
    return f"::{command} {properties}::{'%0A'.join(map(workflow_data, lines))}"
