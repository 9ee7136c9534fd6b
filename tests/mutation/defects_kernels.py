"""Kernels: tasks without a branch, bodies without their slots, work done twice."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from .defects_wiring import branch_span
from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject, position


def _kernels(subject: Subject) -> dict[tuple[int, int], list[int]]:
    """The tasks of each (type, variant)."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, task in enumerate(subject.tasks[2:], 2):
        found.setdefault((task["task_type"], task["variant_id"]), []).append(number)
    return found


@defect("MG501")
def branch_removed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The branch of a (type, variant) that tasks select is gone: they do nothing."""
    for (code, variant), tasks in mixed(rng, _kernels(subject).items()):
        draft = Draft(subject, f"no branch for {code}, {variant}")
        start, end = branch_span(draft.cuda, code, variant)
        draft.cuda = draft.cuda[:start] + draft.cuda[end:]
        draft.at(tasks[0], "variant_id")
        yield draft.mutant()


@defect("MG501")
def branch_commented_out(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The branch is there to be read, in dead code or in a comment, and is never run."""
    for (code, variant), tasks in mixed(rng, _kernels(subject).items()):
        draft = Draft(subject, f"the branch for {code}, {variant} is no code")
        start, end = branch_span(draft.cuda, code, variant)
        before, after = rng.choice([("/* ", " */ "), ("\n#if 0\n", "\n#endif\n")])
        body = draft.cuda[start:end].replace("/*", "//").replace("*/", "")
        draft.cuda = draft.cuda[:start] + before + body + after + draft.cuda[end:]
        draft.at(tasks[0], "variant_id")
        yield draft.mutant()


@defect("MG501")
def variant_without_a_branch(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task selects a variant that the chain does not have."""
    for number in mixed(rng, range(2, len(subject.tasks))):
        draft = Draft(subject, f"task {number} selects a variant that is not there")
        draft.task(number)["variant_id"] = rng.choice([77, 1000, 2**31 - 1])
        draft.at(number, "variant_id")
        yield draft.mutant()


@defect("MG501", "MG5", "MG7")
def variant_of_a_sibling(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task selects another variant of its type, compiled for tiles of another shape.

    Only variants whose tasks have other dims, types or strides than this one has.
    """
    kernels = _kernels(subject)
    for number in mixed(rng, range(2, len(subject.tasks))):
        task = subject.tasks[number]
        others = [
            variant
            for (code, variant), tasks in kernels.items()
            if code == task["task_type"]
            and variant != task["variant_id"]
            and _shape(subject.tasks[tasks[0]]) != _shape(task)
        ]
        if others:
            draft = Draft(subject, f"task {number} selects its sibling's variant")
            draft.task(number)["variant_id"] = rng.choice(others)
            draft.at(number, "variant_id")
            yield draft.mutant()


def _shape(task: dict[str, Any]) -> list[Any]:
    return [
        [(t["data_type"], t["dims"]) for t in task[side] or []] for side in ("inputs", "outputs")
    ]


@defect("MG501")
def type_without_a_branch(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task is of a type for which the chain has no branch at all."""
    there = {code for code, _ in _kernels(subject)}
    for number in mixed(rng, range(2, len(subject.tasks))):
        draft = Draft(subject, f"task {number} is of a type without a branch")
        draft.task(number)["task_type"] = rng.choice(
            [code for code in (104, 112, 117, 121, 265, 282) if code not in there]
        )
        draft.at(number, "variant_id")
        yield draft.mutant()


@defect("MG502")
def slot_removed_that_the_body_reads(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task has one slot less than its body names."""
    for number in mixed(rng, subject.by_task):
        task = subject.tasks[number]
        named = {
            side: max(
                (
                    s
                    for x, s in subject.source.bodies[task["task_type"], task["variant_id"]]
                    if x == side
                ),
                default=-1,
            )
            for side in ("inputs", "outputs")
        }
        side = rng.choice(["inputs", "outputs"])
        if named[side] + 1 != len(task[side] or []) or not task[side]:
            continue
        draft = Draft(subject, f"task {number} has one slot less in {side}")
        slots = draft.task(number)[side]
        del slots[rng.randrange(len(slots))]
        draft.task(number)[side] = slots or None
        start, _ = branch_span(draft.cuda, task["task_type"], task["variant_id"])
        draft.places.add(("cuda", draft.cuda.count("\n", 0, start) + 1))
        yield draft.mutant()


@defect("MG502")
def body_names_a_slot_too_many(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A body reads a slot beyond those that its tasks have."""
    for (code, variant), tasks in mixed(rng, _kernels(subject).items()):
        arity = len(subject.tasks[tasks[0]]["inputs"] or [])
        if not 0 < arity < 7:
            continue
        draft = Draft(subject, f"the body of {code}, {variant} reads input {arity}")
        start, end = branch_span(draft.cuda, code, variant)
        arrow = "->" if "task_desc->" in draft.cuda[start:end] else "."
        at = draft.cuda.index("\n", start) + 1
        extra = f"      use(task_desc{arrow}input_ptrs[{arity}]);\n"
        draft.cuda = draft.cuda[:at] + extra + draft.cuda[at:]
        draft.places.add(("cuda", draft.cuda.count("\n", 0, start) + 1))
        yield draft.mutant()


@defect("MG506")
def slot_is_none_that_may_not_be(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A weight, an activation or a cache is nullptr in one task: the kernel reads address 0."""
    for use in mixed(rng, [u for u in subject.uses if not u.optional]):
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot} is nullptr")
        draft.task(use.task)[use.side][use.slot] = {
            "base_ptr": "nullptr",
            "data_type": 999,
            "dims": [],
            "offset": 0,
            "strides": [],
        }
        draft.at(use.task, use.side, use.slot, "base_ptr")
        yield draft.mutant()


@defect("MG506", "MG1", "MG2")
def name_is_nullptr_and_the_tile_is_left(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Only the name becomes nullptr; type, dims and offset stay: still address 0 (plus offset)."""
    for use in mixed(rng, [u for u in subject.uses if not u.optional]):
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot} names nullptr")
        draft.slot(use.task, use.side, use.slot)["base_ptr"] = "nullptr"
        draft.at(use.task, use.side, use.slot, "base_ptr")
        yield draft.mutant()


@defect("MG504")
def too_many_slots(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Eight inputs, or four outputs: the task descriptor has room for seven and three."""
    for number in mixed(rng, subject.by_task):
        side, most = rng.choice([("inputs", 7), ("outputs", 3)])
        if not subject.tasks[number][side]:
            continue
        draft = Draft(subject, f"task {number} has {most + 1} {side}")
        slots = draft.task(number)[side]
        while len(slots) <= most:
            slots.append(copy.deepcopy(slots[-1]))
        draft.at(number, side)
        yield draft.mutant()


@defect("MG504")
def dims_and_strides_of_different_length(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A tile has fewer dims than strides, or more."""
    for use in mixed(rng, [u for u in subject.uses if u.tile[1]]):
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot}: dims without strides")
        tensor = draft.slot(use.task, use.side, use.slot)
        field = rng.choice(["dims", "strides"])
        if rng.random() < 0.5 and len(tensor[field]) < 4:
            tensor[field].append(1)
        else:
            tensor[field].pop()
        draft.at(use.task, use.side, use.slot, "dims")
        yield draft.mutant()


@defect("MG504")
def five_dims(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A tile has five dims: the descriptor has room for four."""
    for use in mixed(rng, [u for u in subject.uses if u.tile[1]]):
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot} has five dims")
        tensor = draft.slot(use.task, use.side, use.slot)
        for field in ("dims", "strides"):
            tensor[field] = ([1] * 5 + tensor[field])[-5:]
        draft.at(use.task, use.side, use.slot, "dims")
        yield draft.mutant()


@defect("MG5", "MG3", "MG2", "MG7")
def task_done_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task stands twice, its copy counted and ranged as it should be: the work is done twice."""
    candidates = [
        n
        for n in subject.by_task
        if n not in subject.first_tasks and subject.tasks[n]["task_type"] not in (275, 301, 302)
    ]
    for number in mixed(rng, candidates):
        draft = Draft(subject, f"task {number} stands twice")
        twin = copy.deepcopy(draft.tasks[number])
        draft.tasks.insert(number + 1, twin)
        draft.event(position(twin["trigger_event"]))["num_triggers"] += 1
        draft.first_tasks = [f + (f > number) for f in draft.first_tasks]
        draft.relayout()
        yield draft.mutant()


@defect("MG5", "MG3", "MG2")
def chunk_of_a_sibling(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A split-KV task has the chunk number of its sibling: one chunk is read twice, one never."""
    for tasks in mixed(rng, subject.operators()):
        if subject.tasks[tasks[0]]["task_type"] not in (164, 269, 291):
            continue
        number = rng.choice(tasks)
        same = [
            n
            for n in tasks
            if subject.tasks[n]["inputs"] == subject.tasks[number]["inputs"]
            and subject.tasks[n]["request_id"] == subject.tasks[number]["request_id"]
            and subject.tasks[n]["kv_idx"] != subject.tasks[number]["kv_idx"]
        ]
        if not same:
            continue
        draft = Draft(subject, f"task {number} has the chunk of a sibling")
        other = subject.tasks[rng.choice(same)]
        fields = ("kv_idx", "merge_task_offset", "expert_offset", "task_offset", "request_id")
        for field in fields:
            if field in other:
                draft.task(number)[field] = other[field]
        for field in ("outputs",):
            draft.task(number)[field] = copy.deepcopy(other[field])
        yield draft.mutant()
