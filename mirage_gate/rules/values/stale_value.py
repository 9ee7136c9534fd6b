"""MG212: a read sees an older value where the operator between was to provide a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import outdated
from mirage_gate.rules._words import declared
from mirage_gate.rules.base import Rule
from mirage_gate.rules.values._restart import Restart, restarts
from mirage_gate.rules.values._shared import at, in_its_layer, kind_of, text_of, where
from mirage_gate.rules.values._stale import Stale, by_siblings, never_made, unordered

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG212",
    "stale-value",
    Severity.ERROR,
    "A read sees an older value where an operator between was to provide a new one.",
    why="""
        Every layer fills the same buffers. A reader that does not wait for its own layer's
        operator, or that takes more than it has made, finds what the layer before left there:
        bytes of the right size and type, and of the wrong layer.
    """,
    example="""
        In layer 3 the experts wait for the norm and not for the routing: they read
        `moe_routing_indices` as layer 2 has left it.
    """,
    fix="""
        Let the reader wait for the operator that the message names, or let that operator fill
        all that is read. `mirage-gate show PATH TENSOR` lists the values that go through a
        buffer.
    """,
    limits="""
        An error where most layers read their own value, where two operators are sure to meet
        and nothing orders them, or where a merge takes parts that nobody makes. A warning
        where every layer but the first starts from what is older than the layer before, as
        that is what some architectures mean. Rows that are picked at run time are judged by
        operators, never by tasks.
    """,
    repeats=True,
)


@RULE.checked_by
def stale_value(facts: RankFacts) -> Iterator[Finding]:
    said: set[tuple[int, str]] = set()
    for stale in by_siblings(facts):
        said.update((one.use.operator.number, one.use.tensor) for one in stale)
        yield _stale(facts, stale)
    meeting: dict[object, list[Stale]] = {}
    for one in unordered(facts):
        if (one.use.operator.number, one.use.tensor) not in said:
            key = (kind_of(one.use.operator), one.use.tensor)
            meeting.setdefault(key, []).append(one)
    for stale in meeting.values():
        yield _stale(facts, stale)
    missing: dict[str, list[Stale]] = {}
    for one in never_made(facts):
        missing.setdefault(one.use.tensor, []).append(one)
    for merges in missing.values():
        yield _never_made(facts, merges)
    for restart in restarts(facts):
        yield _restart(facts, restart)


def _stale(facts: RankFacts, found: list[Stale]) -> Finding:
    one = found[0]
    use, old, own = one.use, one.old, one.own
    reader = f"{text_of(facts, use.operator)}, input {use.place[1]},"
    bytes_ = facts.regions.of(use.tensor).text(one.cells)
    trace = [at(facts, use.operator, use.place, use.tensor, one.cells, "read here")]
    if old is None:
        seen = "as it was before"
    elif one.carried:
        seen = f"as {text_of(facts, old.operator)} left it in the iteration before"
    else:
        seen = f"as {text_of(facts, old.operator)}{in_its_layer(old.operator)} left it"
    rest = ""
    if own is not None:
        late = "is not ordered before it" if one.unordered else "comes too late"
        if not one.unordered and any(value is own for value, _ in use.seen):
            late = "does not fill those bytes"
        rest = f"; {text_of(facts, own.operator)}{in_its_layer(own.operator)} {late}"
        trace.append(at(facts, own.operator, own.place, own.tensor, 0, "to be filled here"))
    if old is not None:
        trace.insert(0, at(facts, old.operator, old.place, old.tensor, one.cells, "left here"))
    return RULE.finding(
        facts.rank,
        f"{where(s.use.operator for s in found)}, {reader} reads {bytes_} of {use.tensor} "
        f"{seen}{rest}",
        at(facts, use.operator, use.place, use.tensor, one.cells),
        hint=f"let it wait for the operator that fills {use.tensor} in its own layer, and let "
        "that fill all of it",
        related=declared(facts, use.tensor),
        trace=trace,
        tensor=use.tensor,
        causes=[outdated(s.use.tensor, s.use.operator.number, s.cells) for s in found],
    )


def _never_made(facts: RankFacts, found: list[Stale]) -> Finding:
    one = found[0]
    use, parts = one.use, one.own
    bytes_ = facts.regions.of(use.tensor).text(one.cells)
    maker = "" if parts is None else f": {text_of(facts, parts.operator)} makes the others"
    related = list(declared(facts, use.tensor))
    if parts is not None:
        related.append(
            at(facts, parts.operator, parts.place, parts.tensor, 0, "the other parts are made here")
        )
    return RULE.finding(
        facts.rank,
        f"{where(s.use.operator for s in found)}, {text_of(facts, use.operator)} merges parts "
        f"that no task makes, {bytes_} of {use.tensor}{maker}",
        at(facts, use.operator, use.place, use.tensor, one.cells),
        hint="make as many parts as are merged, or merge as many as are made",
        related=related,
        tensor=use.tensor,
    )


def _restart(facts: RankFacts, restart: Restart) -> Finding:
    first = restart.uses[0]
    source = restart.source
    last = restart.passed.operator
    return RULE.finding(
        facts.rank,
        f"{where(use.operator for use in restart.uses)}, {text_of(facts, first.operator)}, the "
        f"layer's first operator, reads what {text_of(facts, source.operator)} wrote before all "
        f"layers, and not what {text_of(facts, last)}{in_its_layer(last)} has made of it",
        at(facts, first.operator, first.place, first.tensor, first.cells),
        hint=f"pass {restart.passed.tensor}, what the layer before gives, to each layer",
        severity=Severity.WARNING,
        related=declared(facts, first.tensor),
        trace=(
            at(facts, source.operator, source.place, source.tensor, 0, "the first layer's input"),
            at(facts, last, restart.passed.place, restart.passed.tensor, 0, "passed by"),
            at(facts, first.operator, first.place, first.tensor, first.cells, "read here again"),
        ),
        tensor=first.tensor,
    )
