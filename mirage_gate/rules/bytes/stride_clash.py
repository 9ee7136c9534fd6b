"""MG209: tasks of one kernel walk the rows of one tensor with different strides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import Tensor
from mirage_gate.facts.regions import steps
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG209",
    "stride-clash",
    Severity.WARNING,
    "Tasks of one kernel walk the rows of one tensor with different strides.",
    why="""
        A tile's strides are those of the whole tensor, so all tasks of an operator have the
        same. One with other strides takes its rows from elsewhere: the right tile, sheared.
    """,
    example="Of 64 tasks that read `attn_out` with rows 256 apart, one has rows 128 apart.",
    fix="Correct the strides: they are the whole tensor's, in elements.",
    limits="""
        Different kernels may view one buffer under different shapes; only tasks of one
        (type, variant) and slot are compared.
    """,
    repeats=True,
)


@RULE.checked_by
def stride_clash(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name in facts.regions.names:
        if all(len(found) == 1 for found in facts.regions.of(name).strided.values()):
            continue
        slots: dict[object, dict[tuple[int, ...], list[Access]]] = defaultdict(dict)
        for access in facts.wiring.of(name):
            if access.reads or access.writes:
                group, dims = access.group, tensors[access.tensor].dims
                key = (group.task_type, group.variant, access.is_input, access.index, dims)
                slots[key].setdefault(steps(tensors[access.tensor]), []).append(access)
        for found in slots.values():
            if len(found) < 2:
                continue
            usual = max(found, key=lambda steps: sum(a.group.count for a in found[steps]))
            odd = [a for steps, accesses in found.items() if steps != usual for a in accesses]
            yield RULE.finding(
                facts.rank,
                (
                    f"{name} has strides {_strides(tensors[odd[0].tensor])} in "
                    f"{tasks(facts, groups_of(odd))}, and "
                    f"{_strides(tensors[found[usual][0].tensor])} in the kernel's other tasks"
                ),
                slot_field(facts, odd[0], "strides"),
                hint="correct the strides: they are the whole tensor's, in elements",
                related=(
                    *declared(facts, name),
                    slot_field(facts, found[usual][0], "strides", "the usual strides"),
                ),
                tensor=name,
            )


def _strides(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.strides))})"
