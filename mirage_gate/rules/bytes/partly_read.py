"""MG203: bytes of a loaded tensor are read by nobody, though their neighbours are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import LOADED
from mirage_gate.artifacts.names import layer_in, role_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import groups_of, plural, size, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG203",
    "partly-read",
    Severity.ERROR,
    "Bytes of a loaded tensor are read by nobody, though their neighbours are.",
    why="""
        A weight of which some rows are never read is a layer that lost a tile: its output
        lacks columns, or has others twice. An error for shuffled tensors, and for host
        tensors from their first byte to the last that their tiles span (or that the same weight
        spans in the other layers); a warning for what is written of scratch and symmetric
        buffers, and for the first bytes of a tensor that has no sibling which begins at 0.
    """,
    example="Task 12 reads rows 0..127 of `o_proj` twice, and rows 128..255 are read by none.",
    fix="Give the operator a grid that covers the whole tensor, each tile once.",
    limits="""
        A host tensor's size is not in the files: rows missing at its very end show only
        against the same weight in other layers. Buffers that are also accessed with rows
        picked at run time are left out.
    """,
    repeats=True,
)


@RULE.checked_by
def partly_read(facts: RankFacts) -> Iterator[Finding]:
    spans = _spans_of_siblings(facts)
    starts = _starts_of_siblings(facts)
    for name, declaration, accesses in touched_tensors(facts):
        if not any(a.reads for a in accesses):
            continue
        loaded = declaration.kind in LOADED
        if not loaded and not all(a.slot.exact for a in accesses):
            continue
        regions = facts.regions.of(name)
        if regions.undecided:
            continue  # MG208 says it
        read = regions.union(a.tensor for a in accesses if a.reads or loaded)
        left = regions.whole & ~read
        if not loaded:  # an allocation may be larger than what is used of it
            left &= regions.union(a.tensor for a in accesses if a.writes)
        text = regions.text(left) if left else ""
        count = regions.nbytes(left)
        low, high = (bits // 8 for bits in regions.hull)
        start, end = spans.get(name, (low, high))
        outside = [(0, low), (high, end)] if declaration.kind == "host" else []
        outside = [(first, last) for first, last in outside if first < last]
        for first, last in outside:
            text = f"{text or 'bytes'}{', ' * bool(text)} {first}..{last - 1}".replace("  ", " ")
            count += last - first
        if not text:
            continue
        late = not left and outside == [(0, low)]
        wide = f"; other layers read bytes {start}..{end - 1}" if outside and name in spans else ""
        readers = groups_of(a for a in accesses if a.reads)
        reader = next(a for a in accesses if a.reads)
        kind = facts.task_type(reader.group.task_type).name
        yield RULE.finding(
            facts.rank,
            (
                f"{plural(count, 'byte')} of {declaration.kind} {name}{size(declaration)} "
                f"{'is' if count == 1 else 'are'} read by no task ({text}{wide}), the rest by "
                f"{tasks(facts, readers)}"
            ),
            declaration.location,
            hint=f"in the builder, give {kind} a grid that covers all of {name}, each tile once",
            severity=_severity(loaded, late and 0 not in starts[role_of(name)]),
            related=(slot_field(facts, reader, "offset", "the tensor's first reader"),),
            tensor=name,
        )


def _severity(loaded: bool, may_begin_late: bool) -> Severity:
    """A warning for buffers, and for a loaded tensor that has no sibling to begin elsewhere."""
    return Severity.ERROR if loaded and not may_begin_late else Severity.WARNING


def _starts_of_siblings(facts: RankFacts) -> dict[str, set[int]]:
    """Say at which bits the tiles of host tensors of one role begin."""
    starts: dict[str, set[int]] = defaultdict(set)
    for name, declaration in facts.declared.items():
        if declaration.kind == "host" and facts.wiring.of(name):
            starts[role_of(name)].add(facts.regions.of(name).hull[0])
    return starts


def _spans_of_siblings(facts: RankFacts) -> dict[str, tuple[int, int]]:
    """Say where the tiles of each layer's host tensor usually start and end, in bytes.

    Given only where at least two layers, and most of them, agree on the span and on the grid
    that fills it: a layer of another size has other tiles or another number of them, but as
    many of the same over fewer bytes have read some bytes twice.
    """
    layers: dict[str, dict[str, tuple[tuple[int, int], object]]] = defaultdict(dict)
    for name, declaration in facts.declared.items():
        accesses = facts.wiring.of(name)
        if declaration.kind == "host" and layer_in(name) is not None and accesses:
            regions = facts.regions.of(name)
            low, high = regions.hull
            own: object = (facts.wiring.input_refs(name), regions.shapes)
            layers[role_of(name)][name] = ((low // 8, high // 8), own)
    spans: dict[str, tuple[int, int]] = {}
    for siblings in layers.values():
        counts: Counter[tuple[tuple[int, int], object]] = Counter()
        for name, spanned in siblings.items():
            counts[spanned] += facts.times_of_layer(layer_in(name))
        ((span, grid), count), *_ = counts.most_common(1)
        if count >= 2 and 2 * count > counts.total():
            spans.update({name: span for name, (_, own) in siblings.items() if own == grid})
    return spans
