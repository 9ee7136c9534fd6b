"""MG002: a weight of the checkpoint stands where another should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.model.matching import Source

RULE = Rule(
    "MG002",
    "weight-misplaced",
    Severity.ERROR,
    "A tensor is filled from a weight of another layer or another role.",
    why="""
        The name that the graph knows and the weight that the host gives for it are two things.
        Layer 3's projection filled from layer 2's, the norm of queries from that of keys: the
        shapes agree and the wiring is right, with the wrong numbers in it.
    """,
    example='`char *layer_3_q_norm = … model_tensors.at("layer_3_k_norm")`',
    fix="Give the tensor the weight that its name says.",
    limits="""
        Only with `--weights`, and where both names say what they are. A tensor filled from
        parts is compared with each of them. A layer that the checkpoint has not is one too.
    """,
)


@RULE.checked_by
def weight_misplaced(facts: RankFacts) -> Iterator[Finding]:
    checkpoint = facts.options.checkpoint
    if checkpoint is None:
        return
    layers = {own.layer for _, own in facts.matching.meanings if own.layer is not None}
    base = facts.features.base
    said: set[tuple[str, str]] = set()
    strange: set[int] = set()
    for source in facts.matching.sources:
        meaning = source.meaning
        if not meaning.known or meaning.foreign or (source.name, source.tensor) in said:
            continue
        said.add((source.name, source.tensor))
        why = _other(source)
        if not why and meaning.layer is not None and layers and meaning.layer - base not in layers:
            if meaning.layer in strange:
                continue
            strange.add(meaning.layer)
            why = f"of layer {meaning.layer - base}, and the checkpoint has none of that layer"
        if why:
            yield RULE.finding(
                facts.rank,
                f"{source.tensor} is filled from {source.name}: {why}",
                source.location,
                hint=f"fill {source.tensor} from the weight that its name says",
                related=(
                    *(declared(facts, source.tensor) if source.copied else ()),
                    checkpoint.place().saying("the checkpoint"),
                ),
                tensor=source.tensor,
            )


def _other(source: Source) -> str:
    """Say how a tensor's name and its source's differ in what they mean; empty if not."""
    from mirage_gate.facts.model.words import words

    own, meaning = words(source.tensor), source.meaning
    if own.foreign or source.name == source.tensor:
        return ""
    if own.layer is not None and meaning.layer is not None and own.layer != meaning.layer:
        return f"a weight of layer {meaning.layer} for one of layer {own.layer}"
    if not own.known or own.facet != meaning.facet:
        return ""
    mine = {_plain(role) for role in own.roles}
    others = [_plain(role) for role in meaning.roles if _plain(role) not in mine]
    return f"{others[0]} for {', '.join(own.roles)}" if others else ""


def _plain(role: str) -> str:
    """A role less whose it is: stacked experts go by the names of a single one's weights."""
    return role.removeprefix("experts.").partition(":")[0]
