"""Values: every byte written, every tensor read, all in order, and the wrong value in its place."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject, Use

_NORMS = frozenset({119, 154})
_ATTENTION = frozenset({103, 116, 153, 257})
_PARTS = frozenset({164, 263})
_PICKS = frozenset({249, 255, 162, 248, 254, 161})


def _whole(uses: list[Use]) -> tuple[int, ...]:
    """The strides of a whole tensor, where all its tiles say the same; else none."""
    strides = {use.tile[2] for use in uses}
    return next(iter(strides)) if len(strides) == 1 else ()


@defect("MG2", "MG1", "MG7")
def norm_passed_by(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Who reads a norm's result reads what the norm reads, so that it normalises for nobody."""
    for tasks in mixed(rng, [t for t in subject.operators() if subject.by_task.get(t[0])]):
        first = subject.by_task[tasks[0]]
        if first[0].code not in _NORMS:
            continue
        given = next(u for u in first if u.reads and u.side == "inputs")
        made = next(u for u in first if u.writes)
        every = [u for n in (given.name, made.name) for u in subject.by_name[n]]
        if given.name == made.name or not _whole(every):
            continue
        # From here to who writes the buffer next, in the order of the tasks.
        later = [u for u in subject.by_name[made.name] if u.task > tasks[-1]]
        until = min((u.task for u in later if u.writes), default=1 << 60)
        readers = [u for u in later if u.reads and u.task < until]
        if not readers:
            continue
        draft = Draft(subject, f"the norm of task {tasks[0]} is passed by")
        for use in readers:
            draft.slot(use.task, use.side, use.slot)["base_ptr"] = given.name
        for task in tasks:
            draft.at(task, "outputs", made.slot, "base_ptr")
        yield draft.mutant()


@defect("MG104", "MG211")
def attention_of_one_layer_that_goes_nowhere(
    subject: Subject, rng: random.Random
) -> Iterator[Mutant]:
    """The projection behind attention reads what attention reads, in a layer of several."""
    layers = [t for t in subject.operators() if subject.tasks[t[0]]["task_type"] in _ATTENTION]
    for tasks in mixed(rng, layers) if len(layers) > 1 else ():
        first = subject.by_task[tasks[0]]
        made = next(u for u in first if u.side == "outputs" and u.writes)
        given = next(u for u in first if u.side == "inputs" and u.reads and not u.writes)
        later = [u for u in subject.by_name[made.name] if u.task > tasks[-1]]
        until = min((u.task for u in later if u.writes), default=1 << 60)
        readers = [u for u in later if u.reads and u.task < until]
        draft = Draft(subject, f"nobody reads what tasks {tasks[0]} to {tasks[-1]} attend to")
        for use in readers:
            draft.slot(use.task, use.side, use.slot)["base_ptr"] = given.name
        for task in tasks:
            draft.at(task, "outputs", made.slot, "base_ptr")
        draft.declared(made.name)
        yield draft.mutant()


@defect("MG2", "MG7", "MG5")
def part_that_nobody_makes(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The last part of a split attention is made where the first is, and merged all the same."""
    for tasks in mixed(rng, subject.operators()):
        if subject.tasks[tasks[0]]["task_type"] not in _PARTS:
            continue
        last = max(subject.tasks[task]["kv_idx"] for task in tasks)
        if not last:
            continue
        draft = Draft(subject, f"part {last} of tasks {tasks[0]} to {tasks[-1]}")
        by_head = {}
        for task in tasks:
            if subject.tasks[task]["kv_idx"] == 0:
                by_head[subject.tasks[task]["inputs"][1]["offset"]] = subject.tasks[task]
        for task in tasks:
            if subject.tasks[task]["kv_idx"] == last:
                changed = draft.task(task)
                changed["outputs"] = by_head[changed["inputs"][1]["offset"]]["outputs"]
        yield draft.mutant()


@defect("MG2", "MG3")
def picked_rows_of_an_operator_that_is_not_waited_for(
    subject: Subject, rng: random.Random
) -> Iterator[Mutant]:
    """An operator that picks its rows runs beside the one that fills them, not behind it."""
    for tasks in mixed(rng, subject.operators()):
        if subject.tasks[tasks[0]]["task_type"] not in _PICKS:
            continue
        event = subject.dependent(tasks[0])
        makers = [t for t in range(2, tasks[0]) if subject.trigger(t) == event]
        waits = {subject.dependent(maker) for maker in makers}
        if len(waits) != 1 or any(subject.dependent(t) != event for t in tasks):
            continue
        earlier = next(iter(waits))
        if earlier < 2 or earlier == event or not _fills(subject, makers, tasks):
            continue
        draft = Draft(subject, f"tasks {tasks[0]} to {tasks[-1]} wait for event {earlier}")
        for task in tasks:
            draft.task(task)["dependent_event"] += earlier - event
        draft.relayout()
        yield draft.mutant()


def _fills(subject: Subject, makers: list[int], tasks: list[int]) -> bool:
    """Whether tasks write, exactly, buffers that an operator reads."""
    read = {u.name for task in tasks for u in subject.by_task[task] if u.reads}
    return any(
        u.writes and u.exact and u.name in read
        for maker in makers
        for u in subject.by_task.get(maker, ())
    )


@defect("MG211", "MG703", "MG102")
def one_cache_for_two_layers(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Attention in one layer is given the caches of another: it writes over that one's rows."""
    caches = [t for t in subject.operators() if subject.tasks[t[0]]["task_type"] in (103, 116, 153)]
    for one in mixed(rng, caches):
        for other in mixed(rng, caches):
            if other is one:
                continue
            draft = Draft(subject, f"tasks {one[0]} to {one[-1]} take another layer's caches")
            for task in one:
                for slot in (1, 2):
                    like = subject.tasks[other[0]]["inputs"][slot]["base_ptr"]
                    draft.slot(task, "inputs", slot)["base_ptr"] = like
            yield draft.mutant()
            break
