"""SARIF 2.1.0, as GitHub's code scanning takes it.

Two runs over the same files give the same bytes: no
times, no random ids.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mirage_gate import __url__, __version__
from mirage_gate.escaping import sarif_link, sarif_message, visible
from mirage_gate.findings import Finding, Location, Severity, in_order
from mirage_gate.report import RankReport, Report
from mirage_gate.reports import Context
from mirage_gate.reports import _sarif_log as log
from mirage_gate.reports._fingerprints import line_hashes
from mirage_gate.reports._paths import file_uri, relative_uri, shown
from mirage_gate.reports._words import rule_url
from mirage_gate.rules.base import Rule, all_rules

NAME = "sarif"
DESCRIPTION = "for GitHub code scanning and other SARIF 2.1.0 viewers"

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

MOST_RESULTS = 5_000
"""GitHub shows no more than the first 5,000 results of an upload."""
MOST_STEPS = 100
"""Steps of one trace; the reference validator lets no more pass."""
MOST_RELATED = 100
MOST_LINKS = 5
MOST_MERGED = 10

_BASE = "%SRCROOT%"
_PRECISION = {Severity.ERROR: "very-high", Severity.WARNING: "high", Severity.NOTE: "high"}
_PROBLEM = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "recommendation",
}
_FAMILIES = {
    "MG1": "wiring",
    "MG2": "bytes",
    "MG3": "order",
    "MG4": "events",
    "MG5": "kernels",
    "MG6": "ranks",
    "MG7": "layers",
    "MG8": "memory",
    "MG9": "input",
}


def render(report: Report, context: Context) -> str:
    """Give the whole report as one SARIF log with one run."""
    groups = _merged(report.findings)
    left_out = max(0, len(groups) - MOST_RESULTS)
    groups = groups[:MOST_RESULTS]
    if context.hidden:  # not by itself: GitHub shows a suppressed result like any other
        groups += _merged(report.hidden)[: MOST_RESULTS - len(groups)]
    rules = _rules(groups)
    places = _Places(context.root)
    fingerprints = _fingerprints(groups, report.ranks)
    names = {tensor.tensor for rank in report.ranks for tensor in rank.coverage}
    names.update(name for group in groups for finding in group for name in finding.tensors)
    indexes = {rule.id: index for index, rule in enumerate(rules)}
    run = log.Run(
        tool=log.Tool(driver=_driver(rules, _levels(groups))),
        # Every column is counted in characters.
        column_kind="unicodeCodePoints",
        results=[_result(group, indexes, fingerprints, places, names) for group in groups],
        invocations=[_invocation(report, context, left_out, places)],
        # Results are places; these count what every other report counts.
        properties={"findings": {str(level): report.count(level) for level in Severity}},
    )
    if places.used_base:
        run.original_uri_base_ids = {
            _BASE: log.ArtifactLocation(description=log.Message(text="The root of the sources."))
        }
    if places.used_absolute:
        # Against this, GitHub makes absolute URIs relative. No folder of the file system may
        # do: what is left of the path must not look like a file of the repository.
        run.invocations[0].working_directory = log.ArtifactLocation(uri="file:///")
    whole = log.SarifLog(schema=SCHEMA, version="2.1.0", runs=[run])
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"


# --- Rules -----------------------------------------------------------------------------


def _rules(groups: Iterable[Sequence[Finding]]) -> list[Rule]:
    """The whole table, and a stand-in for a finding's rule that it lacks."""
    known = {rule.id: rule for rule in all_rules()}
    for group in groups:
        finding = group[0]
        if finding.rule not in known:
            claim = f"{finding.rule} is a rule of another version"
            known[finding.rule] = Rule(
                id=finding.rule,
                name="unknown-rule",
                severity=finding.severity,
                claim=claim,
                why=claim,
                example="",
                fix="",
            )
    return [known[id] for id in sorted(known)]


def _levels(groups: Iterable[Sequence[Finding]]) -> dict[str, Severity]:
    """The lowest level among each rule's results.

    Some viewers show the rule's level in place of the result's: they must not make an error
    of a note. Where a rule has no result, its own severity stands.
    """
    levels: dict[str, Severity] = {}
    for group in groups:
        lowest = min((f.severity for f in group), key=lambda severity: severity.weight)
        other = levels.setdefault(group[0].rule, lowest)
        levels[group[0].rule] = min(lowest, other, key=lambda severity: severity.weight)
    return levels


def _driver(rules: Iterable[Rule], levels: Mapping[str, Severity]) -> log.ToolComponent:
    return log.ToolComponent(
        name="mirage-gate",
        version=__version__,
        semantic_version=__version__,
        information_uri=__url__,
        rules=[_descriptor(rule, levels.get(rule.id, rule.severity)) for rule in rules],
    )


def _descriptor(rule: Rule, level: Severity) -> log.ReportingDescriptor:
    claim = _sentence(rule.claim[:1].upper() + rule.claim[1:])
    reason = rule.why.partition("\n\n")[0].replace("\n", " ")
    return log.ReportingDescriptor(
        id=rule.id,
        name=rule.title,
        short_description=log.MultiformatMessageString(text=claim),
        full_description=log.MultiformatMessageString(text=_sentence(f"{claim} {reason}")),
        help=log.MultiformatMessageString(
            text="\n\n".join(f"{title}\n{body}" for title, body in _help(rule)),
            markdown="\n\n".join(f"## {title}\n{body}" for title, body in _help(rule)),
        ),
        help_uri=rule_url(rule.id),
        default_configuration=log.ReportingConfiguration(level=str(level)),
        properties={
            "precision": _PRECISION[level],
            "problem.severity": _PROBLEM[level],
            "tags": ["megakernel", _FAMILIES.get(rule.family, "other")],
        },
    )


def _help(rule: Rule) -> Iterator[tuple[str, str]]:
    yield f"{rule.id} {rule.name}", _sentence(rule.claim)
    sections = {"Why": rule.why, "Example": rule.example, "Fix": rule.fix, "Limits": rule.limits}
    yield from ((title, body) for title, body in sections.items() if body)


_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*(?=[ ,:;])")


def _sentence(text: str, names: Collection[str] = ()) -> str:
    """With a capital first and a period last. A name that comes first keeps its case."""
    text = text.strip()
    first = _WORD.match(text)
    if first and first[0] not in names:
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


# --- Results ---------------------------------------------------------------------------


def _merged(findings: Iterable[Finding]) -> list[list[Finding]]:
    """One group per rule and line: a viewer shows a line's two alerts of a rule as one."""
    groups: dict[tuple[str, str, int], list[Finding]] = {}
    for finding in in_order(findings):
        at = finding.location
        groups.setdefault((finding.rule, at.path, at.line), []).append(finding)
    return list(groups.values())


def _fingerprints(
    groups: Iterable[Sequence[Finding]], ranks: Iterable[RankReport]
) -> dict[tuple[str, int], str]:
    """The fingerprint of every primary location whose file can be read."""
    marks = {rank.graph_path: rank.marks for rank in ranks}
    lines: dict[str, set[int]] = {}
    for group in groups:
        at = group[0].location
        lines.setdefault(at.path, set()).add(max(1, at.line))
    found: dict[tuple[str, int], str] = {}
    for path, wanted in lines.items():
        if os.path.isfile(path):  # noqa: PTH113 - a path may hold anything, even a zero byte
            hashes = line_hashes(path, wanted, marks.get(path, ()))
            found.update(((path, line), value) for line, value in hashes.items())
    return found


def _result(
    group: Sequence[Finding],
    indexes: Mapping[str, int],
    fingerprints: Mapping[tuple[str, int], str],
    places: _Places,
    names: Collection[str],
) -> log.Result:
    first = group[0]
    related = list(dict.fromkeys(place for finding in group for place in finding.related))
    related = related[:MOST_RELATED]
    result = log.Result(
        message=log.Message(text=_message(group, related, places, names)),
        rule_id=first.rule,
        rule_index=indexes[first.rule],
        level=str(first.severity),
        locations=[log.Location(physical_location=places.physical(first.location))],
        properties=_properties(group),
    )
    if first.hidden:
        result.suppressions = [log.Suppression(kind="external", justification=first.hidden)]
    if fingerprint := fingerprints.get((first.location.path, max(1, first.location.line))):
        result.partial_fingerprints = {"primaryLocationLineHash": fingerprint}
    if related:
        result.related_locations = [places.noted(place, id) for id, place in enumerate(related, 1)]
    if traces := list(dict.fromkeys(finding.trace for finding in group if finding.trace)):
        result.code_flows = [_code_flow(trace, places) for trace in traces]
    return result


def _message(
    group: Sequence[Finding],
    related: Sequence[Location],
    places: _Places,
    names: Collection[str],
) -> str:
    """What was found, how to fix it, and links to the other places it names."""
    messages = list(dict.fromkeys(finding.message for finding in group))
    hints = list(dict.fromkeys(finding.hint for finding in group if finding.hint))
    more = len(messages) - MOST_MERGED
    parts = [_sentence(sarif_message(text), names) for text in messages[:MOST_MERGED]]
    if more > 0:
        parts.append(f"And {more:,} more like this.")
    parts += [_sentence(sarif_message(text), names) for text in hints[:MOST_MERGED]]
    links = [
        sarif_link(place.note or places.name(place), id)
        for id, place in enumerate(related[:MOST_LINKS], 1)
    ]
    if links:
        parts.append(f"See {', '.join(links)}.")
    return " ".join(parts)


def _properties(group: Sequence[Finding]) -> dict[str, Any]:
    tensors = sorted({visible(name) for finding in group for name in finding.tensors})
    ranks = sorted({finding.rank for finding in group})
    properties: dict[str, Any] = {"ranks": ranks}
    if tensors:
        properties["tensors"] = tensors[:MOST_MERGED]
    if folded := dict.fromkeys((o.rule, o.message) for finding in group for o in finding.folded):
        # All of them: a baseline is to know them.
        properties["folded"] = [
            {"rule": rule, "message": sarif_message(message)} for rule, message in folded
        ]
    return properties


def _code_flow(trace: Sequence[Location], places: _Places) -> log.CodeFlow:
    half = MOST_STEPS // 2
    if len(trace) > MOST_STEPS:
        trace = (*trace[:half], *trace[-half:])
    steps = [log.ThreadFlowLocation(location=places.noted(step)) for step in trace]
    return log.CodeFlow(thread_flows=[log.ThreadFlow(locations=steps)])


class _Places:
    """Locations as SARIF has them, and which kinds of URI they came to need."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._artifacts: dict[str, log.ArtifactLocation] = {}
        self.used_base = False
        self.used_absolute = False

    def name(self, place: Location) -> str:
        return f"{shown(place.path, self._root)}:{max(1, place.line)}"

    def artifact(self, path: str) -> log.ArtifactLocation:
        if path not in self._artifacts:
            uri = relative_uri(path, self._root)
            self._artifacts[path] = (
                log.ArtifactLocation(uri=file_uri(path))
                if uri is None
                else log.ArtifactLocation(uri=uri, uri_base_id=_BASE)
            )
        found = self._artifacts[path]
        self.used_base |= found.uri_base_id is not None
        self.used_absolute |= found.uri_base_id is None
        return found

    def physical(self, place: Location) -> log.PhysicalLocation:
        """A place with its full region: GitHub marks nothing without all four numbers."""
        line, column = max(1, place.line), max(1, place.column)
        end_line, end_column = max(line, place.end_line), place.end_column
        if end_line == line:
            end_column = max(column + 1, end_column)
        return log.PhysicalLocation(
            artifact_location=self.artifact(place.path),
            region=log.Region(
                start_line=line,
                start_column=column,
                end_line=end_line,
                end_column=max(1, end_column),
            ),
        )

    def noted(self, place: Location, id: int | None = None) -> log.Location:
        message = log.Message(text=sarif_message(place.note or self.name(place)))
        location = log.Location(physical_location=self.physical(place), message=message)
        if id is not None:
            location.id = id
        return location


# --- The run ---------------------------------------------------------------------------


def _invocation(report: Report, context: Context, left_out: int, places: _Places) -> log.Invocation:
    notifications = [_not_audited(rank, places) for rank in report.failed_ranks]
    if not report.ranks:
        notifications.append(_notification("error", "Nothing was audited."))
    if left_out:
        notifications.append(
            _notification(
                "warning",
                f"Only the {MOST_RESULTS:,} most severe results are listed here; "
                f"{left_out:,} more were left out.",
            )
        )
    invocation = log.Invocation(
        execution_successful=bool(report.ranks) and not report.failed_ranks,
        exit_code=report.exit_status(context.fail_on),
        tool_execution_notifications=notifications or None,
    )
    if context.command_line:
        invocation.command_line = visible(shlex.join(context.command_line))
    return invocation


def _not_audited(rank: RankReport, places: _Places) -> log.Notification:
    reason = rank.failure or "the reason is not known"
    text = f"Rank {rank.rank} was not audited: {sarif_message(reason)}"
    notification = _notification("error", _sentence(text))
    if path := rank.cuda_path or rank.graph_path:
        physical = log.PhysicalLocation(artifact_location=places.artifact(path))
        notification.locations = [log.Location(physical_location=physical)]
    return notification


def _notification(level: str, text: str) -> log.Notification:
    return log.Notification(level=level, message=log.Message(text=text))
