"""Event ids that cannot be meant: another rank's, of no event, with a tag that nobody sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage_gate.artifacts.graph import NO_EVENT, NVSHMEM_TAG
from mirage_gate.facts.events import gpu_of, position_of, tag_of
from mirage_gate.rules._words import plural

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts


def bad_dependent(facts: RankFacts, event_id: int) -> str:
    """Say what is wrong with the id that a task waits for; nothing where it may be meant."""
    if event_id == NO_EVENT:
        return ""
    problem = _bad_anywhere(facts, event_id)
    if problem:
        return problem
    if gpu_of(event_id) != facts.events.gpu:
        return f"is rank {gpu_of(event_id)}'s, and this rank is {facts.events.gpu}"
    if not position_of(event_id):
        return "is event 0, the end of the kernel, which no task waits for"
    return ""  # whether a tag belongs there is MG409's question


def bad_trigger(facts: RankFacts, event_id: int, task_type: int) -> str:
    """Say what is wrong with the id that tasks of a type trigger; nothing where it may be meant."""
    if event_id == NO_EVENT:
        return ""
    problem = _bad_anywhere(facts, event_id)
    if problem:
        return problem
    gpu, own, ranks = gpu_of(event_id), facts.events.gpu, facts.cuda.world_size
    if not tag_of(event_id):
        if gpu != own:
            return f"is rank {gpu}'s without the NVSHMEM tag, and this rank is {own}"
        return "" if position_of(event_id) else "is event 0: triggering it ends the kernel"
    if not _sends(facts, task_type):
        return "has the NVSHMEM tag, and its task sends nothing: nobody ever triggers it"
    if gpu == own:
        return f"goes to rank {gpu} by NVSHMEM, which is this rank"
    if ranks and gpu >= ranks:
        return f"goes to rank {gpu}, and there are {ranks}"
    return ""


def _sends(facts: RankFacts, task_type: int) -> bool:
    """Whether a type may signal other ranks: it writes there, or nothing is known about it."""
    kind = facts.task_type(task_type)
    remote = any(slot.remote and slot.writes for slot in (*kind.inputs, *kind.outputs))
    return remote or not facts.knows(task_type)


def _bad_anywhere(facts: RankFacts, event_id: int) -> str:
    position, tag = position_of(event_id), tag_of(event_id)
    if tag not in (0, NVSHMEM_TAG):
        return f"has the tag 0x{tag:x}, which is none (0x{NVSHMEM_TAG:x} is NVSHMEM's)"
    if position >= facts.events.count:
        return f"has position {position}, and there are {plural(facts.events.count, 'event')}"
    return ""
