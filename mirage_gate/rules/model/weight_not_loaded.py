"""MG001: a weight of the checkpoint that the graph does not load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import in_layers, plural
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG001",
    "weight-not-loaded",
    Severity.ERROR,
    "The checkpoint has a weight that nothing in the graph stands for.",
    why="""
        A norm of queries and keys that was neither attached nor read, a bias that was
        forgotten, in every layer: no tensor is unused, no layer is another than its siblings,
        and the model computes without it. The checkpoint knows what the model has learnt.
    """,
    example="""
        The checkpoint has `model.layers.0.self_attn.q_norm.weight` and its like in 36 layers, the
        graph declares `layer_0_q_proj` and no `q_norm`.
    """,
    fix="""
        Attach the weight and pass it to its operator. Where it goes by another name, or was
        multiplied into another weight, say so under `[weights]` in the configuration.
    """,
    limits="""
        Only with `--weights`. Names are matched by their words and their layer, fused weights by
        their parts, stacked experts as one. Where the graph loads something whose name says
        nothing, it may be the weight: nothing is claimed, and a note counts what was not matched.
        `kv_b_proj` may be multiplied into its neighbours, a head tied to the embedding; a
        scale is missed only if its weight is read as FP8. Layers that the graph has not are
        MG005's.
    """,
)

_SHOWN = 6


@RULE.checked_by
def weight_not_loaded(facts: RankFacts) -> Iterator[Finding]:
    checkpoint = facts.options.checkpoint
    if checkpoint is None or not facts.cuda.declarations:
        return
    matching = facts.matching
    if not matching.given:
        yield RULE.finding(
            facts.rank,
            f"no tensor's name could be matched with any of the checkpoint's "
            f"{plural(len(checkpoint.weights), 'weight')}: nothing is proven of them",
            facts.cuda.declarations[0].location,
            hint="say which is which under [weights] in the configuration",
            severity=Severity.NOTE,
            related=(checkpoint.place(),),
        )
        return
    for (role, facet), layers in matching.missing.items():
        names = [matching.wanted[layer, role, facet][0].name for layer in layers]
        inside = [layer for layer in layers if layer is not None]
        where = f" ({in_layers(inside)})" if inside else ""
        more = f" and {len(names) - 1} like it" if len(names) > 1 else ""
        yield RULE.finding(
            facts.rank,
            f"the checkpoint has {names[0]}{more}{where}, and the graph loads nothing for it",
            _near(facts, inside[0] if inside else None),
            hint="attach it and pass it to its operator, or say under [weights] what stands for it",
            related=(checkpoint.place().saying("the checkpoint"),),
        )
    yield from _rest(facts)


def _near(facts: RankFacts, layer: int | None) -> Location:
    """The place of the first weight of a layer: where the missing one would stand."""
    for source in facts.matching.sources:
        own = source.meaning.layer
        if own is not None and own - facts.features.base == layer:
            return source.location
    return facts.cuda.declarations[0].location


def _rest(facts: RankFacts) -> Iterator[Finding]:
    """Count what was matched with nothing, on either side."""
    matching, checkpoint = facts.matching, facts.options.checkpoint
    here = [source.name for source in matching.unknown]
    there = [weight.name for weight in matching.unread]
    if checkpoint is None or not (here or there):
        return
    parts = []
    for names, whose in ((here, "the graph"), (there, "the checkpoint")):
        if names:
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            parts.append(f"{len(names):,} of {whose} ({', '.join(names[:_SHOWN])}{more})")
    yield RULE.finding(
        facts.rank,
        f"weights that were matched with nothing: {'; '.join(parts)}",
        matching.unknown[0].location if here else facts.cuda.declarations[0].location,
        hint="say which is which under [weights] in the configuration",
        severity=Severity.NOTE,
        related=(checkpoint.place().saying("the checkpoint"),),
    )
