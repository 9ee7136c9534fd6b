"""MG113: a tensor that tasks touch has no memory when it is entered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import Declaration
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._claims import ill
from mirage_gate.rules._words import groups_of, slot_field, storage, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG113",
    "no-memory",
    Severity.ERROR,
    "A tensor that tasks touch has no memory, or none that other ranks can reach.",
    why="""
        `all_tensors` keeps the pointer as it is when the statement runs. Entered before its
        allocation, or without one, or as `nullptr`, it is an address that means nothing, and
        the kernel reads and writes there. What one rank puts into another, or reads from it,
        has to be symmetric memory: `cudaMalloc` gives an address that no other rank knows.
    """,
    example='`all_tensors["mlp_mid"] = mlp_mid;` stands before `cudaMalloc(&mlp_mid, 98304)`.',
    fix="""
        Allocate the buffer before it is entered; make what a collective works on with
        `nvshmem_tensor`.
    """,
    limits="""
        Memory that a function of the user's own gives is taken for memory. Tensors that no
        task touches are not looked at.
    """,
    repeats=True,
)


@RULE.checked_by
def no_memory(facts: RankFacts) -> Iterator[Finding]:
    last = {declaration.name: declaration for declaration in facts.cuda.declarations}
    for name, declaration in last.items():
        touching = facts.wiring.real(name)
        if not touching or declaration.kind == "sentinel":
            continue
        found = _lacks(declaration) or _local(declaration, touching)
        if found is None:
            continue
        what, hint, related = found
        needed = [access for access in touching if not access.slot.optional]
        first = (needed or touching)[0]
        yield RULE.finding(
            facts.rank,
            f"{name} is touched by {tasks(facts, groups_of(touching))}, and {what}",
            declaration.location,
            hint=hint,
            severity=Severity.ERROR if needed else Severity.WARNING,
            related=(
                *related,
                *storage(declaration),
                slot_field(facts, first, "base_ptr", "touched here"),
            ),
            tensor=name,
            causes=[ill(name)],
        )


_Lack = tuple[str, str, tuple[Location, ...]]


def _lacks(declaration: Declaration) -> _Lack | None:
    """Say how a tensor comes to have no memory: what, hint, related places."""
    name, value = declaration.name, declaration.value or declaration.variable
    if declaration.null:
        return (
            f"what is entered is a null pointer ({value})",
            f"enter {name}'s own memory",
            (),
        )
    if declaration.undone:
        undoing = declaration.undone[0]
        return (
            f"its entry is taken back afterwards ({undoing.what})",
            f"leave {name} in all_tensors until the task graph is loaded",
            (undoing.location.saying("taken back here"),),
        )
    if declaration.late is not None:
        return (
            f"{value} is allocated only after it is entered: the map keeps what it was before",
            f"allocate {value} before it is entered",
            (declaration.late.saying("allocated here"),),
        )
    if declaration.unmade:
        return f"nothing gives {value} any memory", f"allocate {value} before it is entered", ()
    return None


def _local(declaration: Declaration, touching: list[Access]) -> _Lack | None:
    """Say that other ranks are to reach memory which they cannot."""
    if declaration.kind not in ("scratch", "shuffled") or declaration.allocation is None:
        return None
    remote = [access for access in touching if access.slot.remote]
    if not remote:
        return None
    access = remote[0]
    return (
        (
            f"as {'input' if access.is_input else 'output'} {access.index} of a task that talks "
            "to other ranks it must be symmetric memory, and cudaMalloc gives none"
        ),
        f"make {declaration.name} with nvshmem_malloc",
        (declaration.allocation.saying("allocated here"),),
    )
