"""The metadata that tell an operator's tasks apart: whether they are its whole grid, each once.

A body that picks its rows by ``request_id``, ``kv_idx`` or ``expert_offset`` does the part of the
work that its number says. In every graph known the numbers of one operator's tasks begin at 0 and
have no gap, all combinations of two fields are there, and no two tasks with the same operands have
the same. Where the variant is compiled for a number of them, that many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import ABSENT, METADATA_FIELDS

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

Values = tuple[int, ...]


class Hole(msgspec.Struct, frozen=True):
    """An operator whose tasks are not its whole grid.

    ``what``: ``gap`` (``field`` lacks ``missing``), ``pairs`` (each field is whole, a combination
    is not there), ``twice`` (tasks with the same operands have the same numbers), ``number``
    (there are other than the ``wanted`` that the variant is compiled for). ``task`` is the one to
    look at.
    """

    what: str
    field: str
    branch: Branch
    groups: tuple[Group, ...]
    task: int
    found: tuple[int, ...]
    missing: int = 0
    wanted: int = 0


def holes(facts: RankFacts) -> Iterator[Hole]:
    """Give every operator, variant by variant, whose metadata are not a whole grid."""
    for operator in facts.layers.operators:
        variants: dict[int, list[Group]] = {}
        for group in operator.groups:
            variants.setdefault(group.variant, []).append(group)
        for variant, groups in variants.items():
            branch = facts.wiring.branch(operator.task_type, variant)
            if branch is None:
                continue
            fields = [field for field in METADATA_FIELDS if field in branch.metadata]
            if not fields or len(fields) == len(METADATA_FIELDS):
                continue  # a body that hands all of it on may read none
            yield from _of_variant(facts, branch, groups, fields)


def _of_variant(
    facts: RankFacts, branch: Branch, groups: list[Group], fields: list[str]
) -> Iterator[Hole]:
    counts: dict[tuple[int, ...], Counter[Values]] = {}
    first: dict[Values, int] = {}
    for group in groups:
        values = facts.wiring.metadata_in(group, branch)
        counts.setdefault(group.inputs + group.outputs, Counter()).update(values)
        for task, value in zip(facts.wiring.members(group), values, strict=True):
            first.setdefault(value, task)
    whole = True
    wanted = _compiled_for(facts, branch)
    sizes = []
    for place, field in enumerate(fields):
        found = sorted({value[place] for value in first})
        if ABSENT in found:
            return  # a graph of a time when the field was not there
        sizes.append(len(found))
        missing = next((n for n, value in enumerate(found) if n != value), len(found))
        number = wanted.get(field, len(found))
        at = min(task for value, task in first.items() if value[place] == found[-1])
        if missing < len(found):
            whole = False
            at = min(t for v, t in first.items() if v[place] == found[missing])
            yield Hole("gap", field, branch, tuple(groups), at, tuple(found), missing)
        elif number != len(found):
            whole = False
            yield Hole("number", field, branch, tuple(groups), at, tuple(found), wanted=number)
    if whole and len(first) < prod(sizes):
        task = min(first.values())
        yield Hole("pairs", " and ".join(fields), branch, tuple(groups), task, (len(first),))
        whole = False
    if not whole or len(first) == 1:
        return  # tasks that are all alike in everything do the same work: MG505
    for operands, counted in counts.items():
        twice = [value for value, times in counted.items() if times > 1]
        if twice:
            same = [group for group in groups if group.inputs + group.outputs == operands]
            yield Hole("twice", fields[0], branch, tuple(same), first[twice[0]], twice[0])
            return


def _compiled_for(facts: RankFacts, branch: Branch) -> dict[str, int]:
    """Give how many values of a field a variant is compiled for, where its call says so."""
    if branch.body is None:
        return {}
    call, way = facts.signatures.constants.known(branch.body)
    if call is None or way is None:
        return {}
    return {
        parameter.spec[1:]: argument.value
        for parameter, argument in zip(way.template, call.template, strict=True)
        if parameter.spec.startswith("%") and isinstance(argument.value, int)
    }
