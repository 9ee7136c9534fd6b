"""Values that are read in part, where their siblings are read whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.rules.values._shared import kind_of

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.values import Value


def parts(facts: RankFacts) -> Iterator[list[Value]]:
    """Give values of which a part is read by nobody, in a layer whose siblings' are read whole.

    Not of the last layer: a model may go on with the last token alone from there.
    """
    last = {(stack.stack, max(stack.layers)) for stack in facts.stacks if stack.layers}
    rows: dict[object, dict[tuple[int, int], list[Value]]] = {}
    for values in facts.values.written.values():
        for value in values:
            declaration = facts.declared.get(value.tensor)
            home = value.operator.home
            if home is None or declaration is None or declaration.kind not in BUFFERS:
                continue
            if value.exact and not value.unsure and value.read:
                key = (home[0], kind_of(value.operator), value.place)
                rows.setdefault(key, {}).setdefault(home, []).append(value)
    for row in rows.values():
        partly = [v for n, own in row.items() for v in own if n not in last and v.cells & ~v.read]
        odd = {value.operator.home for value in partly}
        times = {home: facts.times_of_layer(home[1]) for home in row}
        if partly and sum(times.values()) > 2 * sum(times[home] for home in times if home in odd):
            partly = [value for value in partly if facts.values.unread(value)]
            if partly:
                yield partly
