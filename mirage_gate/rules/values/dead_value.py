"""MG211: what an operator computes is overwritten or left before anybody reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.facts.words import ZEROS, forms
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import unheard
from mirage_gate.rules._words import declared, plural
from mirage_gate.rules.base import Rule
from mirage_gate.rules.values._attention import attention_results
from mirage_gate.rules.values._caches import taken_by_another
from mirage_gate.rules.values._parts import parts
from mirage_gate.rules.values._shared import (
    at,
    in_its_layer,
    kind_of,
    same_in_layers,
    text_of,
    where,
)

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.values import Value
    from mirage_gate.facts.values.caches import Lost

RULE = Rule(
    "MG211",
    "dead-value",
    Severity.ERROR,
    "What an operator computes is overwritten or left before anybody reads it.",
    why="""
        Every byte is written and every tensor read, and still a result is for nobody: the
        head reads the state before the last norm, a projection the state before its own norm,
        every layer the embedding. The buffer is used again by another layer, so that only the
        values in it tell.
    """,
    example="""
        The last norm fills `rmsnorm_out`, the head reads `mlp_out`; the next iteration writes
        over `rmsnorm_out`.
    """,
    fix="""
        Wire the reader to what this operator writes; or drop the operator. The trace names
        where the value is written and where it is lost. `mirage-gate plan` prints what each
        operator takes.
    """,
    limits="""
        An error where nobody reads anything that the operator writes (of attention, but for its
        caches, where other layers read theirs), a warning where nobody
        reads a part of it that most sibling layers read. A warning where two layers write the
        same rows of one cache in one iteration, as MPK's attention always writes the caches
        that it is given: a model whose layers share a cache needs a type that only reads it.
        Final steps, zeros that are filled before they are added to, what the host reads, and
        rows picked at run time are no dead values; nor is anything where order is missing.
    """,
    repeats=True,
)


@RULE.checked_by
def dead_value(facts: RankFacts) -> Iterator[Finding]:
    alike: dict[object, list[list[Value]]] = {}
    attention = attention_results(facts)
    for number, every in facts.values.written.items():
        values = attention.get(number, every)
        if _is_dead(facts, values):
            key = (kind_of(values[0].operator), same_in_layers(values[0].tensor))
            alike.setdefault(key, []).append(values)
    for dead in alike.values():
        yield _dead(facts, dead)
    for part in parts(facts):
        yield _part(facts, part)
    shared: dict[object, list[Lost]] = {}
    for one in facts.values.lost_rows:
        cause = (kind_of(one.value.operator), one.value.operator is one.other.operator)
        shared.setdefault(cause, []).append(one)
    for caches in shared.values():
        yield _lost(facts, caches)


def _is_dead(facts: RankFacts, values: list[Value]) -> bool:
    """Whether nobody reads anything of what an operator writes, and somebody was to."""
    kind = facts.task_type(values[0].operator.task_type)
    if kind.final or kind.frame or _clears(kind.name):
        return False
    for value in values:
        declaration = facts.declared.get(value.tensor)
        if declaration is None or declaration.kind not in BUFFERS or value.read or value.unsure:
            return False
    # A tensor that no task ever reads is MG104's.
    if not any(facts.wiring.consumers(value.tensor) for value in values):
        return False
    return all(facts.values.unread(value) == value.cells for value in values if value.cells)


def _part(facts: RankFacts, found: list[Value]) -> Finding:
    value = found[0]
    cells = facts.values.unread(value)
    operator = value.operator
    place = at(facts, operator, value.place, value.tensor, cells)
    return RULE.finding(
        facts.rank,
        (
            f"{facts.regions.of(value.tensor).text(cells)} of what {text_of(facts, operator)} "
            f"writes into {value.tensor} are read by no task ({where(v.operator for v in found)}); "
            "in most layers all of it is read"
        ),
        place,
        hint="let the reader take all of it, as in the sibling layers",
        severity=Severity.WARNING,
        related=declared(facts, value.tensor),
        tensor=value.tensor,
    )


def _clears(name: str) -> bool:
    return any(form.operator == ZEROS for form in forms(name) or ())


def _dead(facts: RankFacts, dead: list[list[Value]]) -> Finding:
    values = dead[0]
    value = next(v for v in values if facts.wiring.consumers(v.tensor))
    operator = value.operator
    trace = [at(facts, operator, value.place, value.tensor, value.cells, "written here")]
    if value.overwritten:
        other, taken = value.overwritten[0]
        place = _writes(facts, other, value.tensor)
        fate = f"{text_of(facts, other)}{in_its_layer(other)} overwrites it unread"
        trace.append(at(facts, other, place, value.tensor, taken, "overwritten here, unread"))
    else:
        fate = "nothing reads it to the end of the iteration"
    operators = [found[0].operator for found in dead]
    more = f" ({where(operators)})"
    return RULE.finding(
        facts.rank,
        (
            f"what {text_of(facts, operator)} writes into {value.tensor} is read by no task"
            f"{more}: {fate}"
        ),
        trace[0],
        hint=f"wire the reader to {value.tensor} behind task {operator.first}, "
        "or drop the operator",
        related=declared(facts, value.tensor),
        trace=trace,
        tensor=value.tensor,
        causes=[unheard(one.first) for one in operators],
        follows=[unheard(operator.first)] if len(dead) == 1 else (),
    )


def _writes(facts: RankFacts, operator: Operator, tensor: str) -> tuple[bool, int]:
    """Give the slot through which an operator writes a tensor."""
    written = facts.values.written.get(operator.number, ())
    return next((v.place for v in written if v.tensor == tensor), (False, 0))


def _lost(facts: RankFacts, caches: list[Lost]) -> Finding:
    one, other = caches[0].value, caches[0].other
    tensor = one.tensor
    more = f" (so too {plural(len(caches) - 1, 'more cache')})" if len(caches) > 1 else ""
    if one.operator is other.operator:
        inputs = f"inputs {one.place[1]} and {other.place[1]}"
        said = f"{inputs} of one task of {_named(facts, one)} write the same rows of {tensor}"
        hint = "give keys and values a cache each"
    else:
        said = (
            f"{_named(facts, other)} writes the rows of {tensor} that {_named(facts, one)} has "
            "written for the same tokens: later iterations find the second only"
        )
        hint = (
            "give each layer a cache of its own; a layer that only reads another's needs a task "
            "type that does not write it"
        )
    trace = (
        at(facts, one.operator, one.place, tensor, one.cells, "written here"),
        at(facts, other.operator, other.place, tensor, other.cells, "overwritten here"),
    )
    return RULE.finding(
        facts.rank,
        f"{said}{more}",
        trace[1],
        hint=hint,
        severity=Severity.WARNING,
        related=declared(facts, tensor),
        trace=trace,
        tensor=tensor,
        follows=taken_by_another(caches),
    )


def _named(facts: RankFacts, value: Value) -> str:
    return f"{text_of(facts, value.operator)}{in_its_layer(value.operator)}"
