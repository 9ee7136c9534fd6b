"""Events: counts, ranges, ids, and the frame that the runtime assumes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import INVALID, Subject, position


def _inner(subject: Subject) -> range:
    """The events that are neither the frame's nor the end."""
    return range(2, len(subject.events) - 1)


@defect("MG401", "MG403")
def one_trigger_more(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An event wants one trigger more than there are: who waits for it never starts."""
    for number in mixed(rng, (*_inner(subject), len(subject.events) - 1)):
        draft = Draft(subject, f"event {number} wants one trigger more")
        draft.event(number)["num_triggers"] += 1
        draft.at_event(number, "num_triggers")
        yield draft.mutant()


@defect("MG401", "MG403")
def one_trigger_less(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An event wants one trigger less: who waits for it starts early, every iteration earlier."""
    for number in mixed(rng, (*_inner(subject), len(subject.events) - 1)):
        draft = Draft(subject, f"event {number} wants one trigger less")
        draft.event(number)["num_triggers"] -= 1
        draft.at_event(number, "num_triggers")
        yield draft.mutant()


@defect("MG4")
def triggers_counted_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An event wants twice the triggers there are: what the newer emitter does to MoE joins."""
    for number in mixed(rng, _inner(subject)):
        draft = Draft(subject, f"event {number} counts its triggers twice")
        draft.event(number)["num_triggers"] *= 2
        draft.at_event(number, "num_triggers")
        yield draft.mutant()


@defect("MG4", "MG3")
def task_triggers_another_event(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task triggers another event: one gets a trigger too few, the other one too many."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        own = subject.trigger(number)
        other = rng.choice([e for e in range(2, len(subject.events)) if e != own])
        draft = Draft(subject, f"task {number} triggers event {other}, not {own}")
        task = draft.task(number)
        task["trigger_event"] = task["trigger_event"] - own + other
        draft.at_event(own, "num_triggers")
        draft.at_event(other, "num_triggers")
        yield draft.mutant()


@defect("MG4")
def task_triggers_nothing(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task triggers no event: its event never fires."""
    for number in mixed(rng, range(1, len(subject.tasks))):
        draft = Draft(subject, f"task {number} triggers nothing")
        draft.task(number)["trigger_event"] = INVALID
        yield draft.mutant()


@defect("MG4", "MG3")
def task_waits_for_another_event(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task's dependent event is not the one whose range it is in."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        task = subject.tasks[number]
        if task["dependent_event"] == INVALID:
            continue
        own = subject.dependent(number)
        other = rng.choice([e for e in _inner(subject) if e != own])
        draft = Draft(subject, f"task {number} waits for event {other}, not {own}")
        draft.task(number)["dependent_event"] = task["dependent_event"] - own + other
        draft.at(number, "dependent_event")
        yield draft.mutant()


@defect("MG4")
def task_waits_for_nothing(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task in an event's range waits for no event: it runs at once."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        if subject.tasks[number]["dependent_event"] == INVALID:
            continue
        draft = Draft(subject, f"task {number} waits for nothing")
        draft.task(number)["dependent_event"] = INVALID
        draft.at(number, "dependent_event")
        yield draft.mutant()


@defect("MG4")
def task_waits_for_its_own_future(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task waits, range and all, for an event that only fires after it: a cycle, a stall."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        task = subject.tasks[number]
        if task["dependent_event"] == INVALID:
            continue
        own, fires = subject.dependent(number), subject.trigger(number)
        later = [e for e in _inner(subject) if subject.after[fires] >> e & 1]
        if not later:
            continue
        event = rng.choice(later)
        draft = Draft(subject, f"task {number} waits for event {event}, which it leads to")
        draft.task(number)["dependent_event"] = task["dependent_event"] - own + event
        draft.relayout()
        yield draft.mutant()


@defect("MG404")
def range_shifted_alone(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An event's range takes in a task that waits for another event, or leaves one out."""
    for number in mixed(rng, _inner(subject)):
        draft = Draft(subject, f"the range of event {number} is off by one")
        event = draft.event(number)
        field, step = rng.choice([("first_task_id", 1), ("first_task_id", -1), ("last_task_id", 1)])
        event[field] += step
        if not 2 <= event["first_task_id"] < event["last_task_id"] <= len(subject.tasks):
            continue
        yield draft.mutant()


@defect("MG4")
def range_past_the_last_task(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An event launches tasks that are not there."""
    for number in mixed(rng, _inner(subject)):
        draft = Draft(subject, f"the range of event {number} runs past the tasks")
        event = draft.event(number)
        event["last_task_id"] = len(subject.tasks) + rng.choice([1, 7, 2**30])
        yield draft.mutant()


@defect("MG405", "MG4")
def event_id_out_of_range(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task names an event that is not there."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        field = rng.choice(["trigger_event", "dependent_event"])
        value = subject.tasks[number][field]
        if value == INVALID:
            continue
        draft = Draft(subject, f"task {number}: {field} is out of range")
        wrong = len(subject.events) + rng.choice([0, 1, 1000])
        draft.task(number)[field] = value - position(value) + wrong
        draft.at(number, field)
        yield draft.mutant()


@defect("MG405", "MG4")
def event_id_of_another_gpu(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task's event carries another rank's bits, and no NVSHMEM tag."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        field = rng.choice(["trigger_event", "dependent_event"])
        value = subject.tasks[number][field]
        if value == INVALID or value >> 48:
            continue
        draft = Draft(subject, f"task {number}: {field} has another gpu's bits")
        draft.task(number)[field] = value + (1 << 32)
        draft.at(number, field)
        yield draft.mutant()


@defect("MG405", "MG4")
def nvshmem_tag_where_none_belongs(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task that talks to no other rank triggers an event with the NVSHMEM tag."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        value = subject.tasks[number]["trigger_event"]
        if value == INVALID or value >> 48:
            continue
        draft = Draft(subject, f"task {number}: an NVSHMEM tag")
        draft.task(number)["trigger_event"] = value | 0x1E00 << 48
        draft.at(number, "trigger_event")
        yield draft.mutant()


@defect("MG406", "MG4")
def frame_broken(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Tasks 0 and 1 or events 0, 1 and the last are not what the runtime assumes."""
    last = len(subject.events) - 1

    def changes() -> list[tuple[str, str, int, str, int]]:
        return [
            ("task 0 is no TERMINATE", "task", 0, "task_type", 10),
            ("task 0 triggers the end", "task", 0, "trigger_event", subject.rank << 32 | last),
            ("task 1 is no BEGIN", "task", 1, "task_type", 0),
            ("task 1 triggers event 2", "task", 1, "trigger_event", subject.rank << 32 | 2),
            ("task 1 triggers nothing", "task", 1, "trigger_event", INVALID),
            ("event 0 is EMPTY", "event", 0, "event_type", 900),
            ("event 1 is EMPTY", "event", 1, "event_type", 900),
            ("event 1 ends early", "event", 1, "last_task_id", len(subject.tasks) - 1),
            ("event 1 begins late", "event", 1, "first_task_id", 3),
            ("event 1 begins early", "event", 1, "first_task_id", 1),
            ("event 1 wants two triggers", "event", 1, "num_triggers", 2),
            ("the last event is EMPTY", "event", last, "event_type", 900),
            ("the last event is a termination", "event", last, "event_type", 911),
            ("an inner event is the end", "event", last // 2, "event_type", 910),
            ("an inner event is a launch", "event", last // 2, "event_type", 902),
        ]

    for what, kind, number, field, value in mixed(rng, changes()):
        draft = Draft(subject, what)
        element = draft.task(number) if kind == "task" else draft.event(number)
        element[field] = value
        yield draft.mutant()


@defect("MG4")
def end_event_missing(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The last event is gone; the tasks still trigger it."""
    draft = Draft(subject, "the end is gone")
    draft.events.pop()
    yield draft.mutant()


@defect("MG4")
def first_task_forgotten(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task that no event launches is not among the first tasks either."""
    for number in mixed(rng, subject.first_tasks):
        draft = Draft(subject, f"task {number} is no first task")
        draft.first_tasks.remove(number)
        yield draft.mutant()


@defect("MG4")
def first_task_that_waits(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task that an event launches is among the first tasks, too."""
    for number in mixed(rng, set(range(2, len(subject.tasks))) - set(subject.first_tasks)):
        draft = Draft(subject, f"task {number} is a first task as well")
        draft.first_tasks.append(number)
        yield draft.mutant()


@defect("MG406", "MG4")
def first_task_named_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A first task stands in the list a second time: it would run twice."""
    for number in mixed(rng, subject.first_tasks):
        draft = Draft(subject, f"task {number} is a first task twice")
        draft.first_tasks.insert(rng.randrange(len(draft.first_tasks) + 1), number)
        yield draft.mutant()


@defect("MG409", "MG4")
def waits_with_the_wrong_tag(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task waits for other ranks' signals as for its own tasks, or the other way round."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        value = subject.tasks[number]["dependent_event"]
        if value == INVALID:
            continue
        draft = Draft(subject, f"task {number} waits the wrong way")
        draft.task(number)["dependent_event"] = value ^ 0x1E00 << 48
        draft.at(number, "dependent_event")
        yield draft.mutant()


@defect("MG408", "MG4")
def producer_behind_all_that_wait(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The first tasks have the last ids: more tasks than workers wait in front of them."""
    first, count = sorted(subject.first_tasks), len(subject.tasks)
    if first != list(range(2, 2 + len(first))) or count - len(first) < 600:
        return
    draft = Draft(subject, "the first tasks are the last")
    shift = len(first)
    draft.tasks[2:] = [*draft.tasks[2 + shift :], *draft.tasks[2 : 2 + shift]]
    draft.first_tasks = list(range(count - shift, count))
    for number, event in enumerate(subject.events):
        if number > 1 and event["first_task_id"] < event["last_task_id"]:
            moved = draft.event(number)
            moved["first_task_id"] -= shift
            moved["last_task_id"] -= shift
    yield draft.mutant()
