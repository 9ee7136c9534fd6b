"""MG107: tasks carry the tensor in an input slot that no dispatch body reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import groups_of, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG107",
    "ignored-input",
    Severity.NOTE,
    "Tasks carry the tensor in an input slot that no dispatch body reads.",
    why="""
        The graph lists a tensor for a task, and the kernel that runs the task never touches
        that slot. For a residual that a rank compiles out that is right; for a rotary table
        it means that the model knows no positions although every list of names looks
        complete. An error if the tensor is critical and nothing else consumes it, and where
        there is one rank alone and the slot is a residual or the weights of a routing: no other
        rank adds it.
    """,
    example="""
        A task of type 278 carries `rope_cos` as input 4, and its branch names
        `task_desc->input_ptrs[0]` to `[3]` only.
    """,
    fix="Emit a kernel that reads the slot, or wire the tensor to the operator that does.",
    limits="Of several ranks one adds the residual; that none does is MG609's to say.",
    repeats=True,
)

_NEEDED = frozenset({"r", "weight"})
"""A residual, and what experts' results are weighted with, as signatures name them."""


@RULE.checked_by
def ignored_input(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        ignored = [a for a in facts.wiring.of(name) if a.is_input and a.ignored]
        if not ignored:
            continue
        lost = facts.is_critical(declaration) and not facts.wiring.consumers(name)
        needed = [access for access in ignored if _needed(facts, access)]
        ignored = needed or ignored
        slots = sorted({(access.group.task_type, access.index) for access in ignored})
        where = ", ".join(f"input {index} of {facts.task_type(t).name}" for t, index in slots[:3])
        more = " and others" if len(slots) > 3 else ""
        branch = facts.wiring.branch(ignored[0].group.task_type, ignored[0].group.variant)
        body = (branch.location.saying("this body does not read the slot"),) if branch else ()
        yield RULE.finding(
            facts.rank,
            f"{'critical tensor ' * lost}{name} is carried by "
            f"{tasks(facts, groups_of(ignored))} in a slot that no body reads ({where}{more})"
            + (" and no task reads it" if lost else "")
            + (": there is one rank, and it does not add it" if needed else ""),
            declaration.location,
            hint=f"emit a kernel that reads {name}, or do not pass it",
            severity=Severity.ERROR if lost or needed else Severity.NOTE,
            related=(*body, slot_field(facts, ignored[0], "base_ptr", "carried here")),
            tensor=name,
        )


def _needed(facts: RankFacts, access: Access) -> bool:
    """Whether the only rank leaves out what its type is there to add, and is given."""
    group = access.group
    if facts.cuda.world_size != 1 or not facts.knows(group.task_type):
        return False
    signature = facts.signatures.of(group)
    return signature is not None and any(
        operand.name in _NEEDED and operand.index == access.index for operand in signature.inputs
    )
