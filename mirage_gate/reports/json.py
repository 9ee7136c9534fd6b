"""JSON for other programs: everything a run knows, in a published and versioned form.

``mirage-gate schema report`` prints the schema. Within a version, fields may be added and
none is changed or taken away.
"""

from __future__ import annotations

import json
from typing import Any

from mirage_gate import __url__, __version__
from mirage_gate.findings import Finding, Location, Severity, in_order
from mirage_gate.report import Coverage, RankReport, Report
from mirage_gate.reports import Context, _statistics, _words
from mirage_gate.reports._paths import shown
from mirage_gate.rules import rule_by_id

NAME = "json"
DESCRIPTION = "for programs: every tensor's coverage and every finding (`schema report`)"
BY_LAYER = True

VERSION = 1


def render(report: Report, context: Context) -> str:
    """Give the whole report as one JSON document, in ASCII."""
    document = {
        "version": VERSION,
        "tool": {"name": "mirage-gate", "version": __version__, "url": __url__},
        "verdict": {
            "status": _words.verdict(report, context.fail_on).lower().replace(" ", "-"),
            "exit_status": report.exit_status(context.fail_on),
            "fail_on": context.fail_on,
            "waived": report.waived,
            "known": report.known,
            "selected": list(report.selected),
            "ignored": list(report.ignored),
            "counts": {str(severity): report.count(severity) for severity in Severity},
            "listed": {
                str(severity): sum(f.severity is severity for f in report.findings)
                for severity in Severity
            },
        },
        "statistics": {
            "rules": [_line(line) for line in _statistics.by_rule(report)],
            "roles": [_line(line) for line in _statistics.by_role(report)],
        },
        "ranks": [_rank(rank, context) for rank in report.ranks],
        "compared": [
            {
                "ranks": list(run.ranks),
                "folders": [shown(folder or ".", context.root) for folder in run.folders],
            }
            for run in report.compared
        ],
        "findings": [_finding(finding, context) for finding in in_order(report.findings)],
        "hidden": [
            _finding(finding, context) for finding in (report.hidden if context.hidden else ())
        ],
    }
    # Names may hold lone surrogates, which only an escape can say.
    return json.dumps(document, ensure_ascii=True, indent=2) + "\n"


def _line(line: _statistics.Line) -> dict[str, Any]:
    return {
        "of": line.of,
        "count": line.count,
        "severity": str(line.severity),
        "rules": list(line.rules),
    }


def _rank(rank: RankReport, context: Context) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "cuda": shown(rank.cuda_path, context.root) if rank.cuda_path else None,
        "graph": shown(rank.graph_path, context.root) if rank.graph_path else None,
        "audited": rank.audited,
        "failure": rank.failure or None,
        "tasks": rank.tasks,
        "events": rank.events,
        "tensors": rank.tensors,
        "task_types": {str(code): name for code, name in rank.type_names.items()},
        "coverage": [_coverage(tensor, context) for tensor in rank.coverage],
    }


def _coverage(tensor: Coverage, context: Context) -> dict[str, Any]:
    return {
        "tensor": tensor.tensor,
        "kind": tensor.kind,
        "critical": tensor.critical,
        "bytes": tensor.nbytes,
        "declared": _place(tensor.location, context),
        "input_refs": tensor.input_refs,
        "output_refs": tensor.output_refs,
        "consumers": tensor.consumers,
        "producers": tensor.producers,
        "consumer_task_types": list(tensor.consumer_task_types),
        "producer_task_types": list(tensor.producer_task_types),
        "layers": [
            {
                "layer": use.layer,
                "consumers": use.consumers,
                "producers": use.producers,
                "bytes_read": use.nbytes,
                "consumer_task_types": list(use.consumer_task_types),
            }
            for use in tensor.layers
        ],
    }


def _finding(finding: Finding, context: Context) -> dict[str, Any]:
    rule = rule_by_id(finding.rule)
    return {
        "rule": finding.rule,
        "name": rule.name if rule else None,
        "severity": str(finding.severity),
        "message": finding.message,
        "hint": finding.hint or None,
        "tensor": finding.tensor or None,
        "tensors": list(finding.tensors),
        "why": finding.hidden or None,
        "rank": finding.rank,
        "location": _place(finding.location, context),
        "related": [_place(place, context) for place in finding.related],
        "trace": [_place(place, context) for place in finding.trace],
        "folded": [
            {
                "rule": one.rule,
                "severity": str(one.severity),
                "message": one.message,
                "tensor": one.tensor or None,
                "rank": one.rank,
            }
            for one in finding.folded
        ],
        "help": _words.rule_url(finding.rule),
    }


def _place(place: Location, context: Context) -> dict[str, Any]:
    line, column = max(1, place.line), max(1, place.column)
    end_line = max(line, place.end_line)
    return {
        "path": shown(place.path, context.root),
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": max(place.end_column, column if end_line == line else 1),
        "note": place.note or None,
    }
