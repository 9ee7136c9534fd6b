"""mirage-gate: a read-only gate for Mirage Persistent Kernel megakernels.

``audit`` a kernel's two texts in a builder, and ``render`` what was found.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage_gate.auditing.selection import Selection
    from mirage_gate.building.guard import guard
    from mirage_gate.building.texts import audit
    from mirage_gate.facts import Options
    from mirage_gate.findings import Finding, Location, Severity
    from mirage_gate.report import Coverage, RankReport, Report
    from mirage_gate.reports import render

__version__ = "0.1.0"
__url__ = "https://github.com/mirage-gate/mirage-gate"

__all__ = [
    "Coverage",
    "Finding",
    "Location",
    "Options",
    "RankReport",
    "Report",
    "Selection",
    "Severity",
    "audit",
    "guard",
    "render",
]

_HOMES = {
    "Coverage": "report",
    "Finding": "findings",
    "Location": "findings",
    "Options": "facts",
    "RankReport": "report",
    "Report": "report",
    "Selection": "auditing.selection",
    "Severity": "findings",
    "audit": "building.texts",
    "guard": "building.guard",
    "render": "reports",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, and only that: the command line pays for nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"mirage_gate.{_HOMES[name]}"), name)
