"""How often the tasks of an operator use each of its tiles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import TensorRegions

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access, Group

_COPIES = frozenset({"TASK_IDENTITY", "TASK_COPY"})

KernelSlot = tuple[int, int, int, int, str]
"""A kernel's type and variant, a slot's place, an operator's tasks, and the tensor's role."""


def uses_of_tiles(groups: list[Group], tiles: Iterable[int]) -> dict[int, int]:
    """Count the tasks that use each tile."""
    used: dict[int, int] = {}
    for tile, group in zip(tiles, groups, strict=True):
        used[tile] = used.get(tile, 0) + group.count
    return used


def carriers(
    facts: RankFacts, groups: list[Group], place: int, tiles: Collection[int]
) -> list[Access]:
    """Give the accesses of one slot that carry some of the tiles."""
    accesses = (facts.wiring.access(group, place) for group in groups)
    return [access for access in accesses if access.tensor in tiles]


def is_copy(facts: RankFacts, group: Group) -> bool:
    """Whether a task type does no more than copy what it reads."""
    return facts.task_type(group.task_type).name in _COPIES


def is_tiled(facts: RankFacts, name: str, access: Access) -> bool:
    """Whether a slot's tiles are just what its tasks touch, of a tensor that is declared."""
    declaration = facts.declared.get(name)
    return (
        declaration is not None
        and declaration.kind != "sentinel"
        and (access.reads or access.writes)
        and access.slot.exact
        and not access.slot.accumulates
    )


def odd_tiles(used: dict[int, int], regions: TensorRegions) -> set[int]:
    """Give the tiles used more often than their siblings, and those that overlap others.

    None if they are the greater part: then it is not clear what the operator does.
    """
    seen = twice = 0
    for number in used:
        mask = regions.mask(number)
        twice |= seen & mask
        seen |= mask
    counts = Counter(used.values())
    if len(counts) == 1 and not twice:
        return set()
    usual = max(counts, key=lambda count: (counts[count], -count))
    repeated = {n for n, count in used.items() if count > usual}
    odd = repeated | {n for n in used if regions.mask(n) & twice}
    return set() if 2 * len(odd) > len(used) else odd


def alike_but_for_writes(facts: RankFacts, groups: list[Group]) -> bool:
    """Whether two of the groups read exactly the same and write different bytes.

    Those that read nothing, as where a buffer is filled with zeros, are alike by right.
    """
    written: dict[object, set[tuple[int, ...]]] = defaultdict(set)
    for group in groups:
        reads, writes = facts.wiring.work_of(group)
        if reads is not None and len(reads) > 2:  # more than the type and the variant
            written[reads].add(writes)
    return any(_differ(facts, different) for different in written.values() if len(different) > 1)


def _differ(facts: RankFacts, references: Iterable[tuple[int, ...]]) -> bool:
    """Whether two of some references cover different bytes."""
    first, *rest = (_bytes_of(facts, one) for one in references)
    return any(other != first for other in rest)


def _bytes_of(facts: RankFacts, references: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Say which bytes some references cover: two may differ, and cover the same."""
    names = [facts.graph.tensors[number].base_ptr for number in references]
    return tuple(
        (name, facts.regions.of(name).mask(number))
        for name, number in zip(names, references, strict=True)
    )
