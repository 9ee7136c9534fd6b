"""MG504: more than 7 inputs, 3 outputs or 4 dims, or dims and strides of different length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import groups_of, plural, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG504",
    "limits",
    Severity.ERROR,
    "More than 7 inputs, 3 outputs or 4 dims, or dims and strides of different length.",
    why="""
        The runtime's task descriptor has room for seven inputs, three outputs and four
        dimensions. The loader's checks are asserts, compiled out in the default build: the
        eighth input overwrites what lies behind. Forks have more room, which the two files
        do not say: more slots than upstream's are a warning, unless the kernel names them.
    """,
    example='`"dims": [8, 128]` beside `"strides": [128]`.',
    fix="Split the operator, or fuse its operands.",
    repeats=True,
)


MOST = {"inputs": 7, "outputs": 3}
"""The room in upstream's task descriptor (``runtime_header.h``)."""


@RULE.checked_by
def limits(facts: RankFacts) -> Iterator[Finding]:
    yield from _too_many(facts)
    tensors = facts.graph.tensors
    uneven = {i for i, tensor in enumerate(tensors) if len(tensor.dims) != len(tensor.strides)}
    if not uneven:
        return
    for name, accesses in facts.wiring.accesses.items():
        found = [access for access in accesses if access.tensor in uneven]
        if not found:
            continue
        tensor = tensors[found[0].tensor]
        yield RULE.finding(
            facts.rank,
            (
                f"{name} has {plural(len(tensor.dims), 'dim')} and "
                f"{plural(len(tensor.strides), 'stride')} in {tasks(facts, groups_of(found))}"
            ),
            slot_field(facts, found[0], "dims"),
            hint="give as many strides as dims",
            tensor=name,
        )


def _too_many(facts: RankFacts) -> Iterator[Finding]:
    """Find kernels with more slots than upstream has room for, unless their body names them."""
    for (task_type, variant), groups in facts.wiring.kernels.items():
        branch = facts.wiring.branch(task_type, variant)
        for side, most in MOST.items():
            over = [group for group in groups if len(getattr(group, side)) > most]
            named = getattr(branch, side) if branch else ()
            if not over or max(named, default=0) >= most:
                continue  # a fork's own descriptor has room for what its body reads
            count = len(getattr(over[0], side))
            yield RULE.finding(
                facts.rank,
                f"{tasks(facts, over)} have {count} {side}, and MPK's task descriptor has room "
                f"for {most}; the kernel names none beyond",
                facts.in_graph("all_tasks", over[0].first, side),
                hint="split the operator, or fuse its operands",
                severity=Severity.WARNING,
            )
