"""MG6: do the ranks of one run fit together?

These rules look at summaries, so it is all one whether the ranks were audited in one run or
on different hosts. Where ranks differ, the one that most of them agree with is taken for
right, and of two the lower.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TypeVar

from mirage_gate.artifacts.cuda import LOADED, SENTINEL
from mirage_gate.facts.layers import role_of, spans
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import rule
from mirage_gate.summary import Collective, LayerShape, Ranks, Summary, Tasks, Wired

_T = TypeVar("_T", bound=Hashable)


def _usual(values: Sequence[tuple[Summary, _T]]) -> Summary:
    """Give the first rank that has what most ranks have."""
    times = Counter(value for _, value in values)
    most = max(times.values())
    return next(summary for summary, value in values if times[value] == most)


def _odd_ones(
    ranks: Ranks, value: Callable[[Summary], _T]
) -> tuple[Summary, list[tuple[Summary, _T]]] | None:
    """Give the rank to compare with, and those that differ from it; None if none does."""
    values = [(summary, value(summary)) for summary in ranks.audited]
    if len(values) < 2:
        return None
    usual = _usual(values)
    expected = value(usual)
    odd = [(summary, found) for summary, found in values if found != expected]
    return (usual, odd) if odd else None


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """Give the first place where two sequences differ, or where the shorter one ends."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _ranks(numbers: Collection[int]) -> str:
    return f"rank{'s' * (len(numbers) != 1)} {spans(sorted(numbers))}"


def _tasks(summary: Summary, tasks: Tasks) -> str:
    if not tasks:
        return "no task"
    kinds = ", ".join(f"{count} {summary.type_name(code)}" for code, count in tasks.items())
    return kinds if len(tasks) < 4 else plural(sum(tasks.values()), "task")


# --- MG601 -----------------------------------------------------------------------------


def _by_name(summary: Summary, tasks: Tasks) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((summary.type_name(code), count) for code, count in tasks.items()))


def _wiring(summary: Summary, wired: Wired | None) -> tuple[object, ...] | None:
    """What must be equal on all ranks.

    What fills or reads an activation may be compiled out on a rank, as the residual is on all
    but the first: so slots are compared there, and only of what the host loads, tasks that
    really read.
    """
    if wired is None:
        return None
    if wired.critical or wired.kind in LOADED:
        return _by_name(summary, wired.readers), _by_name(summary, wired.writers), wired.layers
    return _by_name(summary, wired.inputs), _by_name(summary, wired.outputs)


@rule(
    "MG601",
    "rank-wiring-differs",
    Severity.ERROR,
    "A tensor is wired on one rank otherwise than on the others.",
    why="""
        The ranks of one run are one program over slices of the weights. A rank that was
        emitted by another version of the builder, or with another option, computes
        something else, and the sum over the ranks is wrong.
    """,
    example="On rank 3 no task reads `rope_cos`; on ranks 0 to 2 it is read by 36.",
    fix="Emit all ranks again with one builder and one set of options.",
    limits="""
        An error for a critical tensor, a warning for others. A residual that the kernel
        reads on the first rank alone is how MPK adds it once, and is not reported.
    """,
    scope="ranks",
)
def rank_wiring_differs(ranks: Ranks) -> Iterator[Finding]:
    if len(ranks.audited) < 2:
        return
    tensors = {s.rank: {wired.name: wired for wired in s.tensors} for s in ranks.audited}
    names = dict.fromkeys(name for by_name in tensors.values() for name in by_name)
    names.pop(SENTINEL, None)
    alike: dict[tuple[int, int, bool, str, str], list[str]] = defaultdict(list)
    for name in names:
        found = _odd_ones(ranks, lambda s, name=name: _wiring(s, tensors[s.rank].get(name)))  # type: ignore[misc]
        if found is None:
            continue
        usual, odd = found
        for summary, _ in odd:
            mine, theirs = tensors[summary.rank].get(name), tensors[usual.rank].get(name)
            critical = any(wired.critical for wired in (mine, theirs) if wired)
            differs = _difference(summary, mine, usual, theirs)
            role = name if critical else role_of(name)
            alike[summary.rank, usual.rank, critical, role, differs].append(name)
    by_rank = {summary.rank: summary for summary in ranks.audited}
    for (rank, other, critical, _, differs), same in alike.items():
        summary, usual = by_rank[rank], by_rank[other]
        first = same[0]
        mine, theirs = tensors[summary.rank].get(first), tensors[usual.rank].get(first)
        more = f" and {len(same) - 1} more of its role" if len(same) > 1 else ""
        yield Finding(
            rule="MG601",
            severity=Severity.ERROR if critical else Severity.WARNING,
            message=f"on rank {rank}, {first}{more} {differs}",
            location=summary.declared_at(mine) if mine else summary.start(),
            hint="emit all ranks again with one builder",
            related=(usual.declared_at(theirs, f"rank {other}'s {first}"),) if theirs else (),
            tensor=first,
            rank=summary.rank,
        )


def _difference(summary: Summary, mine: Wired | None, usual: Summary, theirs: Wired | None) -> str:
    of = f"on rank {usual.rank}"
    if mine is None:
        return f"is not declared; {of} it is"
    if theirs is None:
        return f"is declared; {of} it is not"
    read, written = (mine.readers, theirs.readers), (mine.writers, theirs.writers)
    if not (mine.critical or mine.kind in LOADED):
        read, written = (mine.inputs, theirs.inputs), (mine.outputs, theirs.outputs)
    for verb, (here, there) in (("is read by", read), ("is written by", written)):
        if _by_name(summary, here) != _by_name(usual, there):
            return f"{verb} {_tasks(summary, here)}, {of} by {_tasks(usual, there)}"
    where = f"in layers {mine.layers}" if mine.layers else "in no layer"
    return f"is read {where}, {of} in layers {theirs.layers or 'none'}"


# --- MG602 -----------------------------------------------------------------------------


def _symmetric(summary: Summary) -> tuple[tuple[str, int | None], ...]:
    return tuple((w.name, w.nbytes) for w in summary.tensors if w.kind == "symmetric")


@rule(
    "MG602",
    "symmetric-memory-differs",
    Severity.ERROR,
    "The ranks do not allocate the same symmetric memory in the same order.",
    why="""
        `nvshmem_malloc` is a collective: all ranks must call it in the same order with the
        same size. Otherwise the call hangs, or an address means another buffer on each
        rank, and what one rank puts lands in the wrong place on the other.
    """,
    example="Rank 1 allocates 8192 bytes for `all_reduce_buf`, rank 0 allocates 4096.",
    fix="Emit all ranks again with one builder and one set of sizes.",
    scope="ranks",
)
def symmetric_memory_differs(ranks: Ranks) -> Iterator[Finding]:
    found = _odd_ones(ranks, _symmetric)
    if found is None:
        return
    usual, odd = found
    expected = _symmetric(usual)
    for summary, buffers in odd:
        at = _first_difference(buffers, expected)
        mine = buffers[at] if at < len(buffers) else None
        theirs = expected[at] if at < len(expected) else None
        name = (mine or theirs or ("", 0))[0]
        here = summary.tensor(mine[0]) if mine else None
        there = usual.tensor(theirs[0]) if theirs else None
        yield Finding(
            rule="MG602",
            severity=Severity.ERROR,
            message=(
                f"symmetric allocation {at} of rank {summary.rank} is {_buffer(mine)}, of rank "
                f"{usual.rank} {_buffer(theirs)}"
            ),
            location=summary.declared_at(here) if here else summary.start(),
            hint="emit all ranks again with one builder and one set of sizes",
            related=(usual.declared_at(there, f"rank {usual.rank}'s"),) if there else (),
            tensor=name,
            rank=summary.rank,
        )


def _buffer(buffer: tuple[str, int | None] | None) -> str:
    if buffer is None:
        return "none"
    name, nbytes = buffer
    return name if nbytes is None else f"{name} ({nbytes} bytes)"


# --- MG603 -----------------------------------------------------------------------------

_Call = tuple[str, int, tuple[str, ...], tuple[str, ...], tuple[object, ...]]


def _calls(summary: Summary) -> tuple[_Call, ...]:
    return tuple(
        (summary.type_name(c.task_type), c.tasks, c.inputs, c.outputs, c.tiles)
        for c in summary.collectives
    )


@rule(
    "MG603",
    "collective-mismatch",
    Severity.ERROR,
    "The ranks do not run the same collectives in the same order.",
    why="""
        A collective ends when every rank has done its part. A rank that lacks one, or does
        another first, leaves the others waiting, or adds the wrong things.
    """,
    example="Rank 1 has 11 all-reduces, rank 0 has 12: in layer 4 one is missing.",
    fix="Emit all ranks again with one builder.",
    scope="ranks",
)
def collective_mismatch(ranks: Ranks) -> Iterator[Finding]:
    found = _odd_ones(ranks, _calls)
    if found is None:
        return
    usual, odd = found
    expected = _calls(usual)
    for summary, calls in odd:
        at = _first_difference(calls, expected)
        mine = summary.collectives[at] if at < len(calls) else None
        theirs = usual.collectives[at] if at < len(expected) else None
        there = (theirs.at.saying(f"rank {usual.rank}'s collective {at}"),) if theirs else ()
        last = summary.collectives[-1].at if summary.collectives else summary.start()
        yield Finding(
            rule="MG603",
            severity=Severity.ERROR,
            message=(
                f"collective {at} of rank {summary.rank} is {_collective(summary, mine)}, of "
                f"rank {usual.rank} {_collective(usual, theirs)} ({len(calls)} collectives on "
                f"rank {summary.rank}, {len(expected)} on rank {usual.rank})"
            ),
            location=mine.at if mine else last,
            hint="emit all ranks again with one builder",
            related=there,
            rank=summary.rank,
        )


def _collective(summary: Summary, call: Collective | None) -> str:
    if call is None:
        return "none"
    where = "" if call.layer is None else f" in layer {call.layer}"
    moved = f"{', '.join(call.inputs)} to {', '.join(call.outputs)}"
    return f"{summary.type_name(call.task_type)} of {moved}{where}, {plural(call.tasks, 'task')}"


# --- MG604 -----------------------------------------------------------------------------


@rule(
    "MG604",
    "rank-set",
    Severity.ERROR,
    "The files are not those of the ranks that they are named for, or a rank's are missing.",
    why="""
        The gate proves nothing of a rank that is not there. And a rank's files under
        another rank's name make two processes believe they are the same one.
    """,
    example="`kernel_1.cu` and `task_graph_1.json` whose event ids carry rank 0.",
    fix="""
        Put every rank's own files into the folder. Ranks emitted on different hosts are
        audited there with `-o summary=FILE` and joined with `mirage-gate merge`.
    """,
    limits="""
        Fewer ranks than the kernel has are a note where they can be one host's share: a
        whole block, such as 0 to 3 or 4 to 7 of 8. `--ranks` says on purpose which ones.
    """,
    scope="ranks",
)
def rank_set(ranks: Ranks) -> Iterator[Finding]:
    for summary in ranks.audited:
        yield from _misnamed(summary)
    times = Counter(summary.rank for summary in ranks.summaries)
    for summary in ranks.summaries:
        if times[summary.rank] > 1 and summary.named:
            times[summary.rank] = 0
            yield Finding(
                rule="MG604",
                severity=Severity.ERROR,
                message=f"rank {summary.rank} is there more than once",
                location=summary.start(),
                hint="give each rank's files or summary once",
                rank=summary.rank,
            )
    sizes = {summary.world_size: summary for summary in ranks.audited if summary.world_size}
    if len(sizes) > 1:
        small, big = min(sizes), max(sizes)
        yield Finding(
            rule="MG604",
            severity=Severity.ERROR,
            message=(
                f"rank {sizes[small].rank} was made for {plural(small, 'rank')}, "
                f"rank {sizes[big].rank} for {big}"
            ),
            location=sizes[small].start(),
            hint="emit all ranks again, together",
            related=(sizes[big].start(f"rank {sizes[big].rank} was made for {big} ranks"),),
            rank=sizes[small].rank,
        )
    named = ranks.summaries and all(summary.named for summary in ranks.summaries)
    if named and not ranks.chosen:
        yield from _missing(ranks)


def _misnamed(summary: Summary) -> Iterator[Finding]:
    if not summary.named or summary.gpu is None or summary.gpu_at is None:
        return
    world = summary.world_size
    if summary.gpu != summary.rank:
        yield Finding(
            rule="MG604",
            severity=Severity.ERROR,
            message=(
                f"the files are named for rank {summary.rank}, and their event ids are those "
                f"of rank {summary.gpu}"
            ),
            location=summary.gpu_at,
            hint=f"put rank {summary.rank}'s own files there",
            related=(summary.start("the CUDA file beside it"),),
            rank=summary.rank,
        )
    elif world is not None and summary.rank >= world:
        yield Finding(
            rule="MG604",
            severity=Severity.ERROR,
            message=(
                f"there is no rank {summary.rank}: the kernel was made for {plural(world, 'rank')}"
            ),
            location=summary.start(),
            hint="emit all ranks again, together",
            rank=summary.rank,
        )


def _missing(ranks: Ranks) -> Iterator[Finding]:
    numbers = {summary.rank for summary in ranks.summaries}
    first, last, count, world = min(numbers), max(numbers), len(numbers), ranks.world_size
    if last + 1 - first > count:
        severity, missing = Severity.ERROR, set(range(first, last)) - numbers
        of = f"ranks {first} to {last}"
    elif world is not None and count < world:
        # One host's share: as many ranks on each host, in one block.
        share = world % count == 0 and first % count == 0
        severity, missing = Severity.NOTE if share else Severity.ERROR, set(range(world)) - numbers
        of = str(world)
    else:
        return
    at = ranks.audited[0] if ranks.audited else ranks.summaries[0]
    few = len(missing) == 1
    yield Finding(
        rule="MG604",
        severity=severity,
        message=(
            f"{_ranks(missing)} of {of} {'is' if few else 'are'} not here: nothing was proven "
            f"of {'it' if few else 'them'}"
        ),
        location=at.start(),
        hint="audit every rank, or join the hosts' summaries with `mirage-gate merge`",
        rank=at.rank,
    )


# --- MG605 -----------------------------------------------------------------------------


def _shapes(summary: Summary) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (shape.layer, shape.operators, shape.tasks, shape.events) for shape in summary.layers
    )


@rule(
    "MG605",
    "event-layout-differs",
    Severity.WARNING,
    "The events of one rank join its tasks otherwise than on the others.",
    why="""
        A trigger that goes to another rank names an event by its position there. Ranks
        whose events are laid out alike can be sure that it is the one that was meant.
    """,
    example="In layer 2, rank 1's all-reduce waits for 16 events, rank 0's for 32.",
    fix="Emit all ranks again with one builder.",
    limits="The rank in an event's id is no difference.",
    scope="ranks",
)
def event_layout_differs(ranks: Ranks) -> Iterator[Finding]:
    found = _odd_ones(ranks, _shapes)
    if found is None:
        return
    usual, _ = found
    for summary in ranks.audited:
        if _shapes(summary) == _shapes(usual) or summary.events_at is None:
            continue
        theirs = {shape.layer: shape for shape in usual.layers}
        mine = {shape.layer: shape for shape in summary.layers}
        layers = [n for n in {**theirs, **mine} if mine.get(n) != theirs.get(n)]
        if not layers:
            continue
        first = layers[0]
        more = f" and in {plural(len(layers) - 1, 'other')}" if len(layers) > 1 else ""
        where = "outside of the layers" if first is None else f"in layer {first}"
        yield Finding(
            rule="MG605",
            severity=Severity.WARNING,
            message=(
                f"{where}{more}, rank {summary.rank} has {_shape(mine.get(first))}, rank "
                f"{usual.rank} {_shape(theirs.get(first), mine.get(first))}"
            ),
            location=summary.events_at,
            hint="emit all ranks again with one builder",
            related=(usual.events_at.saying(f"rank {usual.rank}'s events"),)
            if usual.events_at
            else (),
            rank=summary.rank,
        )


def _shape(shape: LayerShape | None, other: LayerShape | None = None) -> str:
    if shape is None:
        return "nothing"
    size = f"{plural(shape.operators, 'operator')} and {plural(shape.tasks, 'task')}"
    if other and (shape.operators, shape.tasks) == (other.operators, other.tasks):
        return "the same, joined by other events"
    return size


# --- MG606 -----------------------------------------------------------------------------


@rule(
    "MG606",
    "remote-triggers",
    Severity.ERROR,
    "An event gets more or fewer triggers from the other ranks than it waits for.",
    why="""
        An event that other ranks trigger counts what arrives from all of them. Too few, and
        the tasks behind it never start: every rank hangs. Too many, and they start early,
        earlier in each iteration.
    """,
    example="Event 40 of rank 2 waits for 12 triggers; ranks 0, 1 and 3 send 8.",
    fix="Emit all ranks again with one builder; the triggers follow from the number of ranks.",
    limits="Only where all ranks of the kernel are audited together, or merged.",
    scope="ranks",
)
def remote_triggers(ranks: Ranks) -> Iterator[Finding]:
    if not ranks.complete or len(ranks.audited) < 2:
        return
    arriving: dict[int, Counter[int]] = defaultdict(Counter)
    for summary in ranks.audited:
        for sent in summary.sent:
            for position in range(sent.first, sent.last + 1):
                arriving[sent.gpu][position] += sent.count
    for summary in ranks.audited:
        arrived = arriving[summary.rank]
        wrong: list[tuple[int, int, int, Location]] = []
        for awaited in summary.awaited:
            for position in range(awaited.first, awaited.last + 1):
                got = arrived.pop(position, 0) + awaited.local
                if got != awaited.triggers:
                    wrong.append((position, awaited.triggers, got, awaited.at))
        if wrong:
            position, triggers, got, at = wrong[0]
            more = f" ({plural(len(wrong), 'event')} in all)" if len(wrong) > 1 else ""
            yield Finding(
                rule="MG606",
                severity=Severity.ERROR,
                message=(
                    f"event {position} of rank {summary.rank} waits for "
                    f"{plural(triggers, 'trigger')} and gets {got} from all ranks{more}"
                ),
                location=at,
                hint="emit all ranks again with one builder",
                rank=summary.rank,
            )
        astray = sorted(arrived)
        if astray and summary.events_at is not None:
            yield Finding(
                rule="MG606",
                severity=Severity.ERROR,
                message=(
                    f"other ranks trigger event {astray[0]} of rank {summary.rank}"
                    f"{f' and {len(astray) - 1} more' if len(astray) > 1 else ''}, which waits "
                    "for no other rank"
                ),
                location=summary.events_at,
                hint="emit all ranks again with one builder",
                rank=summary.rank,
            )
