"""Each rank summed up, to be joined with ranks that were audited elsewhere.

``mirage-gate merge`` reads these files, ``mirage-gate diff`` compares them, and
``mirage-gate schema summary`` prints their schema.
"""

from __future__ import annotations

from mirage_gate.agreed.summary import encode
from mirage_gate.report import Report
from mirage_gate.reports import Context

NAME = "summary"
DESCRIPTION = "for `mirage-gate merge`: what the rules across ranks need of each rank"


def render(report: Report, context: Context) -> str:  # noqa: ARG001 - every format's interface
    """Give the summaries as one JSON document."""
    return encode(report.summaries)
