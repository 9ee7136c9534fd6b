"""MG102: a host or shuffled tensor is loaded, and no task reads or writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import LOADED
from mirage_gate.artifacts.names import role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import storage
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG102",
    "unwired-loaded-tensor",
    Severity.ERROR,
    "A host or shuffled tensor is loaded, and no task reads or writes it.",
    why="""
        The builder attached a weight, cache or table and then wired it to nothing. In
        correct graphs every host or shuffled tensor is referenced by a task, whatever its
        name, so this needs no list of names.
    """,
    example="""
        `layer_3_q_norm` is attached from the model's weights and the attention layer was
        built without it: queries are not normalised in layer 3.
    """,
    fix="""
        Pass the tensor to the operator it belongs to. If the model really does not use it,
        do not attach it: it costs memory on every rank.
    """,
)


@RULE.checked_by
def unwired_loaded_tensor(facts: RankFacts) -> Iterator[Finding]:
    loaded = {role_of(name) for name, d in facts.declared.items() if d.kind in LOADED}
    for name, declaration in facts.declared.items():
        kind = declaration.kind
        if kind == "unknown" and role_of(name) in loaded:
            kind = "host"  # as in the other layers, whatever statement gives it its memory
        if kind not in LOADED or facts.is_critical(declaration):
            continue
        if not facts.wiring.of(name):
            yield RULE.finding(
                facts.rank,
                (
                    f"{kind} tensor {name} is loaded and no task reads or writes it "
                    "(input_refs=0, output_refs=0)"
                ),
                declaration.location,
                hint=f"pass {name} to the operator it belongs to, or do not attach it",
                related=storage(declaration),
                tensor=name,
            )
