"""MG903: one half of a rank's pair is missing."""

from __future__ import annotations

from mirage_gate.findings import Severity
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG903",
    "no-partner",
    Severity.ERROR,
    "One half of a rank's pair is missing.",
    why=(
        "Neither file says anything alone: the `.cu` declares, the graph consumes. A rank with "
        "half a pair was not audited."
    ),
    example="`kernel_3.cu` lies in the folder and `task_graph_3.json` does not.",
    fix="Put both files of the rank into one folder, from the same build.",
)
