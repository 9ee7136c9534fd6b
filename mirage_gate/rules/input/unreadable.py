"""MG902: a file cannot be read: missing rights, not a file, no JSON, no CUDA file of MPK."""

from __future__ import annotations

from mirage_gate.findings import Severity
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG902",
    "unreadable",
    Severity.ERROR,
    "A file cannot be read: missing rights, not a file, no JSON, no CUDA file of MPK.",
    why=(
        "A truncated graph is what an interrupted build or a full disk leaves behind; so is a "
        "kernel with a block, a parenthesis or a bracket that never closes. What cannot be read "
        "was not audited, and does not pass."
    ),
    example="The JSON ends in the middle of a task.",
    fix="Emit the artifacts again, and let the build finish.",
)
