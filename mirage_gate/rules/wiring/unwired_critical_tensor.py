"""MG101: a critical tensor is declared and no task reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import untaken
from mirage_gate.rules._words import storage
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG101",
    "unwired-critical-tensor",
    Severity.ERROR,
    "A critical tensor is declared and no task reads it.",
    why="""
        The rotary tables carry the positions. When no task reads them, attention knows no
        order of tokens: the kernel compiles, exits 0, every numerics test of a kernel
        passes, because each kernel is right, and the model babbles. The task that was
        never emitted has no test.
    """,
    example="""
        `all_tensors["rope_cos"] = rope_cos;` stands in the `.cu`, and no task of the graph
        has `rope_cos` among its inputs.
    """,
    fix="""
        Pass the table to the operator that needs it in the Python builder (the attention
        layer's cos/sin arguments, or the layer that applies RoPE), emit again and check
        that `consumer_task_types` names that operator.
    """,
    limits="""
        Names decide what is critical: the built-in list and patterns, or `--critical`. A
        table that is deliberately unused should not be attached. A slot that the dispatch
        body ignores does not count as a reader; that case is MG107's.
    """,
    repeats=True,
)


@RULE.checked_by
def unwired_critical_tensor(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if not facts.is_critical(declaration) or facts.wiring.consumers(name):
            continue
        if any(access.is_input and access.ignored for access in facts.wiring.of(name)):
            continue  # MG107 says it
        refs = facts.wiring.input_refs(name)
        yield RULE.finding(
            facts.rank,
            f"critical tensor {name} is declared and no task reads it (input_refs={refs})",
            declaration.location,
            hint=f"wire {name} to the layer that needs it in the builder, then emit again",
            related=storage(declaration),
            tensor=name,
            causes=[untaken([name])],
        )
