"""MG106: a task names a tensor that the CUDA file does not declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import ill
from mirage_gate.rules._words import groups_of, plural, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

RULE = Rule(
    "MG106",
    "undeclared-tensor",
    Severity.ERROR,
    "A task names a tensor that the CUDA file does not declare.",
    why="""
        The loader looks the name up in `all_tensors`. Its check is an assert, compiled out
        in the default build: what follows is undefined. Most often the two files are not
        of one build.
    """,
    example='A task reads `"base_ptr": "mlp_final"`, and the `.cu` declares `mlp_out`.',
    fix="Emit both files again, together; never mix the halves of two builds.",
    repeats=True,
)


_MOST_UNDECLARED = 20
"""Above so many names, what is wrong is the pair and not a name."""


@RULE.checked_by
def undeclared_tensor(facts: RankFacts) -> Iterator[Finding]:
    undeclared = {
        name: accesses
        for name, accesses in facts.wiring.accesses.items()
        if name not in facts.declared
    }
    if len(undeclared) > _MOST_UNDECLARED:
        yield _many_undeclared(facts, undeclared)
        return
    for name, accesses in undeclared.items():
        refs = sum(access.group.count for access in accesses)
        first = min(accesses, key=lambda access: access.group.first)
        yield RULE.finding(
            facts.rank,
            (
                f"{name} is named in {plural(refs, 'slot')} of "
                f"{tasks(facts, groups_of(accesses))} and declared nowhere in the CUDA file"
            ),
            slot_field(facts, first, "base_ptr"),
            hint="emit kernel and graph again, together",
            tensor=name,
            causes=[ill(name)],
        )


def _many_undeclared(facts: RankFacts, undeclared: dict[str, list[Access]]) -> Finding:
    """So many names are missing that the files belong to two builds: said once."""
    named = len(facts.wiring.accesses)
    accesses = [access for own in undeclared.values() for access in own]
    first = min(accesses, key=lambda access: access.group.first)
    return RULE.finding(
        facts.rank,
        (
            f"{len(undeclared)} of the {named} names in the graph are declared nowhere in the CUDA "
            f"file ({', '.join(list(undeclared)[:3])}, …): the two files are not of one build"
        ),
        slot_field(facts, first, "base_ptr"),
        hint="emit kernel and graph again, together",
    )
