"""Who is an outlier, and how the rules on layers speak of operators and slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in, stack_in
from mirage_gate.facts.roles import ABSENT, Content, Role
from mirage_gate.findings import Location
from mirage_gate.rules._words import in_layers

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.siblings import Column, Siblings

_FEW = 8
"""Outliers are one layer, or at most one in eight."""


def is_odd(outliers: Collection[int], layers: Collection[int]) -> bool:
    """Whether so few of the layers differ that they are the odd ones."""
    if len(outliers) == 1:
        return len(layers) >= 3
    return 1 < len(outliers) <= len(layers) // _FEW and not is_periodic(outliers, layers)


def is_periodic(some: Collection[int], layers: Collection[int]) -> bool:
    """Whether they are every second, third, … layer: how an architecture alternates."""
    if len(some) < 2:
        return False
    ordered = sorted(some)
    step = ordered[1] - ordered[0]
    return step > 1 and ordered == [n for n in sorted(layers) if (n - ordered[0]) % step == 0]


def is_whole_class(column: Column, outliers: Collection[int]) -> bool:
    """Whether the outliers are just the layers of one class among several."""
    if len(column.classes) < 2:
        return False
    class_of = column.siblings.class_of
    of = {class_of(layer).number for layer in outliers}
    members = {n for n in column.operators if class_of(n).number in of}
    return members == set(outliers)


def columns_of(facts: RankFacts) -> Iterator[Column]:
    """Give the operators of every stack of layers, each over all layers that have it."""
    for siblings in facts.stacks:
        yield from siblings.columns


def these_layers(siblings: Siblings, layers: Collection[int]) -> str:
    """Name some layers, and of two models in one graph whose: ``layer 2 of draft_layer``."""
    return f"{in_layers(layers)}{f' of {siblings.name}' if siblings.name else ''}"


def in_own_model(facts: RankFacts, column: Column, role: str, layer: int) -> str:
    """Give the name that another model's role has in a layer of this one."""
    prefix = facts.layers.stacks[column.siblings.stack].prefix
    return f"{prefix}{layer}{role.removeprefix(stack_in(named_in(role, 0))).removeprefix('N')}"


def is_foreign(facts: RankFacts, column: Column, role: str, layer: int) -> bool:
    """Whether a role is another model's in the graph, and this one's layer has its own."""
    stacks = facts.layers.stacks
    prefix = stack_in(named_in(role, 0))
    return (
        prefix != stacks[column.siblings.stack].prefix
        and any(stack.prefix == prefix for stack in stacks)
        and in_own_model(facts, column, role, layer) in facts.declared
    )


def in_slot(facts: RankFacts, column: Column, index: int) -> dict[int, Content]:
    """Give what one input slot of an operator carries, by layer."""
    inputs = facts.roles.inputs
    return {
        layer: inputs[operator.number][index]
        if index < len(inputs[operator.number])
        else frozenset({ABSENT})
        for layer, operator in column.operators.items()
    }


def width_of(facts: RankFacts, column: Column) -> int:
    """How many input slots an operator has, where it has most."""
    inputs = facts.roles.inputs
    return max((len(inputs[o.number]) for o in column.operators.values()), default=0)


def majority_of(contents: Iterable[Content]) -> Content:
    """Give what most layers carry; of equally many the first."""
    return Counter(contents).most_common(1)[0][0]


def operator_text(facts: RankFacts, task_type: int, weight: str) -> str:
    """Name an operator by its type and, within the layers, by what only it reads or fills."""
    name = facts.task_type(task_type).name
    return f"{name} ({weight})" if weight != named_in(weight, 0) else name


def listed(words: Iterable[str]) -> str:
    """List some words, each once: ``a, b and c``."""
    *most, last = list(dict.fromkeys(words))
    return f"{', '.join(most)} and {last}" if most else last


def role_text(facts: RankFacts, role: Role) -> str:
    """Say what a slot carries."""
    if role.kind == "weight":
        return role.name
    if role.kind == "nothing":
        return "nullptr"
    if role.kind == "unread":
        return "a tensor that the kernel does not read"
    if role.kind == "absent":
        return "nothing"
    if role.kind == "layer input":
        return "what the operator right before the layer wrote"
    if role.kind == "output":
        return "a buffer that it fills"
    if role.kind == "unwritten":
        return f"{role.name}, which no task wrote before"
    when = {-1: " outside of the layers", 0: "", 1: " in the layer before"}
    ago = when.get(role.back, f" {role.back} layers before")
    return f"what {operator_text(facts, role.writer, role.name)} wrote{ago}"


def slot_at(
    facts: RankFacts, operator: Operator, index: int, odd: Collection[str] = ()
) -> Location:
    """Point at the slot of the first task that carries one of the odd names there, if any."""
    names = operator.slots.get((True, index))
    if not names:
        return facts.in_graph("all_tasks", operator.first, "inputs")
    groups = [group for name, group in names.items() if not odd or name.name in odd]
    first = min(group.first for group in groups or names.values())
    return facts.in_graph("all_tasks", first, "inputs", index, "base_ptr")


def writer_in(facts: RankFacts, content: Content, home: tuple[int, int]) -> Operator | None:
    """Find the operator of one layer that writes what a slot of that layer is to carry."""
    role = next(iter(content)) if len(content) == 1 else None
    if role is None or role.kind != "activation" or role.back:
        return None
    found = [
        operator
        for operator in facts.layers.at(home)
        if operator.task_type == role.writer and operator.weight in ("", role.name)
    ]
    return found[0] if len(found) == 1 else None


def last_writer(facts: RankFacts, reader: Operator, index: int) -> Operator | None:
    """Give the operator that wrote last what a slot carries."""
    names = set(reader.slots.get((True, index), ()))
    operators = facts.layers.operators
    for number in range(reader.number - 1, -1, -1):
        if names & set(operators[number].names(is_input=False)):
            return operators[number]
    return None


def is_critical(facts: RankFacts, name: str) -> bool:
    """Whether a tensor is declared, and critical."""
    declaration = facts.declared.get(name)
    return declaration is not None and facts.is_critical(declaration)


def tables_at(facts: RankFacts, content: Content, layers: Iterable[int]) -> list[str]:
    """The critical tensors among some roles, by role: for all layers, or one for each."""
    layers = list(layers)
    return [
        role.name
        for role in in_words_order(content)
        if role.kind == "weight" and is_critical(facts, of_layer(facts, role.name, layers))
    ]


def of_layer(facts: RankFacts, role: str, layers: Iterable[int]) -> str:
    """Give the declared name of a role in the first of some layers that has it."""
    names = (named_in(role, layer) for layer in layers)
    return next((name for name in names if name in facts.declared), role)


def in_words_order(content: Content) -> list[Role]:
    """Roles in an order of their own, the same in every run."""
    return sorted(content, key=lambda role: (role.kind, role.name, role.writer, role.slot))
