"""MG702: in one layer a slot carries something else than in all its siblings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in
from mirage_gate.facts.siblings import LACKING, LAYER_INPUT, Content, Role
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, in_layers
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._copies import sources_otherwise
from mirage_gate.rules.layers._shared import (
    in_slot,
    in_words_order,
    is_odd,
    is_whole_class,
    listed,
    majority_of,
    operator_text,
    role_text,
    slot_at,
    tables_at,
    width_of,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.siblings import Column

RULE = Rule(
    "MG702",
    "operand-outlier",
    Severity.WARNING,
    "In one layer a slot carries something else than in all its siblings.",
    why="""
        A residual taken from the buffer of an earlier layer has the right size, is written
        before it is read and breaks no event. The sum is of the wrong things. The same
        operator in the other layers tells: there, the slot carries what the operator before
        the layer wrote.
    """,
    example="""
        Input 2 of layer 1's output projection carries `embed_out`; in every other layer the
        slot carries what the layer before wrote.
    """,
    fix="Pass the tensor that the sibling layers pass.",
    limits="""
        Buffers are told apart by the operator that last wrote them, not by name. One layer
        of three or more is an outlier, or at most one in eight; of two that differ, either
        may be the wrong one. A weight of another role
        counts only if the layer has a tensor of the usual role: weights that one layer
        stores fused and the others apart are no outlier.
    """,
)


LAYER_INPUTS: Content = frozenset({LAYER_INPUT})


@RULE.checked_by
def operand_outlier(facts: RankFacts) -> Iterator[Finding]:
    first = min(facts.siblings.layers, default=0)
    broken = {gap.layer for gap in facts.siblings.gaps if gap.missing}
    for column in facts.siblings.columns:
        for index in range(width_of(facts, column)):
            contents = in_slot(facts, column, index)
            outliers: dict[Content, list[int]] = defaultdict(list)
            usual = _usual(contents, first)
            for layer, content in contents.items():
                if content != usual and not content & LACKING:
                    outliers[content].append(layer)
            every = [layer for layers in outliers.values() for layer in layers]
            if not every or not (len(contents) == 2 or is_odd(every, contents)):
                continue
            if len(contents) == 2 and (
                usual & LACKING or (usual != LAYER_INPUTS and any(map(_from_outside, usual)))
            ):
                continue
            # The one layer of its class may differ, but every layer has an input.
            alone = len(every) == 1 and usual == LAYER_INPUTS
            if is_whole_class(facts, column, every) and not alone:
                continue
            for content, layers in outliers.items():
                if first in layers and any(_from_outside(role) for role in content):
                    continue  # what stands before the layers is the first one's own affair
                if broken & set(layers) or (usual & LACKING and tables_at(facts, content, layers)):
                    continue  # MG701 says it
                if _follows(layers, broken) and _from_before(content | usual):
                    continue
                if not _misplaced(facts, content, usual, layers):
                    continue
                yield _operand_finding(facts, column, index, contents, content, layers, usual)
    yield from sources_otherwise(RULE, facts)


def _content(facts: RankFacts, content: Content) -> str:
    return listed(role_text(facts, role) for role in in_words_order(content))


def _carried(operator: Operator, index: int) -> list[str]:
    return [name.name for name in operator.slots.get((True, index), ())]


def _usual(contents: dict[int, Content], first: int) -> Content:
    """Give what most layers carry; of two, the layer's input, else what the first carries."""
    if len(contents) == 2:
        both = list(contents.values())
        return LAYER_INPUTS if LAYER_INPUTS in both else both[0]
    return majority_of([c for n, c in contents.items() if n != first] or contents.values())


def _from_outside(role: Role) -> bool:
    return role.back < 0 or role.kind in ("layer input", "unwritten")


def _from_before(content: Content) -> bool:
    return any(role.kind == "layer input" or role.back > 0 for role in content)


def _follows(layers: Collection[int], broken: Collection[int]) -> bool:
    return any(layer - 1 in broken for layer in layers)


def _misplaced(facts: RankFacts, content: Content, usual: Content, layers: Collection[int]) -> bool:
    """Whether the layers could have carried the usual thing: a weight must be there to miss."""
    if any(role.kind != "weight" for role in content | usual):
        return True
    return any(
        named_in(role.name, layer) in facts.declared for role in usual - content for layer in layers
    )


def _operand_finding(
    facts: RankFacts,
    column: Column,
    index: int,
    contents: dict[int, Content],
    content: Content,
    layers: list[int],
    usual: Content,
) -> Finding:
    operator = column.operators[layers[0]]
    siblings = [n for n in contents if contents[n] == usual]
    expected = set().union(*(_carried(column.operators[n], index) for n in siblings))
    names = _carried(operator, index)
    odd = [name for name in names if name not in expected] or names
    said = _content(facts, content)
    carried = listed(odd)
    is_weight = all(role.kind == "weight" for role in content)
    what = carried if is_weight else f"{carried}, {said}"
    near = next((n for n in siblings if n > layers[-1]), siblings[-1])
    example = listed(_carried(column.operators[near], index))
    usually = _content(facts, usual)
    if usually != example:
        usually += f" ({example} in layer {near})"
    return RULE.finding(
        facts.rank,
        (
            f"in {in_layers(layers)}, input {index} of "
            f"{operator_text(facts, column.task_type, column.key[1])} carries {what}; in "
            f"{in_layers(siblings)} it carries {usually}"
        ),
        slot_at(facts, operator, index, odd),
        hint=f"pass what layer {near} passes",
        related=(
            slot_at(facts, column.operators[near], index).saying(
                f"layer {near} has {example} here"
            ),
            *(place for name in odd for place in declared(facts, name)),
        ),
        tensor=odd[0],
    )
