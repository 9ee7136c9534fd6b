"""MG706: in one layer an operator runs another variant of its kernel, on the same operands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.siblings import Column
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import without_kernel
from mirage_gate.rules._words import in_layers
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._patterns import hole_in
from mirage_gate.rules.layers._shared import columns_of, operator_text, these_layers

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator

RULE = Rule(
    "MG706",
    "variant-outlier",
    Severity.WARNING,
    "In one layer an operator runs another variant of its kernel, on the same operands.",
    why="""
        What a kernel is compiled with is not in its operands: the window of its attention, an
        epsilon, a scale. Where one layer alone has tiles and tensors like its siblings' and
        yet runs another variant, the builder passed it another constant. So where one layer
        breaks a pattern, such as a window in every second layer.
    """,
    example="Attention runs variant 1 in layers 0, 2, 4, …, and variant 0 in layer 20.",
    fix="Pass the layer's operator the parameters that its siblings have.",
    limits="""
        The first and the last layer may differ, and so may two or more in no pattern: searched
        and hybrid architectures do. Operators with other tiles or operands are not compared.
    """,
)

_LEAST = 4

_PERIOD = 8
"""Longer periods are no architecture's."""


@RULE.checked_by
def variant_outlier(facts: RankFacts) -> Iterator[Finding]:
    for column in columns_of(facts):
        variants = {layer: _variants(operator) for layer, operator in column.operators.items()}
        if len(set(variants.values())) < 2:
            continue
        variants = {layer: variants[layer] for layer in _comparable(facts, column)}
        if len(variants) < _LEAST or len(set(variants.values())) < 2:
            continue
        hole = hole_in(variants)
        if hole is not None:
            yield _finding(facts, column, variants, hole.layer, hole.like)
            continue
        usual = Counter(variants.values()).most_common(1)[0][0]
        odd = [layer for layer, variant in variants.items() if variant != usual]
        if (
            len(odd) == 1
            and odd[0] not in (min(variants), max(variants))
            and not _may_be_first(odd[0], max(variants))
        ):
            siblings = [layer for layer in variants if layer != odd[0]]
            yield _finding(facts, column, variants, odd[0], siblings)


def _may_be_first(layer: int, last: int) -> bool:
    """Whether it may be the first of every n-th layer, of which the graph has no second."""
    return layer < _PERIOD and 2 * layer + 1 > last


def _variants(operator: Operator) -> tuple[int, ...]:
    return tuple(sorted({group.variant for group in operator.groups}))


def _comparable(facts: RankFacts, column: Column) -> list[int]:
    """The most layers in which an operator's tiles and operands are alike."""
    alike: dict[object, list[int]] = defaultdict(list)
    for layer, operator in column.operators.items():
        alike[_operands(facts, operator)].append(layer)
    return max(alike.values(), key=len, default=[])


def _operands(facts: RankFacts, operator: Operator) -> object:
    tensors = facts.graph.tensors
    tiles = {
        tuple(
            (tensors[n].dims, tensors[n].strides, tensors[n].data_type)
            for n in group.inputs + group.outputs
        )
        for group in operator.groups
    }
    lacking = tuple(
        content & {role for role in content if role.kind in ("nothing", "absent")}
        for content in facts.roles.inputs[operator.number]
    )
    return operator.tasks, frozenset(tiles), lacking


def _finding(
    facts: RankFacts,
    column: Column,
    variants: dict[int, tuple[int, ...]],
    layer: int,
    siblings: list[int],
) -> Finding:
    near = next((n for n in siblings if n > layer), siblings[-1])
    mine, theirs = (_text(variants[n]) for n in (layer, near))
    odd = set(variants[layer]) - set(variants[near])
    at, other = column.operators[layer].first, column.operators[near].first
    own = {group.number for group in column.operators[layer].groups}
    # Whoever else runs it lacks the branch too: that this layer runs it is another mistake.
    alone = len(odd) == 1 and all(
        group.number in own
        for n in odd
        for group in facts.wiring.kernels.get((column.task_type, n), ())
    )
    return RULE.finding(
        facts.rank,
        (
            f"in {these_layers(column.siblings, [layer])}, "
            f"{operator_text(facts, *column.key)} runs {mine}; "
            f"in {in_layers(siblings)} it runs {theirs}, on the same operands"
        ),
        facts.in_graph("all_tasks", at, "variant_id"),
        hint=f"pass it the parameters that layer {near}'s has",
        related=(facts.in_graph("all_tasks", other, "variant_id", note=f"layer {near}'s"),),
        follows=[without_kernel(column.task_type, n) for n in odd if alone],
    )


def _text(variants: tuple[int, ...]) -> str:
    return f"variant{'s' * (len(variants) != 1)} {', '.join(map(str, variants))}"
