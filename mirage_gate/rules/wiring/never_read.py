"""MG104: a scratch tensor is written and no task reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS
from mirage_gate.facts.words import attends, results
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import in_layers, size, slot_field, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.operators import Operator
    from mirage_gate.facts.wiring import Group

RULE = Rule(
    "MG104",
    "never-read",
    Severity.WARNING,
    "A scratch tensor is written and no task reads it.",
    why="""
        Work whose result nobody uses is either wasted or, more often, a consumer that reads
        another buffer than it should. An error where it is all that attention gives in a layer,
        and other layers read theirs: that layer attends for nothing. What the known final
        steps (argmax, sampling, verification, acceptance) write is for the host and is not
        reported.
    """,
    example="`mlp_mid` is written by the gate/up projection and SiLU reads `mlp_mid_old`.",
    fix="Wire the consumer to this tensor, or drop the operator that writes it.",
    limits="""
        A fork's own final step is told apart with `final = true` in `task-types`. A note where
        the kernel writes it beside its proper result, and that one is read.
    """,
    repeats=True,
)


@RULE.checked_by
def never_read(facts: RankFacts) -> Iterator[Finding]:
    idle: dict[int, int] | None = None
    for name, declaration in facts.declared.items():
        if declaration.kind not in BUFFERS:
            continue
        producers = facts.wiring.producers(name)
        if not producers or facts.wiring.consumers(name):
            continue
        if any(facts.task_type(group.task_type).final for group in producers):
            continue
        writer = next(access for access in facts.wiring.of(name) if access.writes)
        idle = _idle_attention(facts) if idle is None else idle
        layers = {idle[group.number] for group in producers if group.number in idle}
        alone = bool(layers) and all(group.number in idle for group in producers)
        optional = _is_optional(facts, name, producers)
        severity = Severity.NOTE if optional else Severity.WARNING
        yield RULE.finding(
            facts.rank,
            (
                f"{declaration.kind} {name}{size(declaration)} is written by "
                f"{tasks(facts, producers)} and read by none"
                + (f": attention goes nowhere in {in_layers(layers)}" if alone else "")
            ),
            declaration.location,
            hint=f"wire its reader to {name}, or drop the operator that writes it",
            severity=Severity.ERROR if alone else severity,
            related=(slot_field(facts, writer, "base_ptr", "written here"),),
            tensor=name,
        )


def _is_optional(facts: RankFacts, name: str, producers: list[Group]) -> bool:
    """Whether every kernel that writes it writes a result beside it, and that one is read.

    Such as the reciprocal deviation of a norm, of which the table of task types knows nothing.
    A result that the table lists is what the kernel is run for.
    """
    wiring = facts.wiring
    for group in producers:
        proper = _results(facts.task_type(group.task_type).name)
        names = wiring.names(group)[1]
        at = [index for index, other in enumerate(names) if other == name]
        if not at or not proper or at[0] < proper:
            return False
        if not any(other != name and wiring.consumers(other) for other in names[:proper]):
            return False
    return True


def _results(name: str) -> int:
    """How many outputs are what a type is run for; 0 where that is not known."""
    return max((index + 1 for is_input, index in results(name) if not is_input), default=0)


def _idle_attention(facts: RankFacts) -> dict[int, int]:
    """Give the groups of attention of which nothing is read, each with its layer.

    Only where attention of the same type is read in another layer: a graph in which none is
    may be a part of a model.
    """
    idle: list[Operator] = []
    read: dict[tuple[int, int], set[int]] = {}
    for operator in facts.layers.operators:
        kind = facts.task_type(operator.task_type)
        if operator.place is None or kind.final or not attends(kind.name):
            continue
        names = {name.name for slot in results(kind.name) for name in operator.slots.get(slot, ())}
        if any(map(facts.wiring.consumers, names)):
            read.setdefault((operator.task_type, operator.stack), set()).add(operator.place)
        elif names:
            idle.append(operator)
    return {
        group.number: operator.place
        for operator in idle
        if operator.place is not None
        and read.get((operator.task_type, operator.stack), set()) - {operator.place}
        for group in operator.groups
    }
