"""Files: graphs that break the schema or are no JSON, halves of two builds."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject


@defect("MG901")
def required_field_missing(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task, tensor or event lacks a field that the loader reads."""
    for use in mixed(rng, subject.uses):
        what = rng.choice(["task", "tensor", "event"])
        draft = Draft(subject)
        if what == "task":
            field = rng.choice(
                ["task_type", "variant_id", "inputs", "outputs", "trigger_event", "dependent_event"]
            )
            del draft.task(use.task)[field]
            draft.at(use.task)
        elif what == "tensor":
            field = rng.choice(["base_ptr", "offset", "data_type", "dims", "strides"])
            del draft.slot(use.task, use.side, use.slot)[field]
        else:
            number = rng.randrange(len(draft.events))
            field = rng.choice(["event_type", "num_triggers", "first_task_id", "last_task_id"])
            del draft.event(number)[field]
        draft.note = f"{what} of task {use.task} lacks {field}"
        yield draft.mutant()


@defect("MG901")
def value_of_the_wrong_type(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A number is a string, a list an object, an offset negative, an id beyond 64 bits."""
    wrong: dict[str, list[Any]] = {
        "offset": ["0", -2, 1.5, None, True, 2**63, [0]],
        "dims": ["8", {"0": 8}, [8, "8"], [-1], None, [8.5]],
        "strides": ["8", {}, [[1]], [-8], None],
        "data_type": ["bf16", -1, None, 1.5],
        "base_ptr": [0, None, ["x"], True],
    }
    for use in mixed(rng, subject.uses):
        field = rng.choice(list(wrong))
        draft = Draft(subject, f"task {use.task} {use.side} {use.slot}: {field} of the wrong type")
        draft.slot(use.task, use.side, use.slot)[field] = rng.choice(wrong[field])
        draft.at(use.task, use.side, use.slot, field)
        at = draft.mutant()
        # A list's element stands on a line of its own, after the field's.
        places = at.places | {("graph", line + i) for _, line in at.places for i in (1, 2)}
        yield Mutant(at.cuda, at.graph, places, at.what)


@defect("MG901")
def task_field_of_the_wrong_type(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task's number is no integer that the loader could read."""
    fields = ("task_type", "variant_id", "trigger_event", "dependent_event", "request_id")
    for number in mixed(rng, range(len(subject.tasks))):
        field = rng.choice(fields)
        if field not in subject.tasks[number]:
            continue
        draft = Draft(subject, f"task {number}: {field} of the wrong type")
        draft.task(number)[field] = rng.choice(["1", 1.5, None, [1], -(2**40), 2**70, {}, False])
        draft.at(number, field)
        yield draft.mutant()


@defect("MG902")
def brackets_that_stay_open(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A parenthesis or a bracket of the `.cu` is opened once more than it is closed."""
    ends = [found.end() for found in re.finditer(r";\n", subject.cuda)]
    text = Draft(subject).text()
    for at in mixed(rng, [*ends, len(subject.cuda)]):
        bracket = rng.choice("([") * rng.choice([1, 1, 1, 100])
        line = subject.cuda.count("\n", 0, at) + 1
        cuda = subject.cuda[:at] + bracket + subject.cuda[at:]
        yield Mutant(cuda, text, frozenset({("cuda", line)}), what=f"{bracket[:3]} on line {line}")


@defect("MG902", "MG901")
def graph_truncated(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The graph ends somewhere in the middle."""
    text = Draft(subject).text()
    for _ in range(20):
        yield Mutant(subject.cuda, text[: rng.randrange(len(text) - 1)], what="truncated")


@defect("MG9", "MG1")
def graph_is_no_json(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One character too many, too few or another: no JSON any more, or one with a wrong name.

    A wrong name where what was put in stands before a quote that closes a string.
    """
    text = Draft(subject).text()
    for _ in range(20):
        at = text.index('"', rng.randrange(len(text) // 2))
        before, after = text[:at], text[at:]
        broken: list[str | bytes] = [
            before + "," + after,
            before + "NaN " + after,
            before + after[1:],
            text + "]",
            text.replace("\n", "\n// a comment\n", 1),
            text.replace('"all_tasks": [', '"all_tasks": [,', 1),
            text.replace("]", ",]", 1),
            text.encode() + b"\xff",
            text.replace('"', "'", 2),
        ]
        yield Mutant(subject.cuda, rng.choice(broken), what="no JSON")


@defect("MG904")
def loader_insists_on_a_field(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The `.cu` is of a newer build: its loader wants a field that no task has."""
    if "task.at(" not in subject.cuda:
        return
    for field in ("priority", "task_offset2", "smem_bytes"):
        draft = Draft(subject, f"the loader insists on {field}")
        draft.sub(
            r'^(.*task\.at\("trigger_event"\).*)$',
            rf'\g<1>\n    x = task.at("{field}").get<int>();',
        )
        draft.places.add(("cuda", draft.cuda_line(f'task.at("{field}")')))
        yield draft.mutant()


@defect("MG904", "MG901")
def graph_lacks_a_field_that_the_loader_wants(
    subject: Subject, rng: random.Random
) -> Iterator[Mutant]:
    """One task lacks a metadata field that the loader reads with `at`, which throws."""
    for field in mixed(rng, ("request_id", "kv_idx", "merge_task_offset", "expert_offset")):
        if f'task.at("{field}")' not in subject.cuda:
            continue
        number = rng.randrange(2, len(subject.tasks))
        draft = Draft(subject, f"task {number} lacks {field}")
        del draft.task(number)[field]
        draft.places.add(("cuda", draft.cuda_line(f'task.at("{field}")')))
        yield draft.mutant()


@defect("MG901")
def top_level_broken(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One of the three lists is missing, or is none."""
    graph = Draft(subject).graph()
    for key in mixed(rng, graph):
        values: tuple[Any, ...] = (None, {}, "[]", ...)
        for value in values:
            broken = {k: v for k, v in graph.items() if k != key}
            if value is not ...:
                broken[key] = value
            yield Mutant(subject.cuda, json.dumps(broken, indent=2), what=f"{key} is {value!r}")


@defect("MG902", "MG905", "MG1")
def cuda_of_another_kind(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The `.cu` is empty, declares nothing, or is cut off in the middle of its declarations."""
    text = Draft(subject).text()
    declarations = subject.cuda.index('all_tensors["')
    first_half = (declarations + subject.cuda.index("_execute_task")) // 2
    for cuda in ("", "\n", subject.cuda[:declarations], subject.cuda[:first_half]):
        yield Mutant(cuda, text, what=f"the .cu has {len(cuda)} characters")


@defect("MG1", "MG2", "MG5")
def cuda_of_another_model(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The `.cu` is of a build with fewer layers: names are missing, and branches may be."""
    from .subjects import MODELS

    if subject.name not in MODELS or subject.layers < 3:
        return
    model = MODELS[subject.name]()
    for layers in (1, 2):
        from dataclasses import replace

        other = replace(model, layers=layers).emit(subject.rank)
        yield Mutant(other.cuda_text(), Draft(subject).text(), what=f"the .cu of {layers} layers")
