"""MG509: a variant was compiled for something else than its tasks carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import misshapen, mistyped
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._compiled import by_branch, slot

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG509",
    "kernel-constant",
    Severity.ERROR,
    "A variant was compiled for something else than its tasks carry.",
    why="""
        A device function takes the sizes and strides of its tiles as template arguments: they are
        compiled in, and no task can change them. `linear_kernel<bfloat16, 32, 64, 2048, 4096>`
        works on 32 rows and 64 columns of an output whose rows are 4096 long, whatever the graph
        says. A stride compiled as 0 reads the same row for every token; an output size that is
        too large writes into the neighbour's columns.

        Compared are the template arguments and numbers of the call, the extents and strides of TMA
        descriptors and CuTe layouts, and the element types, as far as the table of device
        functions says what they are of an operator's slots. `check -v` lists what is not compared.
    """,
    example="""
        `make_stride(0, cute::Int<1>{})` for a residual whose rows are 2048 elements apart: with
        more than one token, all of them add the first one's residual.
    """,
    fix="Generate the kernel again from the builder that made the graph, or mend the generator.",
    limits="""
        Strides along an axis of one element are not compared: nobody takes them. A fork's own
        device function can be described under `kernels`, and one that it has changed anew.
    """,
    repeats=True,
)


@RULE.checked_by
def kernel_constant(facts: RankFacts) -> Iterator[Finding]:
    for mismatches in by_branch(facts, "constant"):
        first = mismatches[0]
        said = dict.fromkeys(f"{m.parameter} is {m.compiled}, not {m.carried}" for m in mismatches)
        texts = list(said)
        more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
        groups = list({group.number: group for m in mismatches for group in m.groups}.values())
        tiles = {
            (mistyped if m.field == "data_type" else misshapen)(
                m.operand.is_input, m.operand.index, groups
            )
            for m in mismatches
            if m.operand and len(m.groups) == len(groups)
        }
        yield RULE.finding(
            facts.rank,
            f"{first.function} of {first.branch.type_name} variant {first.branch.variant} was "
            f"compiled for other tiles than {tasks(facts, groups)} carry: "
            f"{'; '.join(texts[:3])}{more}",
            first.location,
            hint=(
                "emit the .cu and the graph together, from one builder; if they are, correct "
                f"{first.parameter} where the generator writes {first.function}"
            ),
            related=(*slot(facts, first, f"{first.carried} here"), first.branch.location),
            about=tiles if len(tiles) > 1 else (),
            causes=tiles,
            follows=tiles if len(tiles) == 1 else (),
        )
