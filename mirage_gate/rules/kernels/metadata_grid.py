"""MG512: the metadata of an operator's tasks are not its whole grid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import spans
from mirage_gate.facts.signatures.grids import Hole, holes
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG512",
    "metadata-grid",
    Severity.ERROR,
    "The metadata of an operator's tasks are not its whole grid.",
    why="""
        Where a body picks its rows by `request_id`, its experts by `expert_offset` or its share of
        the cache by `kv_idx`, tasks with the same operands differ in these numbers alone. They are
        the places of an operator's blocks in its grid: they begin at 0, leave none out, and no two
        blocks have the same. A number that is left out is a request that nobody serves or an
        expert that nobody computes; what its rows held before stays.
    """,
    example="Every split-KV task's `kv_idx` is one more: chunk 0 of the cache is read by none.",
    fix="Emit the graph again; the metadata follow from the operator's grid.",
    limits="""
        Only fields that the body reads are looked at: in others stands what the union holds. Tasks
        that are all alike are MG505's to tell.
    """,
    repeats=True,
)


@RULE.checked_by
def metadata_grid(facts: RankFacts) -> Iterator[Finding]:
    found: dict[tuple[str, str, str], list[Hole]] = {}
    for hole in holes(facts):
        found.setdefault((hole.branch.type_name, hole.field, hole.what), []).append(hole)
    for alike in found.values():
        first = alike[0]
        groups = [group for hole in alike for group in hole.groups]
        field = first.field.partition(" ")[0]
        yield RULE.finding(
            facts.rank,
            f"{first.field} of {tasks(facts, groups)} {_what(first)}",
            facts.in_graph("all_tasks", first.task, field),
            hint="give the tasks of the operator the numbers of its grid, from 0, each once",
            related=(first.branch.location.saying("the body that picks by it"),),
        )


def _what(hole: Hole) -> str:
    if hole.what == "gap":
        return f"is {spans(hole.found)}, and never {hole.missing}: nobody does that part"
    if hole.what == "number":
        return (
            f"has {len(hole.found)} values, and the variant is compiled for {hole.wanted}: "
            "each task does the parts of one number, and some are done by none or twice"
        )
    if hole.what == "pairs":
        return f"are {hole.found[0]} combinations, and not all that there are"
    return f"is the same ({hole.found[0]}) in several tasks with the same operands"
