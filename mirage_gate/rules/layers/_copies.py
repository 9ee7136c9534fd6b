"""What the host fills a layer's tensors from, compared with the other layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mirage_gate.artifacts.names import layer_in, named_in, role_of
from mirage_gate.findings import Finding
from mirage_gate.rules._claims import filled, misfilled
from mirage_gate.rules._words import in_layers
from mirage_gate.rules.base import Rule
from mirage_gate.rules.layers._shared import is_odd

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.facts import RankFacts


def _filled_by_copies(facts: RankFacts) -> dict[str, dict[int, Declaration]]:
    """The tensors that the host fills by copies: role to layer to declaration."""
    filled: dict[str, dict[int, Declaration]] = defaultdict(dict)
    for name, declaration in facts.declared.items():
        layer = layer_in(name)
        named = declaration.copies and all(copy.named for copy in declaration.copies)
        if layer is not None and named:  # an address says nothing of what lies there
            filled[role_of(name)][layer] = declaration
    return filled


def sources_otherwise(rule: Rule, facts: RankFacts) -> Iterator[Finding]:
    """Compare what a shuffled tensor is filled from, in the order of its bytes."""
    for role, by_layer in _filled_by_copies(facts).items():
        orders = {
            layer: tuple(
                role_of(copy.source) for copy in sorted(declaration.copies, key=lambda c: c.offset)
            )
            for layer, declaration in by_layer.items()
        }
        usual = Counter(orders.values()).most_common(1)[0][0]
        odd = [layer for layer, order in orders.items() if order != usual]
        if not odd or not (len(orders) == 2 or is_odd(odd, orders)):
            continue
        sibling = next(layer for layer, order in orders.items() if order == usual)
        for layer in odd:
            copies = sorted(by_layer[layer].copies, key=lambda c: c.offset)
            at = next(
                (i for i, (a, b) in enumerate(zip(orders[layer], usual, strict=False)) if a != b),
                min(len(copies), len(usual)) - 1,
            )
            rest = [n for n in orders if orders[n] == usual]
            # Its own parts, some of them missing or all in another order: nothing besides.
            own_parts = sorted(orders[layer]) == sorted(usual) or _is_part(orders[layer], usual)
            yield rule.finding(
                facts.rank,
                f"in layer {layer}, {role} is filled with {', '.join(orders[layer])}; "
                f"in {in_layers(rest)} with {', '.join(usual)}",
                copies[at].location,
                hint=f"fill it as layer {sibling}'s is filled",
                related=(by_layer[sibling].location.saying(f"layer {sibling}'s"),),
                tensor=by_layer[layer].name,
                follows=[misfilled(by_layer[layer].name)] if own_parts else (),
            )


def _is_part(some: Sequence[str], every: Sequence[str]) -> bool:
    """Whether some are what is left of all, in the same order."""
    rest = iter(every)
    return all(one in rest for one in some)


def crossed_copies(rule: Rule, facts: RankFacts) -> Iterator[Finding]:
    """Find the copies that fill one layer's tensor from another layer's source."""
    copied = _filled_by_copies(facts)
    sources = {
        copy.source
        for by_layer in copied.values()
        for declaration in by_layer.values()
        for copy in declaration.copies
    }
    for by_layer in copied.values():
        found = [
            (layer, declaration, copy, source)
            for layer, declaration in by_layer.items()
            for copy in declaration.copies
            if (source := layer_in(copy.source)) is not None
        ]
        shifts = Counter(source - layer for layer, _, _, source in found)
        shift, times = shifts.most_common(1)[0] if shifts else (0, 0)
        if 2 * times <= len(found):
            shift = 0
        for layer, declaration, copy, source in found:
            own = named_in(role_of(copy.source), layer + shift)
            # The own source is there, or the other parts are the layer's: no sharing by design.
            beside = {layer_in(other.source) for other in declaration.copies}
            if source != layer + shift and (own in sources or layer + shift in beside):
                yield rule.finding(
                    facts.rank,
                    f"in layer {layer}, {declaration.name} is filled from {copy.source}",
                    copy.location,
                    hint=f"fill it from {own}",
                    related=(declaration.location.saying(f"{declaration.name} is declared here"),),
                    tensor=declaration.name,
                    about=[filled(declaration.name, copy.source)],
                )
