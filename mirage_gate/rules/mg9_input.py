"""MG9: could the files be taken in at all? The readers report these themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule, add, rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

SCHEMA = add(
    Rule(
        id="MG901",
        name="schema",
        severity=Severity.ERROR,
        claim="The task graph is not what the loader needs.",
        why=(
            "The loader reads each field by name and type; its checks are asserts, compiled out "
            "in the default build. A graph that breaks the schema is loaded wrongly or not at all. "
            "Every error is listed with its JSON pointer, line and column, what was expected and "
            "what stood there."
        ),
        example='`"trigger_event": "12"`: a string where the loader reads an integer.',
        fix=(
            "Emit the graph again. `mirage-gate schema task-graph` prints the schema; a fork that "
            "changed the format needs a change there."
        ),
    )
)
UNREADABLE = add(
    Rule(
        id="MG902",
        name="unreadable",
        severity=Severity.ERROR,
        claim="A file cannot be read: missing rights, not a file, no JSON, no CUDA file of MPK.",
        why=(
            "A truncated graph is what an interrupted build or a full disk leaves behind. "
            "What cannot be read was not audited, and does not pass."
        ),
        example="The JSON ends in the middle of a task.",
        fix="Emit the artifacts again, and let the build finish.",
    )
)
NO_PARTNER = add(
    Rule(
        id="MG903",
        name="no-partner",
        severity=Severity.ERROR,
        claim="One half of a rank's pair is missing.",
        why=(
            "Neither file says anything alone: the `.cu` declares, the graph consumes. A rank with "
            "half a pair was not audited."
        ),
        example="`kernel_3.cu` lies in the folder and `task_graph_3.json` does not.",
        fix="Put both files of the rank into one folder, from the same build.",
    )
)


@rule(
    "MG904",
    "version-skew",
    Severity.ERROR,
    "The graph lacks a field that the CUDA file's loader insists on, or some tasks lack one.",
    why="""
        The two halves are of different versions of MPK: the loader throws at start-up, or,
        worse, reads another meaning. A warning where only some tasks lack a field and the
        loader does without: in MPK's graphs all tasks have the same fields.
    """,
    example='The loader has `task.at("task_offset")`, and the graph is older than that field.',
    fix="Emit both files again with one version.",
)
def version_skew(facts: RankFacts) -> Iterator[Finding]:
    count = len(facts.graph.tasks)
    for field, (task, lacking) in facts.absent_fields.items():
        location = facts.cuda.loader_fields.get(field)
        here = facts.in_graph("all_tasks", task, note=f"no {field} here")
        what = f"{field}, which {lacking} of {count} tasks lack (first: task {task})"
        if location is None:
            message = f"the other tasks carry {what}"
        else:
            message = f"the loader insists on {what}: the pair is not of one build"
        yield Finding(
            rule="MG904",
            severity=Severity.WARNING if location is None else Severity.ERROR,
            message=message,
            location=location or here,
            hint="emit kernel and graph again, together",
            related=(here,) if location else (),
            rank=facts.rank,
        )


EMBEDDED = add(
    Rule(
        id="MG905",
        name="embedded-graph",
        severity=Severity.ERROR,
        claim="The CUDA file carries its tasks itself: there is no graph to audit.",
        why=(
            "Older emitters, or a build with the JSON format switched off, write the tasks as C++ "
            "and no `all_tensors`. The JSON beside such a file is of another build."
        ),
        example="`all_tasks.push_back(FullTaskDesc(TASK_TERMINATE));`",
        fix="Emit with the JSON format on (`use_json_format`), and audit that pair.",
    )
)
