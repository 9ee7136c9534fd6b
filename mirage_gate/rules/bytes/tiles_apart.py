"""MG213: a task's slots carry tiles that do not belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._claims import misshapen
from mirage_gate.rules._words import declared, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.signatures.notation import Operand
    from mirage_gate.facts.signatures.tiles import Difference

RULE = Rule(
    "MG213",
    "tiles-apart",
    Severity.ERROR,
    "A task's slots carry tiles that do not belong together.",
    why="""
        Which tiles a task works on is in its slots alone: output columns 64 to 127 are right only
        beside weight rows 64 to 127, and beside the same columns of the residual. Sets, bytes,
        order and events stay as they were when two tiles change places, when the rows of a weight
        come one tile late, or when the heads of one attention write another's columns.

        What an operator's slots are to each other is written in the table of task types, in the
        manner of an einsum: `x[b,k] w[n,k] r[b,n] -> y[b,n]`. Of an axis that two slots share,
        tiles are equally long, and rise together from task to task; no tile runs past the end of
        a row into the next; and rows lie in memory as the kernel reads them.
    """,
    example="""
        In o_proj two tasks write each other's columns: `output 0 … holds 64..127 along dim 1 of
        attn_proj_out, and input 1 holds 0..63 along dim 0 of layer_0_o_proj`.
    """,
    fix="Cut the slots of the operator alike: one grid axis, over the same axis of each tensor.",
    limits="""
        Only relations that hold for a kernel whatever the model are in the table. A fork's own
        operator is described by `operator` under `task-types`; a built-in one that a fork
        has changed can be described anew there, or be waived.
    """,
    repeats=True,
)

_HINTS = {
    "order": "cut both slots along the same grid axis",
    "length": "give the slots tiles of one length, or the operator the tensor it was meant to have",
    "shift": "begin with the first tile of the tensor",
    "wrap": "cut the operator into as many tiles as the axis has",
    "transposed": "pass the weight as it lies in memory, rows first",
    "ranks": "give the buffer a slice for each rank",
}


@RULE.checked_by
def tiles_apart(facts: RankFacts) -> Iterator[Finding]:
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for difference in facts.signatures.differences:
        apart = difference.apart
        name = facts.signatures.tensor(difference.groups[0], apart.blamed).base_ptr
        found.setdefault((apart.what, apart.axis, name), []).append(difference)
    for (what, _, name), differences in found.items():
        first = differences[0]
        groups = [group for difference in differences for group in difference.groups]
        slots = {(d.apart.blamed.is_input, d.apart.blamed.index) for d in differences}
        slots = slots if what == "length" else set()
        yield RULE.finding(
            facts.rank,
            f"{first.apart.blamed.side} of {tasks(facts, groups)} {_what(facts, first)}",
            _field(facts, first, first.apart.blamed),
            hint=_HINTS[what],
            related=(*declared(facts, name), *_other(facts, first)),
            tensor=name,
            causes=[misshapen(*slot, groups) for slot in slots if len(slots) == 1],
        )


def _what(facts: RankFacts, difference: Difference) -> str:
    apart = difference.apart
    group = difference.groups[0]
    tile = facts.signatures.tensor(group, apart.blamed)
    other = facts.signatures.tensor(group, apart.other)
    dim, other_dim = apart.dims
    start, other_start = apart.starts
    length, other_length = apart.lengths
    here = f"{_span(start, length)} along dim {dim} of {tile.base_ptr}"
    there = f"{_span(other_start, other_length)} along dim {other_dim} of {other.base_ptr}"
    side = apart.other.side
    if apart.what == "ranks":
        return f"holds {length} slices of {tile.base_ptr}, and there are {other_length} ranks"
    if apart.what == "wrap":
        return (
            f"holds {here}, which is {other_length} long: what is past its end is the "
            "beginning of the next row"
        )
    if apart.what == "transposed":
        return (
            f"holds {tile.base_ptr} by columns, with strides {list(tile.strides)}, and the kernel "
            "reads rows"
        )
    if apart.what == "length":
        return (
            f"is {length} long along dim {dim} of {tile.base_ptr}, and {side} is {other_length} "
            f"long along dim {other_dim} of {other.base_ptr}: they share the axis {apart.axis}"
        )
    if apart.what == "shift":
        return (
            f"holds {here}, and {side} {there}: every tile is {start - other_start} further on, "
            f"and no task touches the beginning of {tile.base_ptr}"
        )
    return (
        f"holds {here}, and {side} holds {there}: the slots' tiles of the axis {apart.axis} are in "
        "different orders"
    )


def _span(start: int, length: int) -> str:
    return f"{start}..{start + length - 1}"


def _field(facts: RankFacts, difference: Difference, operand: Operand, note: str = "") -> Location:
    field = {"order": "offset", "shift": "offset", "wrap": "offset", "transposed": "strides"}
    side = "inputs" if operand.is_input else "outputs"
    return facts.in_graph(
        "all_tasks",
        difference.groups[0].first,
        side,
        operand.index,
        field.get(difference.apart.what, "dims"),
        note=note,
    )


def _other(facts: RankFacts, difference: Difference) -> tuple[Location, ...]:
    apart = difference.apart
    if apart.other is apart.blamed:
        return ()
    name = facts.signatures.tensor(difference.groups[0], apart.other).base_ptr
    return (_field(facts, difference, apart.other, f"the tile of {name} beside it"),)
