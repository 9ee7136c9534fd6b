"""MG701: one layer lacks an operator or an operand that its siblings have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._claims import empty, unheard, untaken
from mirage_gate.rules._words import declared, in_layers
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._blocks import odd_blocks
from mirage_gate.rules.layers._classes import class_holes
from mirage_gate.rules.layers._gaps import lacking_operators
from mirage_gate.rules.layers._lacks import Lack, lacking_operands
from mirage_gate.rules.layers._shared import listed, of_layer, slot_at, these_layers, writer_in
from mirage_gate.rules.layers._surplus import surplus_operators

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.siblings import Siblings

RULE = Rule(
    "MG701",
    "layer-outlier",
    Severity.ERROR,
    "One layer lacks an operator or an operand that its siblings have.",
    why="""
        A builder that passes None in one layer of sixty-one leaves no tensor unused, no byte
        unread and no event open. The model computes that layer without its positions or its
        norms and is a little wrong everywhere. Only the sibling layers know better.
    """,
    example="""
        In layer 2 the attention's inputs 5 and 6 are `nullptr`; in all other layers they
        are the rotary tables.
    """,
    fix="""
        Build the layer as its siblings are built. If the architecture means it (a layer
        without position encoding), say so with `--model-config` or a waiver.
    """,
    limits="""
        An error only where a critical tensor is missing, a warning otherwise. One layer of
        three or more is an outlier, or at most one in eight; layers at a regular distance
        are an architecture. Of two layers, only a missing critical tensor is reported. A
        step more than the siblings have is a note, unless it does again what the layer has
        done, and so is another kernel on the same weight; the first and the last layer may
        have a step of their own. So is a whole block that few layers lack, attention or the
        feed-forward network, if nothing is attached for it: searched architectures are built
        so, and a configuration that says otherwise makes it MG005. Where every second, third, …
        layer has an operator, an operand or all of another kind's operators, the one layer
        that breaks the pattern is the outlier; the first and the last layer may differ in it.
    """,
)


_SHOWN = 4


@RULE.checked_by
def layer_outlier(facts: RankFacts) -> Iterator[Finding]:
    for stack in facts.stacks:
        certain: dict[int, list[Lack]] = defaultdict(list)
        meant: dict[int, list[Lack]] = defaultdict(list)
        for layer, lack in chain(
            lacking_operands(facts, stack),
            lacking_operators(facts, stack),
            surplus_operators(facts, stack),
            odd_blocks(facts, stack),
            class_holes(facts, stack),
        ):
            (meant if lack.meant else certain)[layer].append(lack)
        yield from _findings(facts, stack, certain)
        maybe = {n: lacks for n, lacks in meant.items() if n not in certain}
        yield from _findings(facts, stack, maybe)


def _findings(facts: RankFacts, stack: Siblings, lacks: dict[int, list[Lack]]) -> Iterator[Finding]:
    alike: dict[tuple[str, ...], list[int]] = {}
    for layer in sorted(lacks):
        # A slot is a better place than the gap where an operator should be.
        lacks[layer].sort(
            key=lambda lack: (not lack.critical, lack.index < 0, lack.order, lack.operator)
        )
        alike.setdefault(tuple(_texts(lacks[layer])), []).append(layer)
    for texts, layers in alike.items():
        found = lacks[layers[0]]
        first = found[0]
        critical = [name for lack in found if lack.critical for name in lack.tensors]
        siblings = sorted(set().union(*(lack.siblings for lack in found)) - set(layers))
        heavy = bool(critical) and len(layers) <= len(siblings)
        one, few = len(layers) == 1, len(siblings) == 1
        lacking = [lack for lack in found if not lack.surplus]
        subject = listed(critical or [name for lack in lacking or found for name in lack.tensors])
        if lacking:
            have = "has" if few else "have"
            claim = f"run{'s' * one} without {subject}, which {in_layers(siblings)} {have}"
        else:
            lack_it = f"{in_layers(siblings)} {'does' if few else 'do'} not"
            claim = f"{'has' if one else 'have'} {subject}, which {lack_it}"
        severity = Severity.ERROR if heavy else Severity.WARNING
        if first.meant:
            severity = Severity.NOTE
        tables = [of_layer(facts, name, [*layers, *siblings]) for name in critical]
        related = [place for name in dict.fromkeys(tables) for place in declared(facts, name)]
        related += _has_it(facts, first, layers)
        yield RULE.finding(
            facts.rank,
            f"{these_layers(stack, layers)} {claim}: {_some(texts)}",
            first.at,
            hint=f"build {in_layers(layers)} as {in_layers(siblings[:1])} is built",
            severity=severity,
            related=tuple(related),
            tensor=tables[0] if tables else "",
            others=tables,
            about=_about(facts, stack, found, layers),
            causes=[word for n in layers for word in _causes(facts, stack, lacks[n], n)],
            follows=_follows(facts, [lacks[n] for n in layers], layers),
        )


def _causes(facts: RankFacts, stack: Siblings, lacks: Sequence[Lack], layer: int) -> Iterator[str]:
    """Say what is so because a layer lacks something: what was to be read there is for nobody."""
    for lack in lacks:
        if lack.number >= 0:
            yield empty(lack.index, [lack.number])
        elif not lack.surplus:
            sibling = next(iter(lack.siblings.values()))
            for content in facts.roles.inputs[sibling.number]:
                writer = writer_in(facts, content, (stack.stack, layer))
                if writer is not None:
                    yield unheard(writer.first)


def _follows(
    facts: RankFacts, lacks: Sequence[Sequence[Lack]], layers: Sequence[int]
) -> Iterator[str]:
    """Say from what it follows that each of some layers lacks one thing."""
    if any(len(every) > 1 or every[0].surplus for every in lacks):
        return
    first = lacks[0][0]
    if first.number >= 0:
        yield empty(first.index, [every[0].number for every in lacks])
        role = first.tensors[0] if len(first.tensors) == 1 else ""
    else:
        role = next(iter(first.siblings.values())).weight
    names = [named_in(role, layer) for layer in layers]
    if all(name in facts.declared and not facts.wiring.of(name) for name in names):
        yield untaken(names)


def _about(
    facts: RankFacts, stack: Siblings, lacks: Sequence[Lack], layers: Collection[int]
) -> Iterator[str]:
    """Say it as the rule on the model's configuration does, where it is the same."""
    features = facts.features
    if stack.stack != facts.layers.main or not any(lack.critical for lack in lacks):
        return
    for layer in (n - features.base for n in layers):
        if features.rotates(layer) is False:
            yield f"no rotary embedding in layer {layer}"
        if not all(lack.critical for lack in lacks):
            yield f"something else in layer {layer}"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join([*texts[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _texts(lacks: Iterable[Lack]) -> Iterator[str]:
    """Say what is lacking, the slots of one operator together."""
    slots: dict[tuple[str, str], list[int]] = defaultdict(list)
    for lack in lacks:
        slots[lack.operator, lack.state].append(lack.index)
    for (operator, state), indexes in slots.items():
        if indexes[0] < 0:
            yield f"{operator} is {state}"
        elif len(indexes) == 1:
            yield f"input {indexes[0]} of {operator} is {state}"
        else:
            yield f"inputs {listed(map(str, indexes))} of {operator} are {state}"


def _has_it(facts: RankFacts, lack: Lack, without: Collection[int]) -> Iterator[Location]:
    sibling = next((n for n in lack.siblings if n not in without), None)
    if sibling is not None:
        note = f"layer {sibling} {'begins' if lack.surplus else 'has it'} here"
        operator = lack.siblings[sibling]
        if lack.surplus and lack.index >= 0:
            yield slot_at(facts, operator, lack.index).saying(f"layer {sibling} has none here")
        elif lack.index < 0:
            yield facts.in_graph("all_tasks", operator.first, "task_type", note=note)
        else:
            yield slot_at(facts, operator, lack.index).saying(note)
