"""Which layer of the model a task belongs to, and which operators a layer has.

An operator is a stretch of tasks of one type that fill the same tensors: what one call in
the builder became. Weights and caches say their layer by name. A name alone is not a place,
though: where layer 7's weight is read among the operators of layer 8, it is read in layer
8's place. So the numbers that the operators carry are fitted with a sequence that never
goes back, as MPK lays out the operators in the order in which the builder called them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import LOADED, SENTINEL

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

_NUMBER = re.compile(r"(?:^|[._])layers?[._](\d{1,4})(?=[._]|$)")
_MTP = re.compile(r"(?:^|[._])mtp(?=[._]|$)")

_MISMATCH, _BAD_CUT = 3, 2
_MOST_CELLS = 1 << 22


def layer_in(name: str) -> int | None:
    """Read the layer's number from a name such as ``layer_3_q_norm`` or ``model.layers.3.x``.

    A name of multi-token prediction (``mtp_model_layers_61_…``) has none: its module runs
    after the layers, whatever number its weights keep from the checkpoint.
    """
    if _MTP.search(name):
        return None
    number = _NUMBER.search(name)
    return int(number[1]) if number else None


def role_of(name: str) -> str:
    """Give a name without its layer's number: what the tensor is in every layer."""
    return _NUMBER.sub(lambda match: match[0].replace(match[1], "N"), name, count=1)


def named_in(role: str, layer: int) -> str:
    """Give the name that a role has in one layer."""
    return re.sub(r"(?<=[._])N(?=[._]|$)", str(layer), role, count=1)


def spans(numbers: Sequence[int]) -> str:
    """Write ascending numbers briefly: ``0-3, 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


class Name(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A tensor's name, read once and the same object wherever it stands.

    ``role`` is the name without its layer, ``loaded`` says that the host fills the tensor,
    ``weight`` that it is loaded and no table for all layers: not critical.
    """

    name: str
    role: str
    layer: int | None
    loaded: bool
    weight: bool


class Operator(msgspec.Struct, eq=False, dict=True):
    """A stretch of groups, in task order. ``place`` is its layer, None outside the layers.

    ``slots`` gives for each (is input, index) the names that its tasks carry there, each
    with the first group that does.
    """

    number: int
    task_type: int
    groups: list[Group]
    slots: dict[tuple[bool, int], dict[Name, Group]]
    place: int | None = None

    @property
    def first(self) -> int:
        """The lowest task id."""
        return self.groups[0].first

    @property
    def tasks(self) -> int:
        """How many tasks it has."""
        return sum(group.count for group in self.groups)

    def names(self, is_input: bool | None = None) -> Iterator[Name]:
        """Every name in its slots, those of one side if asked for."""
        for (side, _), names in self.slots.items():
            if is_input is None or side is is_input:
                yield from names

    @cached_property
    def weight(self) -> str:
        """The role of the first weight or cache it reads; empty if there is none."""
        for (is_input, _), names in self.slots.items():
            if is_input and (roles := [name.role for name in names if name.weight]):
                return min(roles)
        return ""


class Layers:
    """The operators of a rank, and the layer of each."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def of_group(self) -> list[int | None]:
        """The layer of each group, by group number; None is outside the layers."""
        layers: list[int | None] = [None] * len(self._facts.wiring.groups)
        for operator in self.operators:
            for group in operator.groups:
                layers[group.number] = operator.place
        return layers

    @cached_property
    def operator_numbers(self) -> list[int]:
        """The number of each group's operator, by group number."""
        numbers = [0] * len(self._facts.wiring.groups)
        for operator in self.operators:
            for group in operator.groups:
                numbers[group.number] = operator.number
        return numbers

    @cached_property
    def operators(self) -> list[Operator]:
        """Every operator, in task order, each in its place."""
        operators = list(self._stretches())
        _place(operators)
        return operators

    @cached_property
    def by_layer(self) -> dict[int, list[Operator]]:
        """The operators of each layer, layers ascending."""
        layers: dict[int, list[Operator]] = {}
        for operator in self.operators:
            if operator.place is not None:
                layers.setdefault(operator.place, []).append(operator)
        return dict(sorted(layers.items()))

    @cached_property
    def names(self) -> list[Name]:
        """The name of each reference in ``Graph.tensors``."""
        known: dict[str, Name] = {}
        names = []
        for tensor in self._facts.graph.tensors:
            name = known.get(tensor.base_ptr)
            if name is None:
                name = known[tensor.base_ptr] = self._read(tensor.base_ptr)
            names.append(name)
        return names

    def _read(self, name: str) -> Name:
        declaration = self._facts.declared.get(name)
        loaded = declaration is not None and declaration.kind in LOADED and name != SENTINEL
        layer = layer_in(name)
        weight = loaded and (layer is not None or not self._for_all_layers(name))
        return Name(name, role_of(name), layer, loaded, weight)

    def _for_all_layers(self, name: str) -> bool:
        """Whether a name is a table for all layers: critical, and not read in one place only."""
        declaration = self._facts.declared.get(name)
        if declaration is None or not self._facts.is_critical(declaration):
            return False
        readers = {access.group.number for access in self._facts.wiring.of(name)}
        return not readers or max(readers) - min(readers) >= len(readers)

    def _stretches(self) -> Iterator[Operator]:
        names = self.names
        current: Operator | None = None
        filled: tuple[Name, ...] = ()
        seen: set[tuple[tuple[Name, ...], tuple[Name, ...]]] = set()
        number = 0
        for group in self._facts.wiring.groups:
            inputs = tuple([names[tensor] for tensor in group.inputs])
            outputs = tuple([names[tensor] for tensor in group.outputs])
            if (
                current is None
                or group.task_type != current.task_type
                or filled != (outputs or inputs)
            ):
                if current is not None:
                    yield current
                current = Operator(number, group.task_type, [], {})
                number += 1
                filled = outputs or inputs
                seen = set()
            current.groups.append(group)
            if (inputs, outputs) in seen:
                continue
            seen.add((inputs, outputs))
            for is_input, side in ((True, inputs), (False, outputs)):
                for index, name in enumerate(side):
                    current.slots.setdefault((is_input, index), {}).setdefault(name, group)
        if current is not None:
            yield current


def _numbers(operator: Operator) -> frozenset[int]:
    """The layers that an operator's weights and caches name."""
    return frozenset(
        name.layer for name in operator.names() if name.weight and name.layer is not None
    )


def _written_numbers(operator: Operator) -> frozenset[int]:
    """The layers that the buffers an operator fills name."""
    return frozenset(
        name.layer
        for name in operator.names(is_input=False)
        if not name.loaded and name.layer is not None
    )


def _place(operators: list[Operator]) -> None:
    """Give each operator its layer."""
    votes = [_numbers(operator) for operator in operators]
    if not any(votes):
        votes = [_written_numbers(operator) for operator in operators]
    numbered = [i for i, numbers in enumerate(votes) if numbers]
    places = _fit([operators[i] for i in numbered], [votes[i] for i in numbered])
    for i, place in zip(numbered, places, strict=True):
        operators[i].place = place
    following: dict[int, int | None] = dict.fromkeys(numbered)
    following.update(pairwise(numbered))
    before: int | None = None
    after: int | None = numbered[0] if numbered else None
    for i, operator in enumerate(operators):
        if votes[i]:
            before, after = operator.place, following[i]
            continue
        ahead = None if after is None else operators[after].place
        if ahead is None or before != ahead:
            if any(name.weight for name in operator.names()):
                before = None  # the embedding, the final norm, the head
            elif ahead is not None and _written_numbers(operator) == {ahead}:
                before = ahead
        operator.place = before


def _fit(operators: list[Operator], votes: list[frozenset[int]]) -> list[int]:
    """Fit places that never go back with the numbers that the operators carry.

    A layer begins, in most layers, with the same operator; where the numbers alone leave a
    choice, a layer that begins elsewhere is the worse one.
    """
    if not operators:
        return []
    majority = [max(numbers) if len(numbers) == 1 else min(numbers) for numbers in votes]
    firsts: dict[int, tuple[int, str]] = {}
    for operator, place in zip(operators, majority, strict=True):
        firsts.setdefault(place, (operator.task_type, operator.weight))
    opening, times = Counter(firsts.values()).most_common(1)[0]
    opens = [(operator.task_type, operator.weight) == opening for operator in operators]
    plain = all(len(numbers) == 1 for numbers in votes)
    rising = all(a <= b for a, b in pairwise(majority))
    if plain and rising and times == len(firsts) and sum(opens) == times:
        return majority
    layers = sorted(set().union(*votes))
    if len(layers) * len(operators) > _MOST_CELLS:
        return majority
    # The cheapest way to have come to each layer, and from which layer it came.
    cost = [_MISMATCH * (layer not in votes[0]) for layer in layers]
    came: list[list[int]] = [list(range(len(layers)))]
    for numbers, opening_here in zip(votes[1:], opens[1:], strict=True):
        stay, cut = (_BAD_CUT, 0) if opening_here else (0, _BAD_CUT)
        best, best_at = cost[0] + cut, 0
        new: list[int] = []
        origin: list[int] = []
        for at, layer in enumerate(layers):
            here, there = cost[at] + stay, best
            if at and there < here:
                origin.append(best_at)
            else:
                origin.append(at)
                there = here
            new.append(there + _MISMATCH * (layer not in numbers))
            # The nearest of equally cheap origins: no layer is left out without need.
            if cost[at] + cut <= best:
                best, best_at = cost[at] + cut, at
        cost = new
        came.append(origin)
    at = cost.index(min(cost))
    found = []
    for origin in reversed(came):
        found.append(layers[at])
        at = origin[at]
    return found[::-1]
