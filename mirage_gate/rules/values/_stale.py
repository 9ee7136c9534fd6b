"""Which reads see an older value than the one that was to be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.facts.words import MERGE, forms
from mirage_gate.rules.values._shared import Kind, kind_of

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Place, Use, Value


class Stale(msgspec.Struct, frozen=True):
    """A read of cells that an older layer or iteration filled, and who was to fill them.

    ``old`` is the value that it sees there, None where nothing ever writes them; ``carried``
    says that it is the last iteration's. ``own`` is what the operator of its own layer writes
    into the tensor, None where there is none. ``unordered``: that operator is neither before
    the read nor after it.
    """

    use: Use
    old: Value | None
    own: Value | None
    cells: int
    carried: bool = False
    unordered: bool = False


class _Row(msgspec.Struct):
    """One slot of an operator in all the layers, and what it sees of one other operator."""

    clean: set[tuple[int, int]]
    stale: dict[tuple[int, int], Stale]


def by_siblings(facts: RankFacts) -> Iterator[list[Stale]]:
    """Give reads of an older layer's value, where most layers read their own, by operator.

    In its own layer the same operator fills the same tensor as well, but later, or not all of
    what is read.
    """
    rows: dict[object, _Row] = {}
    for use, own in _uses_in_layers(facts):
        layer = use.operator.home or (0, 0)
        for key, found in _seen(facts, use, own).items():
            of = (layer[0], kind_of(use.operator), use.place, key)
            row = rows.setdefault(of, _Row(set(), {}))
            if found is None:
                row.clean.add(layer)
            else:
                row.stale.setdefault(layer, found)
    for row in rows.values():
        row.clean -= row.stale.keys()
        clean, stale = (
            sum(facts.times_of_layer(layer) for _, layer in layers)
            for layers in (row.clean, row.stale)
        )
        if row.stale and clean > stale:
            yield list(row.stale.values())


def _uses_in_layers(facts: RankFacts) -> Iterator[tuple[Use, dict[tuple[Kind, Place], Value]]]:
    """Give what the layers read of buffers, and what each layer's own operators write there."""
    for name, tensor in facts.values.tensors.items():
        declaration = facts.declared.get(name)
        if declaration is None or declaration.kind not in BUFFERS or tensor.opaque:
            continue
        own: dict[tuple[int, int], dict[tuple[Kind, Place], Value]] = {}
        for value in tensor.values:
            if value.operator.home is not None:
                key = (kind_of(value.operator), value.place)
                own.setdefault(value.operator.home, {})[key] = value
        if not own:
            continue
        for use in tensor.uses:
            if use.operator.home is not None and not use.cells & tensor.murky:
                yield use, own.get(use.operator.home, {})


def _seen(
    facts: RankFacts, use: Use, own: dict[tuple[Kind, Place], Value]
) -> dict[tuple[Kind, Place], Stale | None]:
    """Give each operator that a read sees: None where it is its own layer's, else what is old."""
    found: dict[tuple[Kind, Place], Stale | None] = {}
    layer = use.operator.home
    whole = use.exact or merges(facts, use.operator)
    for value, _ in use.seen:
        if value.operator.home == layer:
            found.setdefault((kind_of(value.operator), value.place))
    older = [(v, cells, False) for v, cells in reversed(use.seen) if v.operator.home != layer]
    if use.before:
        left = facts.values.of(use.tensor).values
        older += [(v, v.left & use.before, True) for v in left if v.left & use.before]
    for value, cells, carried in older:
        key = (kind_of(value.operator), value.place)
        provider = own.get(key)
        if value.operator.place is None or provider is None or provider.operator is use.operator:
            continue
        if key in found and not whole:
            continue  # a part of it is its own layer's, and its rows are picked at run time
        if found.get(key) is None and not cells & facts.values.unordered(use.tensor):
            found[key] = Stale(use, value, provider, cells, carried)
    return found


def merges(facts: RankFacts, operator: Operator) -> bool:
    """Whether an operator joins the parts of another, and so reads all of them."""
    name = facts.task_type(operator.task_type).name
    return any(form.operator.endswith(MERGE) for form in forms(name) or ())


def never_made(facts: RankFacts) -> Iterator[Stale]:
    """Give merges that take parts which no task makes, in any layer."""
    for name, tensor in facts.values.tensors.items():
        declaration = facts.declared.get(name)
        if declaration is None or declaration.kind not in BUFFERS or tensor.opaque:
            continue
        made = tensor.murky
        for value in tensor.values:
            made |= value.cells
        for use in tensor.uses:
            missing = use.cells & ~made
            if missing and use.seen and not use.exact and merges(facts, use.operator):
                yield Stale(use, None, use.seen[-1][0], missing)


def unordered(facts: RankFacts) -> Iterator[Stale]:
    """Give reads that are sure to meet writes of an operator that nothing orders.

    Rows that are picked at run time need not meet, task by task. But where one operator
    touches every cell that the other may pick, and none of its tasks is ordered with any of
    the other's, they do, whatever is picked.
    """
    for name, order in facts.order.tensors.items():
        seen: set[tuple[int, int]] = set()
        of = facts.layers.operator_numbers
        for race in order.races:
            if race.certain or not race.earlier_writes or race.later_writes:
                continue
            pair = (of[race.earlier.first.number], of[race.later.first.number])
            if pair[0] == pair[1] or pair in seen:
                continue
            if facts.layers.operators[pair[0]].home != facts.layers.operators[pair[1]].home:
                continue  # it is not what the reader waits for
            seen.add(pair)
            yield from _sure_to_meet(facts, name, *pair)


def _sure_to_meet(facts: RankFacts, tensor: str, writer: int, reader: int) -> Iterator[Stale]:
    operators = facts.layers.operators
    value = next((v for v in facts.values.written.get(writer, ()) if v.tensor == tensor), None)
    uses = [
        use
        for uses in facts.values.uses.get(reader, {}).values()
        for use in uses
        if use.tensor == tensor
    ]
    if value is None or facts.values.of(tensor).opaque:
        return
    if _any_order(facts, operators[writer], operators[reader]):
        return
    for use in uses:
        if (value.exact and not use.cells & ~value.cells) or (
            use.exact and not value.cells & ~use.cells
        ):
            old = next((v for v, _ in reversed(use.seen) if v is not value), None)
            yield Stale(use, old, value, use.cells & value.cells, unordered=True)
            return


def _any_order(facts: RankFacts, one: Operator, other: Operator) -> bool:
    """Whether any task of one operator is before any task of another, either way round."""
    events = facts.events
    index, before = events.index, events.before

    def ends(operator: Operator) -> tuple[set[int], set[int]]:
        numbers = [group.number for group in operator.groups]
        waits = {events.waits[n] for n in numbers if events.weight[n]}
        fires = {events.fires[n] for n in numbers if events.weight[n]}
        return (
            {index[event] for event in waits if event >= 0},
            {index[event] for event in fires if event >= 0},
        )

    (waits, fires), (other_waits, other_fires) = ends(one), ends(other)
    if min(waits | fires | other_waits | other_fires, default=-1) < 0:
        return True  # a place that is not known: nothing is claimed
    return any(before.holds(f, w) for f in fires for w in other_waits) or any(
        before.holds(f, w) for f in other_fires for w in waits
    )
