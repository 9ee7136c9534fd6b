"""Which layer of the model a task belongs to, and which operators a layer has.

Weights and caches say their layer by name. A name alone is not a place, though: where layer
7's weight is read among the operators of layer 8, it is read in layer 8's place. So the
numbers that the operators carry are fitted with a sequence that never goes back, as MPK lays
out the operators in the order in which the builder called them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from mirage_gate.facts.operators import Name, Operator, names_in, operators_of
from mirage_gate.facts.stacks import Stack, Vote, divide

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

_MISMATCH, _BAD_CUT = 3, 2
_MOST_CELLS = 1 << 22


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
        return self._placed[0]

    @cached_property
    def stacks(self) -> list[Stack]:
        """The models that the graph holds, each with layers of its own; one, if it has layers."""
        return self._placed[1]

    @cached_property
    def _placed(self) -> tuple[list[Operator], list[Stack]]:
        operators = list(operators_of(self._facts, self.names))
        return operators, _place(operators, self._facts.times_of_layer)

    @cached_property
    def by_stack(self) -> list[dict[int, list[Operator]]]:
        """The operators of each layer of each stack, layers ascending."""
        stacks: list[dict[int, list[Operator]]] = [{} for _ in self.stacks]
        for operator in self.operators:
            if operator.place is not None:
                stacks[operator.stack].setdefault(operator.place, []).append(operator)
        return [dict(sorted(layers.items())) for layers in stacks]

    def at(self, home: tuple[int, int]) -> list[Operator]:
        """Give the operators of a layer, by :attr:`Operator.home`."""
        stack, place = home
        return self.by_stack[stack].get(place, [])

    @cached_property
    def by_layer(self) -> dict[int, list[Operator]]:
        """The operators of each layer of the main stack, layers ascending.

        It is the one that has as many layers as the model that is meant, else the highest, of
        two the later: a draft model or a tower comes first and is lower, most often.
        """
        return self.by_stack[self.main] if self.by_stack else {}

    @cached_property
    def main(self) -> int:
        """The number of the main stack."""
        model = self._facts.options.model
        meant = -1 if model is None else model.layers
        sizes = [(len(layers) == meant, len(layers)) for layers in self.by_stack]
        return max(range(len(sizes)), key=lambda n: (sizes[n], n), default=0)

    @cached_property
    def names(self) -> list[Name]:
        """The name of each reference in ``Graph.tensors``."""
        return names_in(self._facts)


def _numbers(operator: Operator) -> frozenset[Vote]:
    """The layers that an operator's weights and caches name."""
    return frozenset(
        (name.stack, name.layer)
        for name in operator.names()
        if name.weight and name.layer is not None
    )


def _written_numbers(operator: Operator) -> frozenset[Vote]:
    """The layers that the buffers an operator fills name."""
    return frozenset(
        (name.stack, name.layer)
        for name in operator.names(is_input=False)
        if not name.loaded and name.layer is not None
    )


def _place(operators: list[Operator], times: Callable[[int], int]) -> list[Stack]:
    """Give each operator its layer, and its stack; give the stacks.

    ``times`` says how many layers one stands for.
    """
    votes = [_numbers(operator) for operator in operators]
    if not any(votes):
        votes = [_written_numbers(operator) for operator in operators]
    numbered = [i for i, said in enumerate(votes) if said]
    stacks = divide(operators, numbered, [votes[i] for i in numbered])
    for stack, start, end in _spans(stacks, len(numbered)):
        members = numbered[start:end]
        said = [frozenset(number for _, number in votes[i]) for i in members]
        places = _fit([operators[i] for i in members], said, times)
        for i, place in zip(members, places, strict=True):
            operators[i].place, operators[i].stack = place, stack
    following: dict[int, int | None] = dict.fromkeys(numbered)
    following.update(pairwise(numbered))
    before: tuple[int, int] | None = None
    after: int | None = numbered[0] if numbered else None
    for i, operator in enumerate(operators):
        if votes[i]:
            before, after = operator.home, following[i]
            continue
        ahead = None if after is None else operators[after].home
        if ahead is None or before != ahead:
            if any(name.weight for name in operator.names()):
                before = None  # the embedding, the final norm, the head
            elif ahead and {number for _, number in _written_numbers(operator)} == {ahead[1]}:
                before = ahead
        operator.stack, operator.place = before or (0, None)
    return stacks


def _spans(stacks: list[Stack], end: int) -> Iterator[tuple[int, int, int]]:
    """Give (stack, first, one past the last) among the operators that say a layer."""
    starts = [stack.start for stack in stacks]
    for stack, (start, stop) in zip(stacks, pairwise([*starts, end]), strict=True):
        yield stack.number, start, stop


def _fit(
    operators: list[Operator], votes: list[frozenset[int]], times_of: Callable[[int], int]
) -> list[int]:
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
    openings: Counter[tuple[int, str]] = Counter()
    for place, first in firsts.items():
        openings[first] += times_of(place)
    opening, times = openings.most_common(1)[0]
    opens = [(operator.task_type, operator.weight) == opening for operator in operators]
    plain = all(len(numbers) == 1 for numbers in votes)
    rising = all(a <= b for a, b in pairwise(majority))
    if plain and rising and times == openings.total() and sum(opens) == len(firsts):
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
