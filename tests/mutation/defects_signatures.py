"""Signatures: tiles that do not belong together, kernels for something else, crossed parameters.

The table of operators and functions says where to put a defect, and nothing about whether it is
found: each slot's axis, each constant, each flag and each slot of every type in the table.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from mirage_gate.artifacts.cuda import Body, Branch, Call, Expression, parse
from mirage_gate.facts.signatures.kernels import KERNELS
from mirage_gate.facts.signatures.notation import (
    Axis,
    Kernel,
    Operand,
    Signature,
    kernel,
    signatures,
)
from mirage_gate.facts.signatures.table import OPERATORS
from mirage_gate.facts.signatures.tiles import coordinates
from tests.emitter.tasks import KINDS_BY_CODE

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject

Slot = tuple[Operand, Callable[[dict[str, Any]], dict[str, Any]]]


@cache
def _branches(subject: Subject) -> dict[tuple[str, int], Branch]:
    return parse("k.cu", subject.cuda).dispatch


def _name(code: int) -> str:
    kind = KINDS_BY_CODE.get(code)
    return kind.enumerator if kind else ""


def _signature(task: dict[str, Any]) -> Signature | None:
    text = OPERATORS.get(_name(task["task_type"]), "")
    ranks = tuple(len(t["dims"]) for t in (*(task["inputs"] or ()), *(task["outputs"] or ())))
    inputs = len(task["inputs"] or ())
    return next((s for s in (signatures(text) if text else ()) if s.fits(ranks, inputs)), None)


def _tile(task: dict[str, Any], operand: Operand) -> dict[str, Any]:
    found: dict[str, Any] = task["inputs" if operand.is_input else "outputs"][operand.index]
    return found


def _start(tile: dict[str, Any], dim: int) -> int:
    at = coordinates(tile["offset"], tile["data_type"], tuple(tile["dims"]), tuple(tile["strides"]))
    return -1 if at is None else at[dim]


@cache
def _operators(subject: Subject) -> list[list[int]]:
    """The tasks of each operator: a stretch of one type and variant with the same tensors."""
    found: list[list[int]] = []
    last: object = None
    for number, task in enumerate(subject.tasks[2:], 2):
        slots = [t["base_ptr"] for side in ("inputs", "outputs") for t in task[side] or ()]
        key = (task["task_type"], task["variant_id"], slots)
        if key != last:
            found.append([])
        found[-1].append(number)
        last = key
    return found


def _named(subject: Subject, task: dict[str, Any], operand: Operand) -> bool:
    branch = _branches(subject).get((_name(task["task_type"]), task["variant_id"]))
    if branch is None:
        return False
    names = branch.names_input if operand.is_input else branch.names_output
    return names(operand.index) and _tile(task, operand)["base_ptr"] != "nullptr"


def _cut(subject: Subject, rng: random.Random) -> Iterator[tuple[list[int], Operand, int]]:
    """Every (operator's tasks, slot, dim) where the slot is cut along an axis that others share."""
    for numbers in mixed(rng, _operators(subject)):
        task = subject.tasks[numbers[0]]
        signature = _signature(task)
        if signature is None or len(numbers) < 3:
            continue
        for operand in mixed(rng, signature.operands):
            if not _named(subject, task, operand):
                continue
            for dim, axis in enumerate(operand.axes):
                if axis.related and _shared(subject, task, signature, operand, axis):
                    starts = [_start(_tile(subject.tasks[n], operand), dim) for n in numbers]
                    if len(set(starts)) == len(starts) and starts == sorted(starts):
                        yield numbers, operand, dim


def _shared(
    subject: Subject, task: dict[str, Any], signature: Signature, operand: Operand, axis: Axis
) -> bool:
    return any(
        other is not operand and other_axis.name == axis.name and _named(subject, task, other)
        for other in signature.operands
        for other_axis in other.axes
    )


def _give(draft: Draft, operand: Operand, numbers: list[int], order: list[int]) -> None:
    """Give each task the tile that another has in a slot."""
    side = "inputs" if operand.is_input else "outputs"
    tiles = [copy.deepcopy(_tile(draft.subject.tasks[n], operand)) for n in order]
    for number, tile in zip(numbers, tiles, strict=True):
        draft.task(number)[side][operand.index] = tile


FOUND = ("MG213", "MG2", "MG3", "MG5", "MG7")


@defect(*FOUND)
def two_tiles_of_a_slot_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two tasks have each other's tile in one slot, and their own in the others."""
    for numbers, operand, dim in _cut(subject, rng):
        one, other = rng.sample(numbers, 2)
        draft = Draft(subject, f"{operand.side} of {one} and {other} exchanged along dim {dim}")
        _give(draft, operand, [one, other], [other, one])
        yield draft.mutant()


@defect(*FOUND)
def tiles_of_a_slot_rotated(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Every task of an operator has the next one's tile in one slot."""
    for numbers, operand, dim in _cut(subject, rng):
        draft = Draft(subject, f"{operand.side} of {numbers[0]}.. rotated along dim {dim}")
        _give(draft, operand, numbers, numbers[1:] + numbers[:1])
        yield draft.mutant()


@defect(*FOUND)
def tiles_of_a_slot_reversed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The tiles of one slot run backwards."""
    for numbers, operand, dim in _cut(subject, rng):
        draft = Draft(subject, f"{operand.side} of {numbers[0]}.. reversed along dim {dim}")
        _give(draft, operand, numbers, numbers[::-1])
        yield draft.mutant()


@defect(*FOUND)
def tiles_of_a_slot_of_another_length(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """All tasks of an operator have half a tile in one slot, along an axis that another shares."""
    for numbers in mixed(rng, _operators(subject)):
        task = subject.tasks[numbers[0]]
        signature = _signature(task)
        for operand in signature.operands if signature else ():
            for dim, axis in enumerate(operand.axes):
                length = _tile(task, operand)["dims"]
                if not length or length[dim] < 2 or length[dim] % 2 or not axis.related:
                    continue
                if not _same_unit(subject, task, signature, operand, axis):
                    continue
                draft = Draft(subject, f"{operand.side} of {numbers[0]}.. half as long, dim {dim}")
                for number in numbers:
                    draft.task(number)
                    _tile(draft.tasks[number], operand)["dims"][dim] //= 2
                yield draft.mutant()


def _same_unit(
    subject: Subject,
    task: dict[str, Any],
    signature: Signature | None,
    operand: Operand,
    axis: Axis,
) -> bool:
    return _named(subject, task, operand) and any(
        other is not operand
        and (other_axis.name, other_axis.unit) == (axis.name, axis.unit)
        and _named(subject, task, other)
        for other in (signature.operands if signature else ())
        for other_axis in other.axes
    )


# --- The calls -------------------------------------------------------------------------


def _calls(
    subject: Subject, rng: random.Random
) -> Iterator[tuple[Branch, Body, Call, Kernel, dict[str, Any]]]:
    """Every call of a known function, with a task that runs it."""
    tasks: dict[tuple[str, int], dict[str, Any]] = {}
    for task in subject.tasks[2:]:
        tasks.setdefault((_name(task["task_type"]), task["variant_id"]), task)
    for key, branch in mixed(rng, _branches(subject).items()):
        body = branch.body
        if body is None or key not in tasks or _signature(tasks[key]) is None:
            continue
        for call in body.calls:
            for way in KERNELS.get(call.function, ()):
                found = kernel(*way)
                if (len(found.template), len(found.call)) == (
                    len(call.template),
                    len(call.arguments),
                ):
                    yield branch, body, call, found, tasks[key]
                    break


def _replaced(subject: Subject, note: str, part: Expression, text: str) -> Mutant:
    draft = Draft(subject, note)
    draft.places.add(("cuda", draft.cuda.count("\n", 0, part.start) + 1))
    draft.cuda = draft.cuda[: part.start] + text + draft.cuda[part.end :]
    return draft.mutant()


def _taken(task: dict[str, Any], spec: str) -> bool:
    """Whether a stride is ever taken, or an axis there at all."""
    signature = _signature(task)
    assert signature is not None
    slot, _, axis = spec.partition(".")
    operand = signature.named(slot)
    if axis and operand is not None:
        dims = _tile(task, operand)["dims"]
        return any(a.name == axis and n > 1 for a, n in zip(operand.axes, dims, strict=False))
    return any(
        (a.name, a.unit) == (slot, axis) and _tile(task, o)["dims"]
        for o in signature.operands
        for a in o.axes
    )


def _constants(
    subject: Subject, rng: random.Random, strides: bool
) -> Iterator[tuple[str, Call, Expression]]:
    for _, _, call, way, task in _calls(subject, rng):
        pairs = [*zip(way.template, call.template, strict=True)]
        pairs += [
            (p, a) for p, a in zip(way.call, call.arguments, strict=True) if p.spec[:1] == "="
        ]
        for parameter, argument in mixed(rng, pairs):
            spec = parameter.spec.lstrip("=")
            value = argument.value
            if not spec or spec[0] in "?!@%" or ":" in spec or not isinstance(value, int):
                continue
            is_stride = "." in spec and not spec.startswith(("h.", "v."))
            if is_stride is strides and spec not in ("ranks", "rank") and _taken(task, spec):
                yield parameter.name, call, argument


@defect("MG509")
def constant_of_a_kernel_changed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A variant is compiled for another extent than its tasks' tiles have."""
    for name, call, argument in _constants(subject, rng, strides=False):
        new = str(int(argument.value or 0) * 2)
        yield _replaced(subject, f"{name} of {call.function} is {new}", argument, new)


@defect("MG509")
def stride_of_a_kernel_changed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A variant is compiled for rows that lie further apart, or not apart at all."""
    for name, call, argument in _constants(subject, rng, strides=True):
        new = rng.choice(["0", str(int(argument.value or 0) * 2)])
        yield _replaced(subject, f"{name} of {call.function} is {new}", argument, new)


@defect("MG509")
def descriptor_changed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A TMA descriptor is compiled for other rows, columns or strides."""
    for _, _, call, _, task in _calls(subject, rng):
        for argument in mixed(rng, call.arguments):
            if argument.tma is None or argument.tma.name != "tma_2d" or argument.slot is None:
                continue
            side = "inputs" if argument.slot.is_input else "outputs"
            dims = task[side][argument.slot.index]["dims"]
            place = rng.choice([4, 5, 8]) if len(dims) == 2 and dims[0] > 1 else 5
            if len(dims) == 2:
                part = argument.tma.arguments[place]
                note = f"argument {place} of {call.function}'s {argument.text}"
                yield _replaced(subject, note, part, str(int(part.value or 0) + 8))


@defect("MG509")
def element_type_changed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A variant is compiled for another element type than its tensors have."""
    for _, _, call, way, _ in _calls(subject, rng):
        for parameter, argument in zip(way.template, call.template, strict=True):
            if parameter.spec.startswith("T:") and argument.text.endswith(
                ("bfloat16", "float16_t")
            ):
                note = f"{parameter.name} of {call.function}"
                yield _replaced(subject, note, argument, "half")


@defect("MG509")
def ranks_of_a_sum_changed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A sum over the ranks is compiled for one too few, or as another rank's."""
    for _, _, call, way, _ in _calls(subject, rng):
        for parameter, argument in zip(way.template, call.template, strict=True):
            if parameter.spec in ("ranks", "rank"):
                new = str(int(argument.value or 0) + 1)
                yield _replaced(subject, f"{parameter.name} is {new}", argument, new)


@defect("MG510")
def flag_flipped(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A feature is compiled out while its slots hold tensors, or in while they hold none.

    The residual is left alone on other ranks than the first: there it is off on purpose.
    """
    for _, _, call, way, _ in _calls(subject, rng):
        pairs = [
            *zip(way.template, call.template, strict=True),
            *zip(way.call, call.arguments, strict=True),
        ]
        for parameter, argument in mixed(rng, pairs):
            residual = parameter.spec in ("?r", "!r")
            if parameter.spec[:1] not in ("?", "!") or (residual and subject.rank):
                continue
            if isinstance(argument.value, bool):
                new = "false" if argument.value else "true"
                yield _replaced(subject, f"{parameter.name} is {new}", argument, new)


@defect("MG511", "MG1", "MG5", "MG2", "MG3")
def slots_of_a_call_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two parameters are given each other's slot."""
    for _, _, call, way, _ in _calls(subject, rng):
        given = [
            argument
            for parameter, argument in zip(way.call, call.arguments, strict=True)
            if parameter.spec and argument.slot is not None and "ptrs" in argument.text
        ]
        if len({argument.slot for argument in given}) < 2:
            continue
        one, other = rng.sample(given, 2)
        if one.slot == other.slot:
            continue
        low, high = sorted((one, other), key=lambda argument: argument.start)
        draft = Draft(subject, f"{low.text} and {high.text} of {call.function} exchanged")
        text = draft.cuda
        middle = text[low.end : high.start]
        first, second = text[low.start : low.end], text[high.start : high.end]
        draft.cuda = text[: low.start] + second + middle + first + text[high.end :]
        yield draft.mutant()


@defect("MG511", "MG1", "MG5", "MG2", "MG3")
def slot_of_a_call_repeated(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A parameter is given the slot of another one too."""
    for _, _, call, way, _ in _calls(subject, rng):
        given = [
            argument
            for parameter, argument in zip(way.call, call.arguments, strict=True)
            if parameter.spec and argument.slot is not None and "ptrs" in argument.text
        ]
        for one in mixed(rng, given)[:2]:
            others = [a for a in given if a.slot != one.slot]
            if others:
                other = rng.choice(others)
                note = f"{one.text} of {call.function} is {other.text}"
                yield _replaced(subject, note, one, other.text)


# --- The metadata ----------------------------------------------------------------------

_ALIKE = ("request_id", "expert_offset", "kv_idx", "merge_task_offset")


def _grids(subject: Subject, rng: random.Random) -> Iterator[tuple[list[int], str, list[int]]]:
    """(an operator's tasks, a field that its body reads, its values)."""
    for numbers in mixed(rng, _operators(subject)):
        task = subject.tasks[numbers[0]]
        branch = _branches(subject).get((_name(task["task_type"]), task["variant_id"]))
        fields = [f for f in _ALIKE if branch and f in branch.metadata and f in task]
        for field in fields if len(fields) < len(_ALIKE) else ():
            values = [subject.tasks[n][field] for n in numbers]
            if len(set(values)) > 1:
                yield numbers, field, values


@defect("MG512")
def grid_begins_late(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Every number by which an operator's tasks pick their part is one more."""
    for numbers, field, values in _grids(subject, rng):
        draft = Draft(subject, f"{field} of {numbers[0]}.. is one more")
        for number, value in zip(numbers, values, strict=True):
            draft.task(number)[field] = value + 1
        yield draft.mutant()


@defect("MG512")
def grid_with_a_gap(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One number is left out: its tasks have the one after the last."""
    for numbers, field, values in _grids(subject, rng):
        gone = rng.choice(sorted(set(values))[:-1])
        draft = Draft(subject, f"no {field} {gone} in {numbers[0]}..")
        for number, value in zip(numbers, values, strict=True):
            if value == gone:
                draft.task(number)[field] = max(values) + 1
        yield draft.mutant()


# --- Data types, and bodies that are none ----------------------------------------------


@defect("MG206", "MG2", "MG5", "MG7")
def type_of_the_same_size(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task reads bfloat16 as float16, or float8 as int8."""
    twins = {941: 940, 930: 935, 955: 950}
    for number in mixed(rng, range(2, len(subject.tasks))):
        task = subject.tasks[number]
        signature = _signature(task)
        for operand in mixed(rng, signature.operands if signature else ()):
            tile = _tile(task, operand)
            if tile["data_type"] in twins and _named(subject, task, operand):
                draft = Draft(subject, f"{operand.side} of task {number} under another type")
                draft.task(number)
                _tile(draft.tasks[number], operand)["data_type"] = twins[tile["data_type"]]
                yield draft.mutant()
                break


@defect("MG501", "MG1")
def chain_behind_a_return(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The dispatch function returns before its chain begins."""
    at = subject.cuda.index("task_type ==")
    at = subject.cuda.rindex("if (", 0, at)
    draft = Draft(subject, "the chain stands behind a return")
    draft.cuda = subject.cuda[:at] + "return;\n  " + subject.cuda[at:]
    yield draft.mutant()


@defect("MG501", "MG1")
def chain_in_another_function(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The chain stands in a function that nobody calls."""
    draft = Draft(subject, "the chain stands in another function")
    draft.cuda = subject.cuda.replace("void _execute_task(", "void _execute_task_before(", 1)
    draft.cuda += "\nvoid _execute_task(TaskDesc const* task_desc) {\n}\n"
    yield draft.mutant()


@defect("MG501")
def condition_of_a_branch_is_false(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A branch's condition can never be true."""
    used = {(_name(t["task_type"]), t["variant_id"]) for t in subject.tasks}
    for (name, variant), _ in mixed(rng, _branches(subject).items()):
        if (name, variant) in used:
            draft = Draft(subject, f"{name} {variant} only if false")
            draft.sub(rf"({name} && \w+(?:->|\.)variant_id == {variant})\)", r"\1 && false)")
            yield draft.mutant()
