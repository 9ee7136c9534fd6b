"""Each rank summed up, to be joined with ranks that were audited elsewhere.

``mirage-gate merge`` reads these files, ``mirage-gate diff`` compares them, and
``mirage-gate schema summary`` prints their schema.
"""

from __future__ import annotations

import re

from mirage_gate.agreed.summary import encode
from mirage_gate.report import Report
from mirage_gate.reports import Context

_UNSHOWN = re.compile("[^\n -~]")
"""All but ASCII is written as JSON's escapes: no name can steer a terminal that shows the file."""

NAME = "summary"
DESCRIPTION = "for `mirage-gate merge`: what the rules across ranks need of each rank"


def render(report: Report, context: Context) -> str:  # noqa: ARG001 - every format's interface
    """Give the summaries as one JSON document."""
    return _UNSHOWN.sub(_escaped, encode(report.summaries))


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
