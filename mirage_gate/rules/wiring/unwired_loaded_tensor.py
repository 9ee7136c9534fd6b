"""MG102: a host or shuffled tensor is loaded, and no task reads or writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import LOADED
from mirage_gate.artifacts.names import layer_in, role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import untaken
from mirage_gate.rules._words import in_layers, storage
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
    repeats=True,
)


_SHOWN = 8
"""How many further tensors of one role are pointed at."""


@RULE.checked_by
def unwired_loaded_tensor(facts: RankFacts) -> Iterator[Finding]:
    loaded = {role_of(name) for name, d in facts.declared.items() if d.kind in LOADED}
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, declaration in facts.declared.items():
        kind = declaration.kind
        if kind == "unknown" and role_of(name) in loaded:
            kind = "host"  # as in the other layers, whatever statement gives it its memory
        if kind not in LOADED or facts.is_critical(declaration):
            continue
        if not facts.wiring.of(name):
            alike.setdefault((declaration.kind, kind, role_of(name)), []).append(name)
    for (_, word, _), names in alike.items():
        name, *others = names
        declaration = facts.declared[name]
        layers = [layer for one in names if (layer := layer_in(one)) is not None]
        more = f" and {len(others)} more of its role ({in_layers(layers)})" if others else ""
        yield RULE.finding(
            facts.rank,
            (
                f"{word} tensor {name}{more} is loaded and no task reads or writes it "
                "(input_refs=0, output_refs=0)"
            ),
            declaration.location,
            hint=f"pass {name} to the operator it belongs to, or do not attach it",
            related=(
                *storage(declaration),
                *(
                    facts.declared[one].location.saying(f"{one} likewise")
                    for one in others[:_SHOWN]
                ),
            ),
            tensor=name,
            others=others,
            causes=[untaken(names)],
            follows=[untaken(names)],
        )
