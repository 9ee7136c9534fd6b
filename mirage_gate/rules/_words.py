"""The phrases that messages share, so that every rule speaks of tasks the same way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import spans
from mirage_gate.facts.wiring import Access, Group, tasks_in
from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.facts import RankFacts


def plural(count: int, noun: str) -> str:
    """Count things: ``1 task``, ``13,646 tasks``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def in_layers(layers: Collection[int]) -> str:
    """Name some layers: ``layer 2``, ``layers 0-3, 6``."""
    return f"layer{'s' * (len(layers) != 1)} {spans(sorted(layers))}"


def size(declaration: Declaration) -> str:
    """Say a tensor's size where it is known: `` (16384 bytes)``."""
    return "" if declaration.nbytes is None else f" ({declaration.nbytes} bytes)"


def tasks(facts: RankFacts, groups: Sequence[Group]) -> str:
    """Count tasks and name the first: ``156 tasks (first: task 75, TASK_REDUCE)``."""
    first = min(groups, key=lambda group: group.first)
    kind = facts.task_type(first.task_type).name
    return f"{plural(tasks_in(groups), 'task')} (first: task {first.first}, {kind})"


def groups_of(accesses: Iterable[Access]) -> list[Group]:
    """List the groups of some accesses, each once, in task order."""
    unique = {access.group.number: access.group for access in accesses}
    return [unique[number] for number in sorted(unique)]


def storage(declaration: Declaration) -> tuple[Location, ...]:
    """Point at the storage statement, where there is one."""
    if declaration.storage is None:
        return ()
    return (declaration.storage.saying(f"storage of {declaration.name}"),)


def declared(facts: RankFacts, name: str) -> tuple[Location, ...]:
    """Point at the declaration of a tensor, where there is one."""
    declaration = facts.declared.get(name)
    if declaration is None:
        return ()
    return (declaration.location.saying(f"{name} is declared here"),)


def slot_field(facts: RankFacts, access: Access, field: str, note: str = "") -> Location:
    """Point at one field of the tensor in a slot of a group's first task."""
    task = access.group.first
    return facts.in_graph("all_tasks", task, access.side, access.index, field, note=note)


def layers_option(layers: Collection[int]) -> str:
    """Write some layers as ``--layers`` takes them."""
    if set(layers) == set(range(len(layers))):
        return str(len(layers))
    return ",".join(map(str, sorted(layers)))
