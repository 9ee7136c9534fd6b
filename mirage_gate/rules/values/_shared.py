"""How the rules on values speak of operators, and how they point at them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import role_of
from mirage_gate.findings import Location
from mirage_gate.rules._words import in_layers

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Place

Kind = tuple[int, str]
"""What an operator is in every layer: its type, and the weight it takes or what it fills."""


def kind_of(operator: Operator) -> Kind:
    """Tell an operator from others of its layer, the same in every layer."""
    filled = min((name.role for name in operator.names(is_input=False)), default="")
    return operator.task_type, operator.weight or filled


def text_of(facts: RankFacts, operator: Operator) -> str:
    """Name an operator: ``TASK_RMS_NORM_HOPPER (layer_N_input_layernorm)``."""
    name = facts.task_type(operator.task_type).name
    return f"{name} ({operator.weight})" if operator.weight else name


def in_its_layer(operator: Operator) -> str:
    """Say where an operator is: `` of layer 3``; nothing outside of the layers."""
    return "" if operator.place is None else f" of layer {operator.place}"


def where(operators: Iterable[Operator]) -> str:
    """Say in which layers some operators are: ``in layers 0-3``."""
    places = {operator.place for operator in operators}
    layers = [place for place in places if place is not None]
    if not layers:
        return "outside of the layers"
    return f"in {in_layers(layers)}{' and outside of them' if None in places else ''}"


def at(
    facts: RankFacts, operator: Operator, place: Place, tensor: str, cells: int, note: str = ""
) -> Location:
    """Point at the slot of the operator's first task that carries some cells of a tensor."""
    is_input, index = place
    regions, tensors = facts.regions.of(tensor), facts.graph.tensors
    first = operator.first
    for group in operator.groups:
        operands = group.inputs if is_input else group.outputs
        if index >= len(operands) or tensors[operands[index]].base_ptr != tensor:
            continue
        if not cells or regions.mask(operands[index]) & cells:
            first = group.first
            break
    side = "inputs" if is_input else "outputs"
    return facts.in_graph("all_tasks", first, side, index, "base_ptr", note=note)


def same_in_layers(tensor: str) -> str:
    """Give a tensor's name less its layer, to gather what every layer does to its own."""
    return role_of(tensor)
