"""MG610: what the ranks put into each other's buffers overlaps, or leaves a slot unfilled."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import ranges_text
from mirage_gate.facts.transfers import Ranges, common, without
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.agreed.joining import Ranks
    from mirage_gate.agreed.summary import Collective, Summary

RULE = Rule(
    "MG610",
    "slots-overlap",
    Severity.ERROR,
    "What the ranks put into one buffer overlaps, or leaves bytes unfilled that are reduced.",
    why="""
        In an all-gather each rank puts its part into the slot that has its number, on every
        other rank; then each rank reduces all slots, its own part taken from where it was
        computed. A put into another's slot overwrites that part, and its own slot holds what
        the last iteration left there: the signals arrive all the same, and the sum is wrong.
    """,
    example="On rank 0, ranks 1 and 3 both fill bytes 98304..131071, and nobody 32768..65535.",
    fix="Let each rank's puts start at its number times the slot's size, to every other rank.",
    limits="""
        Slots left unfilled are found where all ranks are there. Ranks must run the same
        collectives (MG603).
    """,
    scope="ranks",
)

Calls = dict[int, "Collective"]
"""One collective, on every rank."""


@RULE.checked_by
def slots_overlap(ranks: Ranks) -> Iterator[Finding]:
    audited = ranks.audited
    lengths = {len(summary.collectives) for summary in audited}
    if len(audited) < 2 or len(lengths) != 1:
        return  # MG603 says it
    said: set[object] = set()
    for place in range(lengths.pop()):
        calls = {summary.rank: summary.collectives[place] for summary in audited}
        for tensor in sorted({put.tensor for call in calls.values() for put in call.puts}):
            read = {s.rank: _reduced(s, place, tensor) for s in audited}
            for mistake, finding in _mistakes(ranks, calls, tensor, read):
                if mistake not in said:  # the same in another layer
                    said.add(mistake)
                    yield finding


def _reduced(summary: Summary, place: int, tensor: str) -> Ranges:
    """Say what a rank reads next of what the others have put into its buffer."""
    later = (c.reads[tensor] for c in summary.collectives[place:] if tensor in c.reads)
    return next(later, ())


def _mistakes(
    ranks: Ranks, calls: Calls, tensor: str, read: dict[int, Ranges]
) -> Iterator[tuple[object, Finding]]:
    """Give what is wrong with one collective, one finding for each rank that does it."""
    count = ranks.world_size or len(calls)
    filled: dict[int, dict[int, Ranges]] = {rank: {} for rank in calls}
    for sender, call in calls.items():
        for put in call.puts:
            if put.tensor == tensor and put.gpu in filled:
                filled[put.gpu][sender] = put.ranges
    astray = {
        sender: (receiver, wrong)
        for receiver, by_sender in filled.items()
        for sender, ranges in by_sender.items()
        if (wrong := without(ranges, _slot(read[receiver], sender, count))) and read[receiver]
    }
    for sender, (receiver, wrong) in astray.items():
        also = [s for s in filled[receiver] if s != sender and common(wrong, filled[receiver][s])]
        slot = _slot(read[receiver], sender, count)
        text = (
            f"rank {sender} puts its part into {_text(wrong)} of {tensor} on rank {receiver}, "
            f"outside of its slot {sender} ({_text(slot)})"
        )
        if also:
            text += f": it overwrites what rank {also[0]} puts there"
        yield ("astray", sender, wrong), _finding(calls, tensor, sender, receiver, text, slot)
    for sender, (receivers, bytes_) in _missing(ranks, filled, read, count).items():
        if sender in astray:
            continue
        goes = sorted({put.gpu for put in calls[sender].puts if put.tensor == tensor})
        text = (
            f"rank {sender} puts nothing into {_text(bytes_)} of {tensor} on {_ranks(receivers)}, "
            f"which {'reduces' if len(receivers) == 1 else 'reduce'} what the last iteration left "
            f"there (its puts go to {_ranks(goes) if goes else 'no rank'})"
        )
        key = ("missing", sender, tuple(receivers), bytes_)
        slot = _slot(read[receivers[0]], sender, count)
        yield key, _finding(calls, tensor, sender, receivers[0], text, slot)


def _missing(
    ranks: Ranks, filled: dict[int, dict[int, Ranges]], read: dict[int, Ranges], count: int
) -> dict[int, tuple[list[int], Ranges]]:
    """Give, by rank, on whom its part is reduced and not there, and which bytes of it."""
    found: dict[int, tuple[list[int], Ranges]] = {}
    if not ranks.complete:
        return found
    for receiver, by_sender in filled.items():
        for sender in filled:
            slot = _slot(read[receiver], sender, count)
            left = without(slot, by_sender.get(sender, ()))
            if sender != receiver and left:
                found.setdefault(sender, ([], left))[0].append(receiver)
    return found


def _slot(read: Ranges, rank: int, count: int) -> Ranges:
    """Give a rank's slot: the buffer that is reduced has one for each, in their order."""
    if not read:
        return ()
    low, high = read[0][0], read[-1][1]
    size = (high - low) // count
    return ((low + rank * size, low + (rank + 1) * size),)


def _text(ranges: Ranges) -> str:
    return ranges_text(ranges[:4], len(ranges) > 4)


def _ranks(ranks: Collection[int]) -> str:
    return f"rank{'s' * (len(ranks) != 1)} {', '.join(map(str, ranks))}"


def _finding(calls: Calls, tensor: str, rank: int, other: int, text: str, slot: Ranges) -> Finding:
    layer = calls[rank].layer
    return RULE.finding(
        rank,
        text if layer is None else f"{text} (layer {layer})",
        calls[rank].at,
        hint=(
            f"in the builder, start rank {rank}'s put at byte {slot[0][0]} of {tensor} (its "
            "number times the slot's size), on every other rank"
        ),
        related=(calls[other].at.saying(f"rank {other}'s part of it"),),
        tensor=tensor,
    )
