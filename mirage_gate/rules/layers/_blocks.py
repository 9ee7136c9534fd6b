"""Whole blocks that few layers lack, or have one too many of: attention, a feed-forward network.

Layers that differ in so much are classes of their own (:mod:`mirage_gate.facts.siblings`), as
dense layers and mixtures of experts are. A class of few layers that is another one less a stretch
of its operators, or plus one, is a layer with a hole or with a block done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import named_in
from mirage_gate.rules._words import plural
from mirage_gate.rules.layers._classes import says
from mirage_gate.rules.layers._lacks import Lack
from mirage_gate.rules.layers._shared import is_odd, operator_text
from mirage_gate.rules.layers._surplus import done_again

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.siblings import Kindred, Siblings

Row = tuple[tuple[int, str], ...]
"""Operators as type and weight, in order."""

ATTENTION, FEED_FORWARD = "attention", "a feed-forward network"


def odd_blocks(facts: RankFacts, siblings: Siblings) -> Iterator[tuple[int, Lack]]:
    """Give (layer, the block that it lacks, or has one too many of)."""
    rows = {kindred.number: _row(siblings, kindred) for kindred in siblings.classes}
    by_size = sorted(siblings.classes, key=lambda kindred: -len(kindred.layers))
    for few in siblings.classes:
        for many in by_size:
            if len(many.layers) <= len(few.layers):
                break
            if not is_odd(few.layers, few.layers + many.layers):
                continue
            mine, theirs = rows[few.number], rows[many.number]
            if (lost := _stretch(mine, theirs)) is not None:
                yield from _lost(facts, siblings, few, many, lost)
                break
            if (more := _stretch(theirs, mine)) is not None:
                yield from _more(facts, siblings, few, many, more)
                break


def block_in(facts: RankFacts, row: Sequence[Operator], at: range) -> str:
    """Name the block that a stretch of a layer's operators is; empty if it is neither, or a part.

    All of its kind that the layer has is in it, and weights are.
    """
    block, rest = row[at.start : at.stop], [*row[: at.start], *row[at.stop :]]
    if not any(operator.weight for operator in block):
        return ""
    features = facts.features
    for kind, is_one in (
        (ATTENTION, features.is_attention),
        (FEED_FORWARD, features.is_feed_forward),
    ):
        if any(map(is_one, block)) and not any(map(is_one, rest)):
            return kind
    return ""


def lost_block(
    facts: RankFacts,
    siblings: Siblings,
    layer: int,
    near: int,
    at: range,
    having: dict[int, Operator],
) -> Lack | None:
    """Say that a layer has no block where a sibling has one; None if somebody else does.

    ``near`` is the sibling, ``at`` the block's operators in it, ``having`` the first of them in
    all the layers that have it.
    """
    block = siblings.layers[near][at.start : at.stop]
    kind = block_in(facts, siblings.layers[near], at)
    if not kind or is_attached(facts, block, layer) or _is_said(facts, siblings, layer, kind):
        return None  # MG102 says it, or MG005
    row = siblings.layers[layer]
    behind = row[min(at.start, len(row) - 1)]
    return Lack(
        order=at.start * 8,
        operator=_text(facts, block),
        state="missing",
        tensors=(kind,),
        critical=False,
        at=facts.in_graph("all_tasks", behind.first, "task_type"),
        siblings=having,
        index=-1,
        meant=True,
    )


def is_attached(facts: RankFacts, operators: Sequence[Operator], layer: int) -> bool:
    """Whether the layer has the weights of its siblings' operators all the same."""
    return any(
        name.layer is not None and named_in(name.role, layer) in facts.declared
        for operator in operators
        for name in operator.names(is_input=True)
        if name.weight
    )


def _row(siblings: Siblings, kindred: Kindred) -> Row:
    """Give the operators that most layers of a class have."""
    rows = Counter(
        tuple((o.task_type, o.weight) for o in siblings.layers[layer]) for layer in kindred.layers
    )
    return rows.most_common(1)[0][0]


def _stretch(short: Row, long: Row) -> range | None:
    """Find the one stretch without which the long row is the short one."""
    missing = len(long) - len(short)
    if missing < 2 or not short:
        return None
    start = 0
    while start < len(short) and short[start] == long[start]:
        start += 1
    same = short[start:] == long[start + missing :]
    return range(start, start + missing) if same else None


def _lost(
    facts: RankFacts, siblings: Siblings, few: Kindred, many: Kindred, at: range
) -> Iterator[tuple[int, Lack]]:
    for layer in few.layers:
        near = next(n for n in many.layers if len(siblings.layers[n]) >= at.stop)
        having = {n: _at(siblings, n, at.start) for n in many.layers}
        lack = lost_block(facts, siblings, layer, near, at, having)
        if lack is not None:
            yield layer, lack


def _more(
    facts: RankFacts, siblings: Siblings, few: Kindred, many: Kindred, at: range
) -> Iterator[tuple[int, Lack]]:
    ends = {min(siblings.layers), max(siblings.layers)}
    for layer in few.layers:
        row = siblings.layers[layer]
        block = row[at.start : at.stop]
        kind = _kind(facts, block)
        again = bool(block) and all(done_again(row, operator) for operator in block)
        if not block or (layer in ends and not again):
            continue
        yield (
            layer,
            Lack(
                order=1 << 30,
                operator=_text(facts, block),
                state="one too many",
                tensors=(f"{kind} twice" if again else f"{kind} more than they",),
                critical=False,
                at=facts.in_graph("all_tasks", block[0].first, "task_type"),
                siblings={n: siblings.layers[n][0] for n in many.layers},
                index=-1,
                surplus=True,
                meant=not again,
            ),
        )


def _kind(facts: RankFacts, block: Sequence[Operator]) -> str:
    if any(map(facts.features.is_attention, block)):
        return ATTENTION
    return FEED_FORWARD if any(map(facts.features.is_feed_forward, block)) else "a block"


def _at(siblings: Siblings, layer: int, place: int) -> Operator:
    row = siblings.layers[layer]
    return row[min(place, len(row) - 1)]


def _text(facts: RankFacts, block: Sequence[Operator]) -> str:
    first, last = (operator_text(facts, o.task_type, o.weight) for o in (block[0], block[-1]))
    return f"the stretch of {plural(len(block), 'operator')} from {first} to {last}"


def _is_said(facts: RankFacts, siblings: Siblings, layer: int, kind: str) -> bool:
    """Whether the model's configuration says if the layer has the block."""
    model = facts.options.model
    if model is None:
        return False
    return says(
        facts, siblings, layer, model.attention if kind == ATTENTION else model.feed_forward
    )
