"""MG207: sibling tiles of one operator are not used equally often, or overlap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import role_of
from mirage_gate.facts.wiring import tasks_in
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, plural, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._tiles import (
    KernelSlot,
    alike_but_for_writes,
    carriers,
    is_copy,
    is_tiled,
    odd_tiles,
    uses_of_tiles,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access, Group

RULE = Rule(
    "MG207",
    "tile-gap",
    Severity.WARNING,
    "Sibling tiles of one operator are not used equally often, or overlap.",
    why="""
        The tasks of an operator are the cells of a grid, so that each of a slot's tiles is
        used by equally many tasks. Where one tile is used once more, another one is used once
        less: an output column computed from the wrong rows. An error where two tasks read
        exactly the same and yet write different tiles: both then hold the same numbers.
    """,
    example="Of 96 tasks of a projection, two read weight rows 0..127 and none rows 128..255.",
    fix="Correct the operator's grid or the tile's offset.",
    limits="""
        Operators of which more than half of the tiles are odd are not judged, and those whose
        tasks all share one tile only against other runs of their kernel. A copy may fill
        several tiles from one, as a KV head is repeated for its query heads.
    """,
    repeats=True,
)


@RULE.checked_by
def tile_gap(facts: RankFacts) -> Iterator[Finding]:
    wiring, layer_of = facts.wiring, facts.layers.of_group
    signatures: dict[object, list[Group]] = defaultdict(list)
    for group in wiring.groups:
        signatures[wiring.signature_of(group), layer_of[group.number]].append(group)
    kernels: dict[KernelSlot, dict[int, list[list[Group]]]] = defaultdict(dict)
    for groups in signatures.values():
        alike = len(groups) > 1 and alike_but_for_writes(facts, groups)
        tasks_of_it = tasks_in(groups)
        operands = [group.inputs + group.outputs for group in groups]
        for place, tiles in enumerate(zip(*operands, strict=True)):
            first = wiring.access(groups[0], place)
            name = facts.graph.tensors[first.tensor].base_ptr
            if not is_tiled(facts, name, first):
                continue
            used = uses_of_tiles(groups, tiles)
            if len(used) > 1:
                odd = odd_tiles(used, facts.regions.of(name))
            else:
                repeats = is_copy(facts, groups[0])
                odd = set(used) if alike and first.is_input and not repeats else set()
            if odd:
                yield _tile_finding(facts, name, carriers(facts, groups, place, odd), len(used))
            elif first.reads and tasks_of_it > 1:
                kernel = (
                    first.group.task_type,
                    first.group.variant,
                    place,
                    tasks_of_it,
                    role_of(name),
                )
                kernels[kernel].setdefault(len(used), []).append(groups)
    for kernel, by_tiles in kernels.items():
        yield from _fewer_tiles(facts, kernel[2], by_tiles)


def _fewer_tiles(
    facts: RankFacts, place: int, by_tiles: dict[int, list[list[Group]]]
) -> Iterator[Finding]:
    """Find operators whose tasks share tiles that are each task's own wherever else they run.

    ``by_tiles`` are the operators of one kernel and of equally many tasks, by the number of
    tiles that they have in one slot.
    """
    if len(by_tiles) < 2:
        return
    usual = max(
        by_tiles,
        key=lambda tiles: (sum(facts.times_of_group(g[0]) for g in by_tiles[tiles]), tiles),
    )
    for tiles, operators in by_tiles.items():
        if tiles >= usual:
            continue
        for groups in operators:
            used = uses_of_tiles(
                groups, [(group.inputs + group.outputs)[place] for group in groups]
            )
            share = tasks_in(groups) // usual
            shared = [tile for tile, count in used.items() if count > share]
            culprits = carriers(facts, groups, place, shared)
            name = facts.graph.tensors[culprits[0].tensor].base_ptr
            yield _tile_finding(facts, name, culprits, usual)


def _tile_finding(facts: RankFacts, name: str, culprits: list[Access], tiles: int) -> Finding:
    groups = groups_of(culprits)
    same = alike_but_for_writes(facts, groups) and not is_copy(facts, groups[0])
    return RULE.finding(
        facts.rank,
        _tile_message(facts, name, culprits, tiles, same),
        slot_field(facts, culprits[-1], "offset"),
        hint=(
            f"in the builder, correct the operator's grid; or the offset of {name} in task "
            f"{culprits[-1].group.first}, so that each task has a tile of its own"
        ),
        severity=Severity.ERROR if same else Severity.WARNING,
        related=(
            *declared(facts, name),
            slot_field(facts, culprits[0], "offset", "the same bytes, first used here"),
        ),
        tensor=name,
    )


def _tile_message(
    facts: RankFacts, name: str, culprits: list[Access], tiles: int, same: bool
) -> str:
    regions = facts.regions.of(name)
    who = tasks(facts, groups_of(culprits))
    what = f"{regions.text(regions.union(a.tensor for a in culprits))} of {name}"
    if same:
        return (
            f"{who} read the same, {what} among it, and write different tiles: all of these hold "
            "the same numbers"
        )
    verb, done = ("write", "written") if culprits[0].writes else ("read", "read")
    return (
        f"{who} {verb} {what} more than once; the other tiles of the operator "
        f"({plural(tiles, 'tile')} in all) are {done} less often"
    )
