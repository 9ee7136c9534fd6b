"""MG905: the CUDA file carries its tasks itself: there is no graph to audit."""

from __future__ import annotations

from mirage_gate.findings import Severity
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG905",
    "embedded-graph",
    Severity.ERROR,
    "The CUDA file carries its tasks itself: there is no graph to audit.",
    why=(
        "Older emitters, or a build with the JSON format switched off, write the tasks as C++ "
        "and no `all_tensors`. The JSON beside such a file is of another build."
    ),
    example="`all_tasks.push_back(FullTaskDesc(TASK_TERMINATE));`",
    fix="Emit with the JSON format on (`use_json_format`), and audit that pair.",
)
