"""MG003: a tensor's tiles add up to another shape than the model's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG003",
    "shape-differs",
    Severity.ERROR,
    "The tiles of a weight add up to another shape than the checkpoint or the configuration has.",
    why="""
        A projection of which every layer reads 14 of 16 heads, a head of fewer rows than the
        vocabulary, a width that is another model's: all tiles fit each other, and the whole is
        not the weight. Rows that no layer reads are never missed by comparing layers.
    """,
    example="`layer_0_q_proj` has 1792 rows, and 16 heads of 128 make 2048.",
    fix="Build the operators for the sizes of this model.",
    limits="""
        Only with `--model-config` or `--weights`. A weight may be shared out over the ranks, by
        rows or columns, whole experts, or key and value heads that are kept on several; the
        vocabulary may be padded by a tenth. Weights that are quantized in blocks are compared by
        their rows and columns as elements. Nothing is said where a name says nothing, or of a size
        that neither of the two gives. Of the constants that a body was compiled with, the width of
        a head, the number of experts and of those chosen, and the epsilon of the hidden
        state's norms are compared, where the body calls a function that is known.
    """,
)


@RULE.checked_by
def shape_differs(facts: RankFacts) -> Iterator[Finding]:
    if facts.options.model is None and facts.options.checkpoint is None:
        return
    yield from _constants(facts)
    alike: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Finding] = {}
    for one in facts.extents.differing:
        key = (one.role, one.what)
        alike.setdefault(key, []).append(one.tensor)
        if key not in first:
            first[key] = RULE.finding(
                facts.rank,
                one.what,
                one.location,
                hint="build the operators for the sizes of this model",
                related=one.related,
                tensor=one.tensor,
            )
    for key, found in first.items():
        names = alike[key]
        more = f" and {len(names) - 1} like it" if len(names) > 1 else ""
        yield Finding(
            rule=found.rule,
            severity=found.severity,
            message=f"{names[0]}{more} {'are' if more else 'is'} {found.message}",
            location=found.location,
            hint=found.hint,
            related=found.related,
            tensor=found.tensor,
            rank=found.rank,
        )


def _constants(facts: RankFacts) -> Iterator[Finding]:
    """What variants were compiled for: the width of a head, experts, the norms' epsilon."""
    from mirage_gate.facts.model.constants import compiled

    model = facts.options.model
    for one in compiled(facts):
        yield RULE.finding(
            facts.rank,
            f"{one.function} of {one.type_name} was compiled with {one.parameter} {one.value:g}, "
            f"and the configuration says {one.meant:g}",
            one.location,
            hint="register the operator with the constants of this model",
            related=() if model is None else (model.place(one.key),),
        )
