"""What rules of several families claim in the same words, so that one's cause is known as such.

See :class:`mirage_gate.findings.Claim`: each is a thing that is wrong, and where.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group


def untaken(names: Iterable[str]) -> str:
    """No task takes some tensors."""
    return f"no task takes {', '.join(sorted(names))}"


def taken(tensor: str, task: int) -> str:
    """An operator, by its first task, takes a tensor that is not its own."""
    return f"task {task} takes {tensor}"


def unheard(task: int) -> str:
    """What an operator makes, by its first task, is read by nobody."""
    return f"no task reads what task {task} writes"


def empty(index: int, operators: Iterable[int]) -> str:
    """Some operators, by number, have nothing in an input."""
    return f"nothing is in input {index} of operators {sorted(set(operators))}"


def empty_in(facts: RankFacts, index: int, groups: Iterable[Group]) -> str:
    """The operators of some groups have nothing in an input."""
    wanted = {group.number for group in groups}
    found = (
        operator.number
        for operator in facts.layers.operators
        if any(group.number in wanted for group in operator.groups)
    )
    return empty(index, found)


def ill(tensor: str) -> str:
    """A tensor is nothing that can be read: not declared, without memory, never written."""
    return f"{tensor} is nothing to read"


def filled(tensor: str, source: str) -> str:
    """A tensor is filled from a source that is not its own."""
    return f"{tensor} is filled from {source}"


def misfilled(tensor: str) -> str:
    """The copies into a tensor are not as they should be: one too few, or in another order."""
    return f"the copies into {tensor}"


def exchanged(task_type: int, slots: Iterable[int], layer: int | None) -> str:
    """Two inputs of a layer's operators of one type are each other's."""
    return f"inputs {sorted(slots)} of type {task_type} in layer {layer} are each other's"


def misshapen(is_input: bool, index: int, groups: Iterable[Group]) -> str:
    """The tiles that some tasks carry in a slot are not those that their variant is for."""
    numbers = sorted({group.number for group in groups})
    return f"the tile in {'input' if is_input else 'output'} {index} of {numbers}"


def mistyped(is_input: bool, index: int, groups: Iterable[Group]) -> str:
    """The data type that some tasks give a slot is not what their variant is for."""
    return f"the data type of {misshapen(is_input, index, groups)}"


def repeated(operator: int, times: int) -> str:
    """An operator, by number, has so many tasks too many, each just like another."""
    return f"operator {operator} repeats {times} of its tasks"


def without_kernel(task_type: int, variant: int) -> str:
    """A variant has no dispatch branch."""
    return f"variant {variant} of type {task_type} has no branch"


def outdated(tensor: str, operator: int, cells: int) -> str:
    """An operator, by number, reads cells of a tensor as something before left them."""
    return f"operator {operator} reads {cells:x} of {tensor} as it was before"
