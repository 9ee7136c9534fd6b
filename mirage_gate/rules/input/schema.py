"""MG901: the task graph is not what the loader needs."""

from __future__ import annotations

from mirage_gate.findings import Severity
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG901",
    "schema",
    Severity.ERROR,
    "The task graph is not what the loader needs.",
    why=(
        "The loader reads each field by name and type; its checks are asserts, compiled out in "
        "the default build. A graph that breaks the schema is loaded wrongly or not at all. "
        "Every error is listed with its JSON pointer, line and column, what was expected and "
        "what stood there."
    ),
    example='`"trigger_event": "12"`: a string where the loader reads an integer.',
    fix=(
        "Emit the graph again. `mirage-gate schema task-graph` prints the schema; a fork that "
        "changed the format needs a change there."
    ),
)
