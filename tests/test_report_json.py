"""The JSON report, held to its published schema."""

from __future__ import annotations

import json
import os
from typing import Any

import jsonschema
import pytest

from mirage_gate import schema_files
from mirage_gate.findings import Severity
from mirage_gate.report import LayerUse, Report
from mirage_gate.reports import Context
from mirage_gate.reports import json as json_report
from tests.findings import HOSTILE_NAMES, at, coverage, finding, hostile, not_audited, rank, report

SCHEMA = json.loads(schema_files.text("report"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def rendered(of: Report, **settings: Any) -> dict[str, Any]:
    text = json_report.render(of, Context(root=os.getcwd(), **settings))  # noqa: PTH109
    assert text.isascii()
    document: dict[str, Any] = json.loads(text)
    VALIDATOR.validate(document)
    return document


def test_the_schema_is_strict() -> None:
    VALIDATOR.check_schema(SCHEMA)

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert "additionalProperties" in node
                assert set(node.get("required", [])) == set(node.get("properties", {}))
            for value in node.values():
                walk(value)

    walk(SCHEMA)


def test_everything_a_run_knows() -> None:
    tensor = coverage("rope_cos", 8, critical=True)
    used = LayerUse(3, 8, 0, 4096, 17, (278,))
    tensor = type(tensor)(
        **{f: getattr(tensor, f) for f in tensor.__struct_fields__[:-1]}, layers=(used,)
    )
    document = rendered(
        report(
            finding(hint="h", related=(at(note="here"),), trace=(at(line=0),), tensor="rope_cos"),
            finding("w", "MG104", Severity.WARNING),
            ranks=(rank(0, tensor), not_audited(1, "no graph")),
        )
    )
    assert document["version"] == 1
    assert document["verdict"] == {
        "status": "failed",
        "exit_status": 1,
        "fail_on": "error",
        "waived": 0,
        "known": 0,
        "selected": [],
        "ignored": [],
        "counts": {"error": 1, "warning": 1, "note": 0},
        "listed": {"error": 1, "warning": 1, "note": 0},
    }
    first, second = document["ranks"]
    assert first["coverage"][0]["layers"] == [
        {
            "layer": 3,
            "consumers": 8,
            "producers": 0,
            "bytes_read": 4096,
            "consumer_task_types": [278],
        }
    ]
    assert (second["audited"], second["failure"], second["graph"]) == (False, "no graph", None)
    error = document["findings"][0]
    assert error["name"] == "unwired-critical-tensor"
    assert error["help"].endswith("/docs/rules.md#mg101")
    assert error["location"]["end_column"] == 13
    assert error["related"][0]["note"] == "here"


@pytest.mark.parametrize(
    ("of", "status", "exit_status"),
    [
        (report(), "passed", 0),
        (report(finding()), "failed", 1),
        (report(ranks=(not_audited(0, "x"),)), "nothing-audited", 2),
        (Report((), ()), "nothing-audited", 2),
    ],
)
def test_the_verdict(of: Report, status: str, exit_status: int) -> None:
    verdict = rendered(of)["verdict"]
    assert (verdict["status"], verdict["exit_status"]) == (status, exit_status)


def test_names_are_kept_as_they_are() -> None:
    document = rendered(
        report(*hostile(), ranks=(rank(0, *(coverage(name) for name in HOSTILE_NAMES)),))
    )
    assert [c["tensor"] for c in document["ranks"][0]["coverage"]] == list(HOSTILE_NAMES)
    assert {f["tensor"] for f in document["findings"]} == set(HOSTILE_NAMES)
