"""MG2: does every byte that is read come from somewhere, and is every tile in its place?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import Tensor
from mirage_gate.facts.layers import layer_in, role_of
from mirage_gate.facts.regions import BITS, TensorRegions, extent_of
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import declared, groups_of, size, slot_field, tasks
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access

_LOADED = frozenset({"host", "shuffled"})
_BUFFER = frozenset({"scratch", "symmetric"})


def _tensors(facts: RankFacts) -> Iterator[tuple[str, Declaration, list[Access]]]:
    """Give every declared tensor that tasks really touch, with those accesses."""
    for name, declaration in facts.declared.items():
        accesses = [a for a in facts.wiring.of(name) if a.reads or a.writes]
        if accesses and declaration.kind != "sentinel":
            yield name, declaration, accesses


@rule(
    "MG201",
    "unwritten-range",
    Severity.ERROR,
    "Bytes of a scratch tensor are read that no task writes.",
    why="""
        Only tasks fill scratch memory. What is read and never written is whatever was there
        before, often the last iteration's or zeros in the first: results that are almost
        right.
    """,
    example="""
        The projection writes columns 0 to 4095 of `attn_in`, and attention reads 6144.
    """,
    fix="Give the writing operator as many tiles as the reader expects, or the other way round.",
    limits="""
        Slots whose rows are picked at run time, and slots that other ranks write, prove
        nothing here and are left out.
    """,
)
def unwritten_range(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration, accesses in _tensors(facts):
        if declaration.kind not in _BUFFER:
            continue
        writes = [a for a in accesses if a.writes]
        if not writes or any(a.slot.remote for a in writes):
            continue
        regions = facts.regions.of(name)
        written = regions.union(a.tensor for a in writes)
        readers = [
            a for a in accesses if a.reads and a.slot.exact and regions.mask(a.tensor) & ~written
        ]
        if not readers:
            continue
        missing = regions.union(a.tensor for a in readers) & ~written
        yield Finding(
            rule="MG201",
            severity=Severity.ERROR,
            message=(
                f"{regions.text(missing)} of {name}{size(declaration)} are read by "
                f"{tasks(facts, groups_of(readers))} and written by none"
            ),
            location=slot_field(facts, readers[0], "offset"),
            hint=f"let the operator that fills {name} write all that is read of it",
            related=(
                *declared(facts, name),
                slot_field(facts, writes[0], "offset", "the tensor's first writer"),
            ),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG202",
    "out-of-bounds",
    Severity.ERROR,
    "A tile runs past the end of its allocation.",
    why="""
        The kernel reads or writes another tensor's memory: wrong values far from the cause,
        or a fault on some runs.
    """,
    example="A tile of 8 x 1200 bfloat16 at byte 305,000 of a tensor of 307,200 bytes.",
    fix="Correct the tile's offset or dims, or the allocation's size, in the builder.",
    limits="""
        The size of a host tensor is not in the files. A remote write's descriptor runs past
        the local buffer by design.
    """,
)
def out_of_bounds(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name, declaration, accesses in _tensors(facts):
        if declaration.nbytes is None:
            continue
        over = [
            (extent, access)
            for access in accesses
            if not access.slot.remote
            and (extent := extent_of(tensors[access.tensor])) is not None
            and extent > declaration.nbytes
        ]
        if not over:
            continue
        extent, worst = max(over, key=lambda pair: (pair[0], -pair[1].group.first))
        offset = tensors[worst.tensor].offset
        yield Finding(
            rule="MG202",
            severity=Severity.ERROR,
            message=(
                f"the tile at bytes {offset}..{extent - 1} runs {extent - declaration.nbytes} "
                f"bytes past the end of {name}{size(declaration)}; so do the tiles of "
                f"{tasks(facts, groups_of(access for _, access in over))}"
            ),
            location=slot_field(facts, worst, "offset"),
            hint="correct the tile's offset or dims, or allocate more",
            related=declared(facts, name),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG203",
    "partly-read",
    Severity.ERROR,
    "Bytes of a loaded tensor are read by nobody, though their neighbours are.",
    why="""
        A weight of which some rows are never read is a layer that lost a tile: its output
        lacks columns, or has others twice. An error for shuffled tensors, and for host
        tensors inside the range that their tiles span (or that the same weight spans in the
        other layers); a warning for scratch and symmetric buffers.
    """,
    example="Task 12 reads rows 0..127 of `o_proj` twice, and rows 128..255 are read by none.",
    fix="Give the operator a grid that covers the whole tensor, each tile once.",
    limits="""
        A host tensor's size is not in the files: rows missing at its very end show only
        against the same weight in other layers. Buffers that are also accessed with rows
        picked at run time are left out.
    """,
)
def partly_read(facts: RankFacts) -> Iterator[Finding]:
    spans = _spans_of_siblings(facts)
    for name, declaration, accesses in _tensors(facts):
        if not any(a.reads for a in accesses):
            continue
        loaded = declaration.kind in _LOADED
        if not loaded and not all(a.slot.exact for a in accesses):
            continue
        regions = facts.regions.of(name)
        read = regions.union(a.tensor for a in accesses if a.reads or loaded)
        left = regions.whole & ~read
        text = regions.text(left) if left else ""
        count = regions.nbytes(left)
        usual = spans.get(name, 0)
        beyond = usual - regions.hull[1] // 8
        if declaration.kind == "host" and beyond > 0:
            end = regions.hull[1] // 8
            text = f"{text or 'bytes'}{', ' * bool(text)} {end}..{usual - 1}".replace("  ", " ")
            count += beyond
        if not text:
            continue
        of = f"{name}{size(declaration)}"
        if beyond > 0 and declaration.kind == "host":
            of += f", which spans {usual} bytes in the other layers,"
        first = next(a for a in accesses if a.reads)
        yield Finding(
            rule="MG203",
            severity=Severity.ERROR if loaded else Severity.WARNING,
            message=(
                f"{text} of {declaration.kind} {of} are read by no task, {count} bytes in all; "
                f"the rest is read by {tasks(facts, groups_of(a for a in accesses if a.reads))}"
            ),
            location=declaration.location,
            hint=f"give its reader a grid that covers all of {name}, each tile once",
            related=(slot_field(facts, first, "offset", "the tensor's first reader"),),
            tensor=name,
            rank=facts.rank,
        )


def _spans_of_siblings(facts: RankFacts) -> dict[str, int]:
    """Say where the tiles of each layer's host tensor usually end, in bytes.

    Given only where at least two layers, and most of them, agree on the end and on how many
    references get there: a layer of another size has another number of tasks, but as many
    tasks over fewer bytes have read some of them twice.
    """
    layers: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for name, declaration in facts.declared.items():
        if declaration.kind == "host" and layer_in(name) is not None and facts.wiring.of(name):
            end = facts.regions.of(name).hull[1] // 8
            layers[role_of(name)][name] = (end, facts.wiring.input_refs(name))
    spans: dict[str, int] = {}
    for siblings in layers.values():
        ((end, refs), count), *_ = Counter(siblings.values()).most_common(1)
        if count >= 2 and 2 * count > len(siblings):
            spans.update({name: end for name, (_, own) in siblings.items() if own == refs})
    return spans


@rule(
    "MG204",
    "shuffle-gap",
    Severity.ERROR,
    "The copies that fill a shuffled tensor do not tile it.",
    why="""
        A shuffled tensor is filled by the host, row block by row block, from its sources. A
        gap stays uninitialised, an overlap loses what was copied first.
    """,
    example="`qkv_proj` has 12,582,912 bytes and the copy of V is 1,024 rows short.",
    fix="Make the sources' shapes add up to the shuffled tensor's.",
)
def shuffle_gap(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind != "shuffled" or declaration.nbytes is None:
            continue
        rows = {
            i: Tensor(name, copy.offset, 930, (copy.height, copy.width), (copy.pitch, 1))
            for i, copy in enumerate(declaration.copies)
        }
        regions = TensorRegions(declaration.nbytes, rows)
        seen = overlap = 0
        for i in rows:
            overlap |= seen & regions.mask(i)
            seen |= regions.mask(i)
        problems = [
            (regions.whole & ~seen, "are filled by no copy"),
            (overlap, "are filled twice"),
            (seen & ~regions.whole, "lie past its end and are written by a copy"),
        ]
        texts = [f"{regions.text(mask)} {what}" for mask, what in problems if mask]
        texts += [
            f"the copy of {copy.source} has rows of {copy.width} bytes, {copy.pitch} apart"
            for copy in declaration.copies
            if copy.width > copy.pitch and copy.height > 1
        ]
        if regions.undecided:
            texts = [f"its copies cannot be compared: {regions.undecided}"]
        if not texts:
            continue
        yield Finding(
            rule="MG204",
            severity=Severity.ERROR,
            message=f"shuffled {name}{size(declaration)}: {'; '.join(texts)}",
            location=declaration.location,
            hint="make the sources' shapes add up to the tensor's",
            related=tuple(
                copy.location.saying(f"copies {copy.source}") for copy in declaration.copies[:8]
            ),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG205",
    "misaligned",
    Severity.ERROR,
    "A tile does not start at a multiple of its element's size, or of what TMA needs.",
    why="""
        A misaligned load faults, or reads halves of two elements. A TMA descriptor's base
        address must be a multiple of 16 bytes; there it is a warning, for the allocation's
        own address is not in the files.
    """,
    example="A bfloat16 tile at byte 4097.",
    fix="Correct the offset: offsets are bytes, dims and strides are elements.",
)
def misaligned(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name, _, accesses in _tensors(facts):
        odd: dict[int, list[Access]] = defaultdict(list)
        for access in accesses:
            tensor = tensors[access.tensor]
            element = max(BITS.get(tensor.data_type, 8) // 8, 1)
            if tensor.offset % element:
                odd[element].append(access)
            elif tensor.offset % 16 and _by_tma(facts, access):
                odd[16].append(access)
        for need, found in sorted(odd.items()):
            tma = need == 16
            offset = tensors[found[0].tensor].offset
            yield Finding(
                rule="MG205",
                severity=Severity.WARNING if tma else Severity.ERROR,
                message=(
                    f"{'TMA tile' if tma else 'tile'} of {name} at byte {offset} is not aligned to "
                    f"{need} bytes; so are the tiles of {tasks(facts, groups_of(found))}"
                ),
                location=slot_field(facts, found[0], "offset"),
                hint="correct the offset: it is in bytes, dims and strides in elements",
                related=declared(facts, name),
                tensor=name,
                rank=facts.rank,
            )


def _by_tma(facts: RankFacts, access: Access) -> bool:
    branch = facts.wiring.branch(access.group.task_type, access.group.variant)
    if branch is None:
        return False
    return access.index in (branch.tma_inputs if access.is_input else branch.tma_outputs)


@rule(
    "MG206",
    "type-clash",
    Severity.WARNING,
    "The same bytes are used under two data types of different size.",
    why="""
        A writer of bfloat16 and a reader of float32 over the same bytes do not mean the same
        numbers, and not the same number of them.
    """,
    example="`lse` is written as float32 and read as bfloat16.",
    fix="Give the tensor one data type in the builder.",
    limits="A buffer that is deliberately reused under another type can be waived.",
)
def type_clash(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name, _, accesses in _tensors(facts):
        by_bits: dict[int, list[Access]] = defaultdict(list)
        for access in accesses:
            bits = BITS.get(tensors[access.tensor].data_type)
            if bits is not None:
                by_bits[bits].append(access)
        if len(by_bits) < 2:
            continue
        regions = facts.regions.of(name)
        masks = {bits: regions.union(a.tensor for a in found) for bits, found in by_bits.items()}
        usual = max(by_bits, key=lambda bits: (len(by_bits[bits]), bits))
        for bits, found in sorted(by_bits.items()):
            both = masks[bits] & masks[usual]
            if bits == usual or not both:
                continue
            odd = next(a for a in found if regions.mask(a.tensor) & both)
            other = next(a for a in by_bits[usual] if regions.mask(a.tensor) & both)
            yield Finding(
                rule="MG206",
                severity=Severity.WARNING,
                message=(
                    f"{regions.text(both)} of {name} are {_type(facts, odd)} to "
                    f"{tasks(facts, groups_of(found))} and {_type(facts, other)} to others"
                ),
                location=slot_field(facts, odd, "data_type"),
                hint=f"give {name} one data type",
                related=(
                    *declared(facts, name),
                    slot_field(facts, other, "data_type", "the other type"),
                ),
                tensor=name,
                rank=facts.rank,
            )


def _type(facts: RankFacts, access: Access) -> str:
    code = facts.graph.tensors[access.tensor].data_type
    return f"data type {code} ({BITS[code]} bits)"


@rule(
    "MG207",
    "tile-gap",
    Severity.WARNING,
    "Sibling tiles of one operator overlap where all others tile exactly.",
    why="""
        The tasks of an operator share its work tile by tile. Where one tile is used twice,
        another one is usually missing: an output column computed from the wrong rows.
        An error where two tasks read exactly the same and yet write different tiles: both
        tiles then hold the same numbers.
    """,
    example="Of 96 tasks of a projection, two read weight rows 0..127 and none rows 128..255.",
    fix="Correct the operator's grid or the tile's offset.",
    limits="Only operators of which most tiles are used once are judged.",
)
def tile_gap(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    operators: dict[object, list[Access]] = defaultdict(list)
    for name, _, accesses in _tensors(facts):
        for access in accesses:
            if access.slot.exact and not access.slot.accumulates:
                layer = facts.layers.of_group[access.group.number]
                key = (name, facts.wiring.operator_of(access.group), layer)
                operators[(*key, access.is_input, access.index)].append(access)
    for accesses in operators.values():
        name = tensors[accesses[0].tensor].base_ptr
        used: Counter[int] = Counter()
        for access in accesses:
            used[access.tensor] += access.group.count
        if len(used) < 3:
            continue
        regions = facts.regions.of(name)
        seen = twice = 0
        for number in used:
            twice |= seen & regions.mask(number)
            seen |= regions.mask(number)
        usual = Counter(used.values()).most_common(1)[0]
        repeated = {n for n, count in used.items() if count > usual[0]}
        crossed = {n for n in used if regions.mask(n) & twice}
        odd = repeated | crossed
        if not odd or 4 * len(odd) > len(used):
            continue
        culprits = [a for a in accesses if a.tensor in odd]
        same = _alike_but_for_writes(facts, culprits)
        yield Finding(
            rule="MG207",
            severity=Severity.ERROR if same else Severity.WARNING,
            message=_tile_message(facts, name, regions, culprits, len(used), same),
            location=slot_field(facts, culprits[-1], "offset"),
            hint="correct the operator's grid or the tile's offset",
            related=(
                *declared(facts, name),
                slot_field(facts, culprits[0], "offset", "the same bytes, first used here"),
            ),
            tensor=name,
            rank=facts.rank,
        )


def _tile_message(
    facts: RankFacts,
    name: str,
    regions: TensorRegions,
    culprits: list[Access],
    tiles: int,
    same: bool,
) -> str:
    verb = "written" if culprits[0].writes else "read"
    text = (
        f"{regions.text(regions.union(a.tensor for a in culprits))} of {name} are {verb} more "
        f"than once by {tasks(facts, groups_of(culprits))}, where the operator's {tiles} tiles "
        "are used once each"
    )
    return f"{text}; these tasks read the same and write different tiles" if same else text


def _alike_but_for_writes(facts: RankFacts, accesses: list[Access]) -> bool:
    """Whether two of the groups read exactly the same and write different bytes."""
    written: dict[object, set[object]] = defaultdict(set)
    for group in groups_of(accesses):
        reads, writes = facts.wiring.work_of(group)
        if reads is not None:
            written[reads].add(writes)
    return any(len(outputs) > 1 for outputs in written.values())


@rule(
    "MG208",
    "undecided-tiles",
    Severity.WARNING,
    "A tensor's tiles are too irregular to be compared: its bytes were not checked.",
    why="""
        Overlap and coverage are decided exactly. Where that would take millions of pieces
        the gate says so rather than passing in silence; no graph of MPK comes near.
    """,
    example="Two tiles of 2,000,000,000 rows each, with strides of 3 and 5 bytes.",
    fix="Look at the tiles' dims and strides: they are most likely damaged.",
)
def undecided_tiles(facts: RankFacts) -> Iterator[Finding]:
    for name in facts.regions.names:
        regions = facts.regions.of(name)
        if regions.undecided:
            # The largest tile is the likeliest culprit.
            worst = max(
                facts.wiring.of(name), key=lambda a: prod(facts.graph.tensors[a.tensor].dims)
            )
            yield Finding(
                rule="MG208",
                severity=Severity.WARNING,
                message=f"the tiles of {name} were not compared: {regions.undecided}",
                location=slot_field(facts, worst, "strides"),
                hint="look at the dims and strides of its tiles",
                related=declared(facts, name),
                tensor=name,
                rank=facts.rank,
            )
