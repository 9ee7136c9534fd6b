"""MG2: does every byte that is read come from somewhere, and is every tile in its place?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS, LOADED
from mirage_gate.artifacts.graph import Tensor
from mirage_gate.facts.layers import layer_in, role_of
from mirage_gate.facts.regions import BITS, TensorRegions, extent_of, steps, type_name
from mirage_gate.facts.wiring import tasks_in
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import declared, groups_of, plural, size, slot_field, tasks
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access, Group


def _tensors(facts: RankFacts) -> Iterator[tuple[str, Declaration, list[Access]]]:
    """Give every declared tensor that tasks really touch, with those accesses."""
    for name, declaration in facts.declared.items():
        accesses = facts.wiring.real(name)
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
        if declaration.kind not in BUFFERS:
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
        if declaration.nbytes is None or facts.regions.of(name).end <= declaration.nbytes:
            continue
        over = [
            (extent, access)
            for access in accesses
            if not (access.slot.remote and access.writes)
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
        other layers); a warning for what is written of scratch and symmetric buffers.
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
        outside = [(start, low), (high, end)] if declaration.kind == "host" else []
        outside = [(first, last) for first, last in outside if first < last]
        for first, last in outside:
            text = f"{text or 'bytes'}{', ' * bool(text)} {first}..{last - 1}".replace("  ", " ")
            count += last - first
        if not text:
            continue
        of = f"{name}{size(declaration)}"
        if outside:
            of += f", which spans bytes {start}..{end - 1} in the other layers,"
        reader = next(a for a in accesses if a.reads)
        yield Finding(
            rule="MG203",
            severity=Severity.ERROR if loaded else Severity.WARNING,
            message=(
                f"{text} of {declaration.kind} {of} are read by no task, {count} bytes in all; "
                f"the rest is read by {tasks(facts, groups_of(a for a in accesses if a.reads))}"
            ),
            location=declaration.location,
            hint=f"give its reader a grid that covers all of {name}, each tile once",
            related=(slot_field(facts, reader, "offset", "the tensor's first reader"),),
            tensor=name,
            rank=facts.rank,
        )


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
        ((span, grid), count), *_ = Counter(siblings.values()).most_common(1)
        if count >= 2 and 2 * count > len(siblings):
            spans.update({name: span for name, (_, own) in siblings.items() if own == grid})
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
    suspects = {number for number, tensor in enumerate(tensors) if tensor.offset % 16}
    if not suspects:
        return
    for name, _, accesses in _tensors(facts):
        odd: dict[int, list[Access]] = defaultdict(list)
        for access in accesses:
            if access.tensor not in suspects:
                continue
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
        if len(facts.regions.of(name).data_types) < 2:
            continue
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
    return f"{type_name(code)} ({BITS[code]} bits)"


@rule(
    "MG207",
    "tile-gap",
    Severity.WARNING,
    "Sibling tiles of one operator are not used equally often, or overlap.",
    why="""
        The tasks of an operator are the cells of a grid, so that each of a slot's tiles is
        used by equally many tasks. Where one tile is used once more, another one is used once
        less: an output column computed from the wrong rows. An error where two tasks read
        exactly the same and yet write different tiles: both then hold the same numbers.
    """,
    example="Of 96 tasks of a projection, two read weight rows 0..127 and none rows 128..255.",
    fix="Correct the operator's grid or the tile's offset.",
    limits="""
        Operators of which more than half of the tiles are odd are not judged, and those whose
        tasks all share one tile only against other runs of their kernel.
    """,
)
def tile_gap(facts: RankFacts) -> Iterator[Finding]:
    wiring, layer_of = facts.wiring, facts.layers.of_group
    operators: dict[object, list[Group]] = defaultdict(list)
    for group in wiring.groups:
        operators[wiring.operator_of(group), layer_of[group.number]].append(group)
    kernels: dict[_KernelSlot, dict[int, list[list[Group]]]] = defaultdict(dict)
    for groups in operators.values():
        alike = len(groups) > 1 and _alike_but_for_writes(facts, groups)
        tasks_of_it = tasks_in(groups)
        operands = [group.inputs + group.outputs for group in groups]
        for place, tiles in enumerate(zip(*operands, strict=True)):
            first = wiring.access(groups[0], place)
            name = facts.graph.tensors[first.tensor].base_ptr
            if not _tiled(facts, name, first):
                continue
            used = _used(groups, tiles)
            if len(used) > 1:
                odd = _odd_tiles(used, facts.regions.of(name))
            else:
                odd = set(used) if alike and first.is_input else set()
            if odd:
                yield _tile_finding(facts, name, _carriers(facts, groups, place, odd), len(used))
            elif first.reads and tasks_of_it > 1:
                kernel = (
                    first.group.task_type,
                    first.group.variant,
                    place,
                    tasks_of_it,
                    role_of(name),
                )
                kernels[kernel].setdefault(len(used), []).append(groups)
    for kernel, by_tiles in kernels.items():
        yield from _fewer_tiles(facts, kernel[2], by_tiles)


_KernelSlot = tuple[int, int, int, int, str]
"""A kernel's type and variant, a slot's place, an operator's tasks, and the tensor's role."""


def _used(groups: list[Group], tiles: Iterable[int]) -> dict[int, int]:
    """Count the tasks that use each tile."""
    used: dict[int, int] = {}
    for tile, group in zip(tiles, groups, strict=True):
        used[tile] = used.get(tile, 0) + group.count
    return used


def _carriers(
    facts: RankFacts, groups: list[Group], place: int, tiles: Collection[int]
) -> list[Access]:
    accesses = (facts.wiring.access(group, place) for group in groups)
    return [access for access in accesses if access.tensor in tiles]


def _fewer_tiles(
    facts: RankFacts, place: int, by_tiles: dict[int, list[list[Group]]]
) -> Iterator[Finding]:
    """Find operators whose tasks share tiles that are each task's own wherever else they run.

    ``by_tiles`` are the operators of one kernel and of equally many tasks, by the number of
    tiles that they have in one slot.
    """
    if len(by_tiles) < 2:
        return
    usual = max(by_tiles, key=lambda tiles: (len(by_tiles[tiles]), tiles))
    for tiles, operators in by_tiles.items():
        if tiles >= usual:
            continue
        for groups in operators:
            used = _used(groups, [(group.inputs + group.outputs)[place] for group in groups])
            share = tasks_in(groups) // usual
            shared = [tile for tile, count in used.items() if count > share]
            culprits = _carriers(facts, groups, place, shared)
            name = facts.graph.tensors[culprits[0].tensor].base_ptr
            yield _tile_finding(facts, name, culprits, usual)


def _tiled(facts: RankFacts, name: str, access: Access) -> bool:
    """Whether a slot's tiles are just what its tasks touch, of a tensor that is declared."""
    declaration = facts.declared.get(name)
    return (
        declaration is not None
        and declaration.kind != "sentinel"
        and (access.reads or access.writes)
        and access.slot.exact
        and not access.slot.accumulates
    )


def _tile_finding(facts: RankFacts, name: str, culprits: list[Access], tiles: int) -> Finding:
    same = _alike_but_for_writes(facts, groups_of(culprits))
    return Finding(
        rule="MG207",
        severity=Severity.ERROR if same else Severity.WARNING,
        message=_tile_message(facts, name, culprits, tiles, same),
        location=slot_field(facts, culprits[-1], "offset"),
        hint="correct the operator's grid or the tile's offset",
        related=(
            *declared(facts, name),
            slot_field(facts, culprits[0], "offset", "the same bytes, first used here"),
        ),
        tensor=name,
        rank=facts.rank,
    )


def _odd_tiles(used: dict[int, int], regions: TensorRegions) -> set[int]:
    """Give the tiles used more often than their siblings, and those that overlap others.

    None if they are the greater part: then it is not clear what the operator does.
    """
    seen = twice = 0
    for number in used:
        mask = regions.mask(number)
        twice |= seen & mask
        seen |= mask
    counts = Counter(used.values())
    if len(counts) == 1 and not twice:
        return set()
    usual = max(counts, key=lambda count: (counts[count], -count))
    repeated = {n for n, count in used.items() if count > usual}
    odd = repeated | {n for n in used if regions.mask(n) & twice}
    return set() if 2 * len(odd) > len(used) else odd


def _tile_message(
    facts: RankFacts, name: str, culprits: list[Access], tiles: int, same: bool
) -> str:
    verb = "written" if culprits[0].writes else "read"
    regions = facts.regions.of(name)
    text = (
        f"{regions.text(regions.union(a.tensor for a in culprits))} of {name} are {verb} more "
        f"than once by {tasks(facts, groups_of(culprits))}, and the other tiles of the operator "
        f"({plural(tiles, 'tile')} in all) less often"
    )
    return f"{text}; these tasks read the same and write different tiles" if same else text


def _alike_but_for_writes(facts: RankFacts, groups: list[Group]) -> bool:
    """Whether two of the groups read exactly the same and write different bytes.

    Those that read nothing, as where a buffer is filled with zeros, are alike by right.
    """
    written: dict[object, set[tuple[int, ...]]] = defaultdict(set)
    for group in groups:
        reads, writes = facts.wiring.work_of(group)
        if reads is not None and len(reads) > 2:  # more than the type and the variant
            written[reads].add(writes)
    return any(
        len({_bytes_of(facts, writes) for writes in different}) > 1
        for different in written.values()
        if len(different) > 1
    )


def _bytes_of(facts: RankFacts, references: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Say which bytes some references cover: two may differ, and cover the same."""
    names = [facts.graph.tensors[number].base_ptr for number in references]
    return tuple(
        (name, facts.regions.of(name).mask(number))
        for name, number in zip(names, references, strict=True)
    )


@rule(
    "MG208",
    "undecided-tiles",
    Severity.WARNING,
    "A tensor's tiles cannot be compared: its bytes were not checked.",
    why="""
        Overlap and coverage are decided exactly. Where that would take millions of pieces, or
        a tile's data type has no known size, the gate says so rather than passing in silence;
        no graph of MPK comes near.
    """,
    example="Two tiles of 2,000,000,000 rows each, with strides of 3 and 5 bytes.",
    fix="""
        Look at the tiles' dims, strides and data type: they are most likely damaged. A data
        type that is newer than the gate needs its size in `mirage_gate/facts/regions.py`.
    """,
)
def undecided_tiles(facts: RankFacts) -> Iterator[Finding]:
    unsized: dict[int, list[str]] = defaultdict(list)
    for name in facts.regions.names:
        regions = facts.regions.of(name)
        if regions.unsized is not None:
            unsized[regions.unsized].append(name)
        elif regions.undecided:
            # The largest tile is the likeliest culprit.
            worst = max(
                facts.wiring.of(name), key=lambda a: prod(facts.graph.tensors[a.tensor].dims)
            )
            yield _undecided(facts, name, regions.undecided, slot_field(facts, worst, "strides"))
    for code, names in unsized.items():
        first = next(
            a for a in facts.wiring.of(names[0]) if facts.graph.tensors[a.tensor].data_type == code
        )
        reason = f"data type {code} has no known size"
        if len(names) > 1:
            reason += f"; nor were those of {plural(len(names) - 1, 'more tensor')}"
        yield _undecided(facts, names[0], reason, slot_field(facts, first, "data_type"))


def _undecided(facts: RankFacts, name: str, reason: str, at: Location) -> Finding:
    return Finding(
        rule="MG208",
        severity=Severity.WARNING,
        message=f"the tiles of {name} were not compared: {reason}",
        location=at,
        hint="look at the dims, strides and data type of its tiles",
        related=declared(facts, name),
        tensor=name,
        rank=facts.rank,
    )


@rule(
    "MG209",
    "stride-clash",
    Severity.WARNING,
    "Tasks of one kernel walk the rows of one tensor with different strides.",
    why="""
        A tile's strides are those of the whole tensor, so all tasks of an operator have the
        same. One with other strides takes its rows from elsewhere: the right tile, sheared.
    """,
    example="Of 64 tasks that read `attn_out` with rows 256 apart, one has rows 128 apart.",
    fix="Correct the strides: they are the whole tensor's, in elements.",
    limits="""
        Different kernels may view one buffer under different shapes; only tasks of one
        (type, variant) and slot are compared.
    """,
)
def stride_clash(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name in facts.regions.names:
        if all(len(found) == 1 for found in facts.regions.of(name).strided.values()):
            continue
        slots: dict[object, dict[tuple[int, ...], list[Access]]] = defaultdict(dict)
        for access in facts.wiring.of(name):
            if access.reads or access.writes:
                group, dims = access.group, tensors[access.tensor].dims
                key = (group.task_type, group.variant, access.is_input, access.index, dims)
                slots[key].setdefault(steps(tensors[access.tensor]), []).append(access)
        for found in slots.values():
            if len(found) < 2:
                continue
            usual = max(found, key=lambda steps: sum(a.group.count for a in found[steps]))
            odd = [a for steps, accesses in found.items() if steps != usual for a in accesses]
            yield Finding(
                rule="MG209",
                severity=Severity.WARNING,
                message=(
                    f"{name} has strides {_strides(tensors[odd[0].tensor])} in "
                    f"{tasks(facts, groups_of(odd))}, and "
                    f"{_strides(tensors[found[usual][0].tensor])} in the kernel's other tasks"
                ),
                location=slot_field(facts, odd[0], "strides"),
                hint="correct the strides: they are the whole tensor's, in elements",
                related=(
                    *declared(facts, name),
                    slot_field(facts, found[usual][0], "strides", "the usual strides"),
                ),
                tensor=name,
                rank=facts.rank,
            )


def _strides(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.strides))})"


@rule(
    "MG210",
    "stale-range",
    Severity.WARNING,
    "A kernel leaves out bytes of a buffer that it fills elsewhere, and they are read again.",
    why="""
        A scratch buffer serves layer after layer: it is filled, read, and filled again. Where
        an operator has lost a tile, every byte is still written by somebody and read by
        somebody; but what reads it gets some rows of the layer before.
    """,
    example="""
        Of 8 tasks that normalise a row of `rmsnorm_out` each, one is gone: the projection
        reads seven new rows, and one that has been read already.
    """,
    fix="Give the operator as many tiles as it has where it fills all that is read.",
    limits="""
        Only where another run of the same kernel fills the same buffer further. Buffers that
        are also accessed with rows picked at run time, or from other ranks, are left out.
    """,
)
def stale_range(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration, accesses in _tensors(facts):
        fuller = _fuller_runs(facts, name, accesses) if declaration.kind in BUFFERS else {}
        if not fuller or not all(a.slot.exact for a in accesses):
            continue
        regions = facts.regions.of(name)
        for readers, writer, other, old in _stale(facts, name, accesses, fuller):
            yield Finding(
                rule="MG210",
                severity=Severity.WARNING,
                message=(
                    f"{regions.text(old)} of {name}{size(declaration)} are read by "
                    f"{tasks(facts, groups_of(readers))} as they were read before: the operator "
                    "that filled the rest since leaves them out, and elsewhere its kernel does not"
                ),
                location=slot_field(facts, writer, "offset"),
                hint=f"give the operator as many tiles of {name} as it has elsewhere",
                related=(
                    *declared(facts, name),
                    slot_field(facts, readers[0], "offset", "read here"),
                    slot_field(facts, other, "offset", "the same kernel fills them here"),
                ),
                tensor=name,
                rank=facts.rank,
            )


def _fuller_runs(
    facts: RankFacts, name: str, accesses: list[Access]
) -> dict[int, tuple[Access, int]]:
    """Give the operators that leave out what another run of their kernel fills as well.

    Operator to (one write of the other run, what is left out). Whoever updates in place what
    it reads leaves nothing stale.
    """
    numbers, regions = facts.layers.operator_numbers, facts.regions.of(name)
    kernels: dict[object, dict[int, list[Access]]] = {}
    updating = {access.group.number for access in accesses if access.reads}
    for access in accesses:
        group = access.group
        if access.writes and group.number not in updating:
            slot = (group.task_type, group.variant, access.is_input, access.index)
            kernels.setdefault(slot, {}).setdefault(numbers[group.number], []).append(access)
    fuller: dict[int, tuple[Access, int]] = {}
    for runs in kernels.values():
        filled = {run: regions.union(a.tensor for a in own) for run, own in runs.items()}
        masks = set(filled.values())
        for run, mask in filled.items() if len(masks) > 1 else ():
            # The fullest of those that fill all that this one fills.
            full = max((m for m in masks if m & mask == mask), key=int.bit_count)
            if full != mask:
                left = full & ~mask
                writes = next(own for other, own in runs.items() if filled[other] == full)
                fuller[run] = (next(a for a in writes if regions.mask(a.tensor) & left), left)
    return fuller


def _stale(
    facts: RankFacts, name: str, accesses: list[Access], fuller: dict[int, tuple[Access, int]]
) -> Iterator[tuple[list[Access], Access, Access, int]]:
    """Give (readers, a writer before them, a write of its kernel's other run, stale bytes).

    Stale is what was left out, and was read since it was last written; where nobody reads
    what was filled, nothing is. The second round is the second iteration: what comes first in
    it comes after all others.
    """
    numbers, regions = facts.layers.operator_numbers, facts.regions.of(name)
    runs: dict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        runs[numbers[access.group.number]].append(access)
    consumed = 0
    left_out: dict[int, int] = {}  # by operator, not written since it ran
    stale: dict[int, tuple[list[Access], int]] = {}  # by operator, who reads it and what
    fresh: set[int] = set()  # operators of which what they filled has been read
    told: set[int] = set()
    for operator in (*sorted(runs), *sorted(runs)):
        reads = [a for a in runs[operator] if a.reads and not a.slot.accumulates]
        read = regions.union(a.tensor for a in reads)
        for culprit, left in left_out.items():
            writes = [a for a in runs[culprit] if a.writes]
            if read & regions.union(a.tensor for a in writes):
                fresh.add(culprit)
            if read & left and culprit not in stale:
                readers = [a for a in reads if regions.mask(a.tensor) & left]
                stale[culprit] = (readers, read & left)
            if culprit in stale and culprit in fresh and culprit not in told:
                told.add(culprit)
                readers, old = stale[culprit]
                yield readers, writes[0], fuller[culprit][0], old
        consumed |= read
        written = regions.union(a.tensor for a in runs[operator] if a.writes)
        left_out = {culprit: mask & ~written for culprit, mask in left_out.items()}
        consumed &= ~written
        if operator in fuller:
            left_out[operator] = fuller[operator][1] & consumed
            fresh.discard(operator)
