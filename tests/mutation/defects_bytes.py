"""Bytes: tiles that run over, tiles in the wrong place, copies that do not add up."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import EMBEDDING, Subject, Use, overlap


def _sized(subject: Subject) -> list[Use]:
    """Uses of tensors whose size the `.cu` says, on this rank."""
    return [u for u in subject.uses if subject.nbytes(u.name) and u.code != 301]


def _end(use: Use) -> int:
    return use.runs[-1][1]


@defect("MG202")
def tile_past_its_allocation(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A tile is moved so that its last element lies past the end of the allocation."""
    for use in mixed(rng, _sized(subject)):
        nbytes = subject.nbytes(use.name)
        over = nbytes - _end(use) + use.size * rng.choice([1, 8, 4096])
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot} past {use.name}")
        tensor = draft.slot(use.task, use.side, use.slot)
        tensor["offset"] += over
        draft.at(use.task, use.side, use.slot, "offset")
        yield draft.mutant()


@defect("MG202")
def tile_grown_past_its_allocation(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A tile gets one element more in a dimension, and that one lies past the end."""
    for use in mixed(rng, _sized(subject)):
        offset, dims, strides, _ = use.tile
        last = offset + sum((n - 1) * s for n, s in zip(dims, strides, strict=True)) * use.size
        for axis in mixed(rng, range(len(dims))):
            if last + (strides[axis] + 1) * use.size > subject.nbytes(use.name):
                draft = Draft(subject, f"task {use.task} {use.side} {use.slot}: dim {axis} grown")
                draft.slot(use.task, use.side, use.slot)["dims"][axis] += 1
                draft.at(use.task, use.side, use.slot, "offset")
                draft.at(use.task, use.side, use.slot, "dims")
                yield draft.mutant()
                break


@defect("MG202")
def allocation_too_small(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The allocation is one element smaller than its tiles need."""
    sized = {use.name for use in _sized(subject)}
    for name in mixed(rng, sized):
        uses = [u for u in subject.by_name[name] if u.code != 301]
        need = max(map(_end, uses))
        draft = Draft(subject, f"{name} is too small")
        size = need - uses[0].size
        draft.sub(
            rf"((?:cudaMalloc\(&{re.escape(name)}, |\*{re.escape(name)} = nvshmem_malloc\())\d+",
            rf"\g<1>{size}",
        )
        yield draft.mutant()


def _siblings(subject: Subject, use: Use) -> list[Use]:
    """Other tiles that the use's operator has in the same slot, apart from it."""
    tiles = subject.by_operator_slot[use.operator, use.side, use.slot]
    return [
        other
        for other in tiles
        if other.name == use.name
        and not overlap(other.runs, use.runs)
        and other.tile[1] == use.tile[1]
    ]


@defect("MG2", "MG3")
def tile_written_over_its_sibling(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task of an operator writes where a sibling writes: its own tile keeps what it held."""
    uses = [u for u in subject.uses if u.writes and u.exact and u.side == "outputs"]
    for use in mixed(rng, uses):
        siblings = _siblings(subject, use)
        if siblings:
            other = rng.choice(siblings)
            draft = Draft(
                subject, f"task {use.task} writes the tile of {use.name} of task {other.task}"
            )
            draft.slot(use.task, use.side, use.slot)["offset"] = other.tile[0]
            draft.at(use.task, use.side, use.slot, "offset")
            draft.at(other.task, use.side, use.slot, "offset")
            yield draft.mutant()


def _weights(subject: Subject) -> list[Use]:
    return [
        u
        for u in subject.uses
        if u.reads and not u.writes and u.exact and subject.storage[u.name] in ("host", "shuffled")
    ]


def _sole_reader(subject: Subject, use: Use) -> bool:
    """No other use covers any byte of the tile, so that moving it leaves bytes unread."""
    return not any(
        other is not use and overlap(other.runs, use.runs) for other in subject.by_name[use.name]
    )


@defect("MG2")
def weight_tile_read_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task reads its sibling's weight tile; its own is then read by nobody."""
    for use in mixed(rng, _weights(subject)):
        siblings = _siblings(subject, use)
        if siblings and _sole_reader(subject, use):
            other = rng.choice(siblings)
            draft = Draft(
                subject, f"task {use.task} reads the tile of {use.name} of task {other.task}"
            )
            draft.slot(use.task, use.side, use.slot)["offset"] = other.tile[0]
            draft.at(use.task, use.side, use.slot, "offset")
            draft.at(other.task, use.side, use.slot, "offset")
            draft.declared(use.name)
            yield draft.mutant()


@defect("MG2")
def last_weight_tile_lost(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The last tile of a weight is read by nobody: its task reads the one before."""
    for (_, side, slot), tiles in mixed(rng, subject.by_operator_slot.items()):
        weights = [t for t in tiles if t in set(_weights_of(subject, tiles))]
        if not weights:
            continue
        use = max(weights, key=lambda u: u.tile[0])
        siblings = _siblings(subject, use)
        if siblings and _sole_reader(subject, use):
            other = max(siblings, key=lambda u: u.tile[0])
            draft = Draft(subject, f"the last tile of {use.name} is lost")
            draft.slot(use.task, side, slot)["offset"] = other.tile[0]
            draft.at(use.task, side, slot, "offset")
            draft.at(other.task, side, slot, "offset")
            draft.declared(use.name)
            yield draft.mutant()


def _weights_of(subject: Subject, tiles: list[Use]) -> list[Use]:
    return [
        t
        for t in tiles
        if t.reads and not t.writes and t.exact and subject.storage[t.name] in ("host", "shuffled")
    ]


@defect("MG2", "MG5", "MG7")
def weight_tile_shorter(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A weight's tile loses a row: nobody reads it, and its kernel was compiled for all rows.

    Not the embedding's table: one task reads it, and how many rows it has is in neither file.
    """
    for use in mixed(rng, _weights(subject)):
        if (
            use.code != EMBEDDING
            and use.tile[1]
            and use.tile[1][0] > 1
            and _sole_reader(subject, use)
        ):
            draft = Draft(subject, f"task {use.task} reads one row less of {use.name}")
            draft.slot(use.task, use.side, use.slot)["dims"][0] -= 1
            yield draft.mutant()


@defect("MG2", "MG3", "MG5", "MG7")
def written_tile_shorter(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task writes one column less than its siblings, and than what is read of it."""
    uses = [u for u in subject.uses if u.writes and u.exact and u.side == "outputs"]
    for use in mixed(rng, uses):
        read = any(o.reads and overlap(o.runs, use.runs) for o in subject.by_name[use.name])
        if read and use.tile[1] and use.tile[1][-1] > 1:
            draft = Draft(subject, f"task {use.task} writes one column less of {use.name}")
            draft.slot(use.task, use.side, use.slot)["dims"][-1] -= 1
            yield draft.mutant()


@defect("MG2", "MG3", "MG7")
def activation_tile_read_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task reads its sibling's tile of an activation: its own is computed for nobody."""
    uses = [
        u
        for u in subject.uses
        if u.reads and not u.writes and u.exact and subject.storage[u.name] == "scratch"
    ]
    for use in mixed(rng, uses):
        siblings = _siblings(subject, use)
        if siblings:
            other = rng.choice(siblings)
            draft = Draft(
                subject, f"task {use.task} reads the tile of {use.name} of task {other.task}"
            )
            draft.slot(use.task, use.side, use.slot)["offset"] = other.tile[0]
            yield draft.mutant()


@defect("MG205")
def tile_between_two_elements(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A tile's offset is no multiple of its element's size."""
    for use in mixed(rng, [u for u in subject.uses if u.size > 1]):
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot} starts inside an element")
        tensor = draft.slot(use.task, use.side, use.slot)
        tensor["offset"] += rng.choice([-1, 1]) if tensor["offset"] else 1
        draft.at(use.task, use.side, use.slot, "offset")
        yield draft.mutant()


@defect("MG2", "MG5")
def data_type_of_another_size(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task takes a tensor's elements for others of another size."""
    for use in mixed(rng, subject.uses):
        same = [o for o in subject.by_name[use.name] if o is not use and overlap(o.runs, use.runs)]
        if not same:
            continue
        code = rng.choice(
            [c for c, size in ((930, 1), (941, 2), (950, 4), (965, 8)) if size != use.size]
        )
        draft = Draft(subject, f"task {use.task} takes {use.name} for type {code}")
        draft.slot(use.task, use.side, use.slot)["data_type"] = code
        yield draft.mutant()


@defect("MG2", "MG5")
def data_type_of_the_same_size(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task takes bfloat16 for float16, or an int for a float: all numbers are wrong."""
    twins = {941: 945, 950: 955, 955: 950, 956: 950, 965: 960, 930: 935}
    for use in mixed(rng, subject.uses):
        draft = Draft(subject, f"task {use.task} takes {use.name} for another type")
        tensor = draft.slot(use.task, use.side, use.slot)
        if tensor["data_type"] in twins:
            tensor["data_type"] = twins[tensor["data_type"]]
            yield draft.mutant()


@defect("MG2", "MG3", "MG5")
def row_stride_changed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The tile of one task has another row stride than the tensor: its rows lie elsewhere."""
    for use in mixed(rng, [u for u in subject.uses if u.exact]):
        dims, strides = use.tile[1], use.tile[2]
        if len(dims) < 2 or dims[0] < 2 or strides[0] < 2:
            continue
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot}: row stride changed")
        wrong = rng.choice([strides[0] // 2, strides[0] * 2, strides[0] + 8])
        draft.slot(use.task, use.side, use.slot)["strides"][0] = wrong
        yield draft.mutant()


_COPY = re.compile(
    r"^.*cudaMemcpy2DAsync\(reinterpret_cast<void \*>\((\w+) \+ (\d+)\), (\d+), "
    r'model_tensors\.at\("([^"]+)"\), (\d+), (\d+), (\d+), .*\n',
    re.MULTILINE,
)


def _copies(subject: Subject) -> list[re.Match[str]]:
    return list(_COPY.finditer(subject.cuda))


def _with_copy(draft: Draft, copy: re.Match[str], **changes: int) -> Mutant:
    """The copy with its offset, pitch, width or height changed."""
    fields = {"offset": 2, "pitch": 3, "width": 6, "height": 7}
    text = copy[0]
    base = copy.start()
    for name in sorted(changes, key=lambda n: -copy.start(fields[n])):
        start, end = copy.span(fields[name])
        text = text[: start - base] + str(changes[name]) + text[end - base :]
    draft.cuda = draft.cuda[: copy.start()] + text + draft.cuda[copy.end() :]
    draft.declared(copy[1])
    return draft.mutant()


@defect("MG204")
def copy_too_short(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A copy fills fewer rows, or shorter ones, than its place in the shuffled tensor has."""
    for copy in mixed(rng, _copies(subject)):
        draft = Draft(subject, f"the copy of {copy[4]} is too short")
        if int(copy[7]) > 1 and rng.random() < 0.5:
            yield _with_copy(draft, copy, height=int(copy[7]) - 1)
        else:
            yield _with_copy(draft, copy, width=int(copy[6]) - 2)


@defect("MG204")
def copy_missing(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One source of a shuffled tensor is not copied."""
    for copy in mixed(rng, _copies(subject)):
        draft = Draft(subject, f"{copy[4]} is not copied")
        draft.cuda = draft.cuda[: copy.start()] + draft.cuda[copy.end() :]
        draft.declared(copy[1])
        yield draft.mutant()


@defect("MG204")
def copy_in_the_wrong_place(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A copy starts elsewhere, or has another pitch: it leaves a gap, and overwrites a sibling."""
    for copy in mixed(rng, _copies(subject)):
        draft = Draft(subject, f"{copy[4]} is copied to the wrong place")
        if int(copy[7]) > 1 and rng.random() < 0.5:
            yield _with_copy(draft, copy, pitch=int(copy[3]) + int(copy[6]))
        else:
            yield _with_copy(draft, copy, offset=int(copy[2]) + int(copy[6]) // 2)


@defect("MG214", "MG1", "MG2")
def tile_without_rows(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A slot that its kernel uses carries a tile of no rows: nothing is read or written there."""
    for use in mixed(rng, subject.uses):
        if not use.tile[1]:
            continue
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot} has no rows")
        draft.slot(use.task, use.side, use.slot)["dims"][0] = 0
        draft.at(use.task, use.side, use.slot, "dims")
        yield draft.mutant()


@defect("MG203", "MG213", "MG2")
def weight_read_one_row_late(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """All tiles of a host tensor begin a row later: nobody reads its first row."""
    names = {u.name for u in subject.uses if u.side == "inputs" and not subject.nbytes(u.name)}
    for name in mixed(rng, names):
        uses = [use for use in subject.by_name[name] if use.name == name]
        rows = {use.tile[2][0] * use.size for use in uses if use.tile[2]}
        if len(rows) != 1 or min(use.tile[0] for use in uses) != 0:
            continue
        draft = Draft(subject, f"{name} is read from row 1 on")
        for use in uses:
            draft.slot(use.task, use.side, use.slot)["offset"] += min(rows)
        yield draft.mutant()
