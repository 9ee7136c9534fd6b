"""What each layer does with a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.regions import size_of

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group


class Use(msgspec.Struct, frozen=True, gc=False):
    """What one layer does with one tensor; ``layer`` is None outside the layers.

    ``readers`` and ``writers`` are groups, each once. ``nbytes`` is the size of the tiles
    read there, each distinct one counted once.
    """

    layer: int | None
    readers: list[Group]
    writers: list[Group]
    nbytes: int


def uses_by_layer(facts: RankFacts, name: str) -> Iterator[Use]:
    """Give what each layer does with a tensor, the tasks outside of all layers first."""
    tensors, of_group = facts.graph.tensors, facts.layers.of_group
    readers: dict[int | None, dict[int, Group]] = {}
    writers: dict[int | None, dict[int, Group]] = {}
    tiles: dict[int | None, set[int]] = {}
    for access in facts.wiring.of(name):
        group = access.group
        layer = of_group[group.number]
        if access.reads:
            readers.setdefault(layer, {})[group.number] = group
            tiles.setdefault(layer, set()).add(access.tensor)
        if access.writes:
            writers.setdefault(layer, {})[group.number] = group
    for layer in sorted({*readers, *writers}, key=lambda layer: -1 if layer is None else layer):
        yield Use(
            layer=layer,
            readers=list(readers.get(layer, {}).values()),
            writers=list(writers.get(layer, {}).values()),
            nbytes=sum(size_of(tensors[tile]) for tile in tiles.get(layer, ())),
        )
