"""Order: graphs whose counts, ids and ranges all agree, and in which a race is left.

Each of these leaves a pair of tasks that touch the same bytes, one of them writing, with no path
of events between them; the pair is looked for before the change is made.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import INVALID, REPEATED, Subject, Use, overlap


def _providers(subject: Subject, use: Use) -> list[Use]:
    """Exact writes of other operators, ordered before `use`, of bytes that it reads."""
    return [
        other
        for other in subject.by_name[use.name]
        if other.writes
        and other.exact
        and other.operator != use.operator
        and overlap(other.runs, use.runs)
        and subject.after[subject.trigger(other.task)] >> subject.dependent(use.task) & 1
    ]


def _free_of(subject: Subject, writer: int, reader: int) -> list[int]:
    """Events that the reader could wait for without coming after the writer, and no cycle made.

    Event 1 and those that no path leads to from the writer's; none that the reader leads to.
    """
    fires, ends = subject.trigger(writer), subject.trigger(reader)
    return [
        event
        for event in range(2, len(subject.events) - 1)
        if not subject.after[fires] >> event & 1
        and not subject.after[ends] >> event & 1
        and event != subject.dependent(reader)
    ]


def _readers(subject: Subject) -> list[Use]:
    return [
        u
        for u in subject.uses
        if u.reads
        and not u.writes
        and u.exact
        and subject.storage[u.name] in ("scratch", "symmetric")
        and subject.tasks[u.task]["dependent_event"] != INVALID
    ]


@defect("MG3")
def task_waits_for_an_earlier_event(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A reader waits, consistently, for an event that does not come after its writer."""
    for use in mixed(rng, _readers(subject)):
        writers = _providers(subject, use)
        writers = [w for w in writers if subject.trigger(w.task) == subject.dependent(use.task)]
        if not writers:
            continue
        events = _free_of(subject, writers[0].task, use.task)
        if not events:
            continue
        event = rng.choice(events)
        draft = Draft(subject, f"task {use.task} no longer waits for task {writers[0].task}")
        task = draft.task(use.task)
        task["dependent_event"] += event - subject.dependent(use.task)
        draft.relayout()
        yield draft.mutant()


@defect("MG3")
def range_shifted_by_one_task(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The border between two events moves by one task, and the task's id with it.

    The task then waits for the neighbour's event, which does not come after one of its writers.
    """
    for number in mixed(rng, range(2, len(subject.events) - 2)):
        one, two = subject.events[number], subject.events[number + 1]
        if one["last_task_id"] != two["first_task_id"]:
            continue
        for task, event in ((two["first_task_id"], number), (one["last_task_id"] - 1, number + 1)):
            own = subject.dependent(task)
            if own == event:
                continue
            writers = [
                w
                for u in subject.by_task.get(task, ())
                if u.reads and u.exact and subject.storage[u.name] in ("scratch", "symmetric")
                for w in _providers(subject, u)
            ]
            lost = [w for w in writers if not subject.after[subject.trigger(w.task)] >> event & 1]
            if not lost or subject.after[subject.trigger(task)] >> event & 1:
                continue
            draft = Draft(subject, f"task {task} waits for event {event} of its neighbours")
            draft.task(task)["dependent_event"] += event - own
            low, high = draft.event(number), draft.event(number + 1)
            border = task + 1 if event == number else task
            low["last_task_id"] = high["first_task_id"] = border
            yield draft.mutant()


@defect("MG3")
def trigger_moved_with_its_counts(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A writer triggers a later event, counts set right: its reader no longer waits for it."""
    for use in mixed(rng, _readers(subject)):
        writers = _providers(subject, use)
        writers = [w for w in writers if subject.trigger(w.task) == subject.dependent(use.task)]
        writers = [w for w in writers if w.code != REPEATED]  # its siblings do the same
        if not writers:
            continue
        writer = rng.choice(writers).task
        own = subject.trigger(writer)
        # Later than the reader, so that no path leads from it to the reader, and none is a cycle.
        later = [
            e
            for e in range(2, len(subject.events))
            if subject.after[subject.trigger(use.task)] >> e & 1
        ]
        if not later or subject.events[own]["num_triggers"] < 2:
            continue
        event = rng.choice(later)
        if subject.tasks[writer]["trigger_event"] >> 48:
            continue
        draft = Draft(
            subject, f"task {writer} triggers event {event}, too late for task {use.task}"
        )
        draft.task(writer)["trigger_event"] += event - own
        draft.event(own)["num_triggers"] -= 1
        draft.event(event)["num_triggers"] += 1
        yield draft.mutant()


@defect("MG3")
def operator_waits_for_nothing_new(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """All tasks of an operator wait, consistently, for an event before their writers'."""
    for tasks in mixed(rng, subject.operators()):
        reads = [
            u
            for t in tasks
            for u in subject.by_task[t]
            if u.reads and not u.writes and u.exact and subject.storage[u.name] == "scratch"
        ]
        pairs = [(u, w) for u in reads for w in _providers(subject, u)]
        pairs = [(u, w) for u, w in pairs if subject.trigger(w.task) == subject.dependent(u.task)]
        if not pairs:
            continue
        use, writer = rng.choice(pairs)
        events = [
            e
            for e in _free_of(subject, writer.task, use.task)
            if not any(subject.after[subject.trigger(t)] >> e & 1 for t in tasks)
        ]
        if not events:
            continue
        event = max(events)
        draft = Draft(subject, f"the operator of task {tasks[0]} waits for event {event}")
        for task in tasks:
            changed = draft.task(task)
            changed["dependent_event"] += event - subject.dependent(task)
        draft.relayout()
        yield draft.mutant()


@defect("MG301", "MG302", "MG303", "MG3")
def buffer_reused_too_early(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A writer waits for an event that does not come after a reader of what it overwrites.

    It still comes after its own operands' writers, so that only the reuse is a race.
    """
    for use in mixed(rng, [u for u in subject.uses if u.writes and u.exact]):
        if subject.tasks[use.task]["dependent_event"] == INVALID:
            continue
        own = subject.dependent(use.task)
        readers = [
            o
            for o in subject.by_name[use.name]
            if o.reads
            and o.exact
            and o.operator != use.operator
            and overlap(o.runs, use.runs)
            and subject.after[subject.trigger(o.task)] >> own & 1
        ]
        if not readers:
            continue
        reader = max(readers, key=lambda o: o.task)
        events = [
            e for e in range(2, own) if not subject.after[subject.trigger(reader.task)] >> e & 1
        ]
        if not events:
            continue
        draft = Draft(
            subject, f"task {use.task} writes {use.name} before task {reader.task} read it"
        )
        draft.task(use.task)["dependent_event"] += max(events) - own
        draft.relayout()
        yield draft.mutant()


@defect("MG304", "MG4")
def task_leads_nowhere(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task triggers an event that nobody waits for: END does not wait for the task."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        own = subject.trigger(number)
        if subject.events[own]["num_triggers"] < 2 or subject.tasks[number]["trigger_event"] >> 48:
            continue
        draft = Draft(subject, f"task {number} leads nowhere")
        draft.event(own)["num_triggers"] -= 1
        # A new event before the last one, which moves up by one.
        end = len(draft.events) - 1
        new = {"event_type": 900, "first_task_id": 0, "last_task_id": 0, "num_triggers": 1}
        draft.events.insert(end, new)
        for task in range(2, len(draft.tasks)):
            if task != number and subject.trigger(task) == end:
                draft.task(task)["trigger_event"] += 1
        draft.task(number)["trigger_event"] += end - own
        yield draft.mutant()


@defect("MG3", "MG702")
def steps_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two operators in a row exchange their outputs' buffer: the reader gets the wrong one.

    The first operator's output and the second's input name another scratch buffer of the layer,
    which at that time still holds, or already holds, something else. Where rows are picked at
    run time no byte can be proven; there MG702 says that no task wrote the buffer before.
    """
    for (operator, side, slot), uses in mixed(rng, subject.by_operator_slot.items()):
        use = uses[0]
        if side != "inputs" or use.writes or not use.exact:
            continue
        if subject.storage[use.name] != "scratch" or len(uses) > 256:
            continue
        later = [
            other.name
            for other in subject.uses
            if other.operator > operator
            and other.writes
            and other.exact
            and other.name != use.name
            and subject.storage[other.name] == "scratch"
            and subject.nbytes(other.name) == subject.nbytes(use.name)
        ]
        never_before = [
            name
            for name in dict.fromkeys(later)
            if not any(o.writes and o.operator < operator for o in subject.by_name[name])
        ]
        if not never_before:
            continue
        name = rng.choice(never_before)
        draft = Draft(subject, f"operator of task {use.task} reads {name}, which is written later")
        for use in uses:
            draft.slot(use.task, side, slot)["base_ptr"] = name
        yield draft.mutant()
