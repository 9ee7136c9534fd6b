"""MG506: a slot whose body names it holds nullptr."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import empty_in
from mirage_gate.rules._words import groups_of, in_layers, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG506",
    "disconnected-slot",
    Severity.ERROR,
    "A slot whose body names it holds nullptr.",
    why="""
        A None input is emitted as `nullptr`. Attention skips its norm and rotary slots by a
        template flag when they are None: a feature switched off, which is a note. Any other
        kernel reads address 0.
    """,
    example="`layer_2_down_proj` was None in the builder: input 1 of the linear is nullptr.",
    fix="Pass the tensor. A fork's own optional slot is marked `?` in `task-types`.",
    repeats=True,
)


@RULE.checked_by
def disconnected_slot(facts: RankFacts) -> Iterator[Finding]:
    slots: dict[tuple[int, bool, int], list[Access]] = defaultdict(list)
    for access in facts.wiring.of(SENTINEL):
        if access.reads or access.writes:
            slots[access.group.task_type, access.is_input, access.index].append(access)
    for (task_type, is_input, index), accesses in sorted(slots.items()):
        optional = accesses[0].slot.optional or not facts.knows(task_type)
        kind = facts.task_type(task_type).name
        slot = f"{'input' if is_input else 'output'} {index} of {kind}"
        layers = {
            layer
            for access in accesses
            if (layer := facts.layers.of_group[access.group.number]) is not None
        }
        where = f" in {in_layers(layers)}" if layers else ""
        branch = facts.wiring.branch(task_type, accesses[0].group.variant)
        what = (
            "the kernel skips it: a feature is switched off"
            if optional
            else "the kernel reads address 0"
        )
        hollow = [empty_in(facts, index, groups_of(accesses))] if is_input else []
        yield RULE.finding(
            facts.rank,
            f"{slot} is nullptr in {tasks(facts, groups_of(accesses))}{where}; {what}",
            slot_field(facts, accesses[0], "base_ptr"),
            hint="pass the tensor in the builder" if not optional else "nothing, if it is meant",
            severity=Severity.NOTE if optional else Severity.ERROR,
            related=(branch.location.saying("the body that names it"),) if branch else (),
            causes=hollow,
            follows=hollow,
        )
