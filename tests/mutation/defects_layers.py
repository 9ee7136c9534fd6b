"""Layers: graphs in which every set, byte and event is in order, and one layer differs."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

from .defects_bytes import _copies
from .defects_wiring import TABLES, groups_by_role
from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject, Use, layer_of, overlap, role_of


def _exchange(draft: Draft, one: str, other: str) -> None:
    """Every reference to one tensor names the other, and the other way round."""
    for number, task in enumerate(draft.tasks):
        for side in ("inputs", "outputs"):
            for slot, tensor in enumerate(task[side] or []):
                if tensor["base_ptr"] in (one, other):
                    name = other if tensor["base_ptr"] == one else one
                    draft.slot(number, side, slot)["base_ptr"] = name


@defect("MG703", "MG7", "MG2")
def weights_of_two_layers_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Layer i computes with layer j's weight and the other way round; both are wired."""
    if subject.layers < 4:
        return
    roles = [
        names
        for names in groups_by_role(subject).values()
        if subject.storage[names[0]] in ("host", "shuffled")
    ]
    for names in mixed(rng, roles):
        wired = [n for n in names if n in subject.by_name]
        if len(wired) < 2:
            continue
        one, other = rng.sample(wired, 2)
        draft = Draft(subject, f"{one} and {other} are exchanged")
        _exchange(draft, one, other)
        yield draft.mutant()


def _none(draft: Draft, use: Use) -> None:
    draft.task(use.task)[use.side][use.slot] = {
        "base_ptr": "nullptr",
        "data_type": 999,
        "dims": [],
        "offset": 0,
        "strides": [],
    }


@defect("MG701")
def rope_none_in_one_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One layer's attention gets no rotary tables; no tensor is left unused."""
    by_layer: dict[int, list[Use]] = defaultdict(list)
    for use in subject.uses:
        if use.name in TABLES and use.optional:
            layer = _layer_of_task(subject, use.task)
            if layer is not None:
                by_layer[layer].append(use)
    if len(by_layer) < 4:
        return
    for layer, uses in mixed(rng, by_layer.items()):
        chosen = uses if rng.random() < 0.7 else [u for u in uses if u.name == uses[0].name]
        draft = Draft(subject, f"no rotary tables in layer {layer}")
        for use in chosen:
            _none(draft, use)
        yield draft.mutant()


def _layer_of_task(subject: Subject, task: int) -> int | None:
    layers = [layer_of(use.name) for use in subject.by_task[task]]
    return next((layer for layer in layers if layer is not None), None)


@defect("MG702", "MG701", "MG7", "MG3")
def residual_from_another_buffer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One operator adds another activation of the same size, written before it, as its residual.

    In a layer whose residual has the same role in most others, so that the right one can be known;
    and never the first layer's first residual, which is the embedding in every model.
    """
    if subject.layers < 4:
        return
    residuals = {(108, 2), (156, 2), (252, 2), (277, 4), (105, 2), (281, 0), (261, 2)}
    for (operator, side, slot), uses in mixed(rng, subject.by_operator_slot.items()):
        use = uses[0]
        if side != "inputs" or (use.code, slot) not in residuals:
            continue
        layer = _layer_of_task(subject, use.task)
        if layer is None or not 0 < layer < subject.layers - 1:
            continue
        alike = [
            tiles[0]
            for (_, _, index), tiles in subject.by_operator_slot.items()
            if (tiles[0].code, index) == (use.code, slot) and tiles[0].side == side
        ]
        if 2 * sum(role_of(u.name) == role_of(use.name) for u in alike) < len(alike) + 2:
            continue
        others = [
            name
            for name in subject.kinds("scratch", "symmetric")
            if name != use.name
            and layer_of(name) is None
            and subject.nbytes(name) == subject.nbytes(use.name)
            and any(o.writes and o.operator < operator for o in subject.by_name[name])
            and not any(o.name == name for t in uses for o in subject.by_task[t.task])
        ]
        if not others:
            continue
        name = rng.choice(others)
        draft = Draft(subject, f"the residual of task {use.task} (layer {layer}) is {name}")
        for use in uses:
            draft.slot(use.task, side, slot)["base_ptr"] = name
        yield draft.mutant()


@defect("MG702", "MG7", "MG2")
def two_operands_exchanged_in_one_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """In one layer two slots of an operator carry each other's tensor: cos and sin, k and v."""
    if subject.layers < 4:
        return
    pairs = [(1, 2), (3, 4), (5, 6)]
    operators = [
        t
        for t in subject.operators()
        if subject.tasks[t[0]]["task_type"] in (103, 116, 153, 164, 257)
    ]
    for tasks in mixed(rng, operators):
        one, other = rng.choice(pairs)
        inputs = subject.tasks[tasks[0]]["inputs"]
        if len(inputs) <= other or inputs[one]["base_ptr"] == inputs[other]["base_ptr"]:
            continue
        draft = Draft(subject, f"inputs {one} and {other} of task {tasks[0]} are exchanged")
        for task in tasks:
            slots = draft.task(task)["inputs"]
            slots[one], slots[other] = slots[other], slots[one]
        yield draft.mutant()


@defect("MG111")
def two_operands_exchanged_everywhere(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """In every layer attention carries sin for cos and cos for sin, or so its caches or norms."""
    attention = [
        i for i, task in enumerate(subject.tasks) if task["task_type"] in (103, 116, 153, 164, 257)
    ]
    for one, other in mixed(rng, [(1, 2), (3, 4), (5, 6)]):
        draft = Draft(subject, f"inputs {one} and {other} of attention are exchanged everywhere")
        exchanged = 0
        for task in attention:
            slots = draft.task(task)["inputs"]
            if len(slots) > other and slots[one]["base_ptr"] != slots[other]["base_ptr"]:
                slots[one], slots[other] = slots[other], slots[one]
                exchanged += 1
        if exchanged:
            yield draft.mutant()


@defect("MG702", "MG7", "MG2")
def norms_exchanged_within_a_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A layer normalises with its other norm's weight, before attention and after."""
    if subject.layers < 4:
        return
    for layer in mixed(rng, range(subject.layers)):
        names = [
            n
            for n in subject.kinds("host")
            if layer_of(n) == layer and n.endswith(("input_layernorm", "post_attn_layernorm"))
        ]
        if len(names) == 2:
            draft = Draft(subject, f"{names[0]} and {names[1]} are exchanged")
            _exchange(draft, *names)
            yield draft.mutant()


@defect("MG703")
def copies_of_two_layers_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A shuffled weight of layer i is filled from layer j's, and the other way round."""
    sources = [copy_[4] for copy_ in _copies(subject) if layer_of(copy_[4]) is not None]
    for name in mixed(rng, sources):
        layer = layer_of(name)
        twins = [
            n for n in sources if n != name and n.replace(f"_{layer_of(n)}_", f"_{layer}_") == name
        ]
        if not twins:
            continue
        other = rng.choice(twins)
        draft = Draft(subject, f"the copies of {name} and {other} are exchanged")
        draft.cuda = (
            draft.cuda.replace(f'at("{name}")', "\x01")
            .replace(f'at("{other}")', f'at("{name}")')
            .replace("\x01", f'at("{other}")')
        )
        yield draft.mutant()


@defect("MG7", "MG2")
def copies_of_one_tensor_exchanged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """In one layer a shuffled weight takes gate where its siblings take up, or k where v."""
    by_tensor = defaultdict(list)
    for copy_ in _copies(subject):
        by_tensor[copy_[1]].append(copy_)
    if subject.layers < 4:
        return
    for name, copies in mixed(rng, by_tensor.items()):
        if sum(role_of(other) == role_of(name) for other in by_tensor) < 3:
            continue  # nobody could say which of two is right
        alike = [c for c in copies[1:] if c.group(5, 6, 7) == copies[0].group(5, 6, 7)]
        alike = alike or [c for c in copies[2:] if c.group(5, 6, 7) == copies[1].group(5, 6, 7)]
        if not alike:
            continue
        other = alike[0][4]
        one = next(c[4] for c in copies if c.group(5, 6, 7) == alike[0].group(5, 6, 7))
        draft = Draft(subject, f"{one} and {other} are exchanged in {name}")
        draft.cuda = (
            draft.cuda.replace(f'at("{one}")', "\x01")
            .replace(f'at("{other}")', f'at("{one}")')
            .replace("\x01", f'at("{other}")')
        )
        yield draft.mutant()


@defect("MG2", "MG3", "MG7", "MG1")
def task_missing(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A task of an operator is gone, all counts and ranges right: its tile is computed by nobody.

    Only tasks that write exact bytes which some task of a later operator reads.
    """
    for task in mixed(rng, subject.by_task):
        if subject.tasks[task]["task_type"] in (275, 301) or task in subject.first_tasks:
            continue
        if subject.events[subject.trigger(task)]["num_triggers"] < 2:
            continue
        waiting = [
            n
            for n in range(2, len(subject.tasks))
            if subject.dependent(n) == subject.dependent(task)
        ]
        writes = [u for u in subject.by_task[task] if u.writes and u.exact]
        read = any(
            o.reads and o.exact and o.operator != u.operator and overlap(o.runs, u.runs)
            for u in writes
            for o in subject.by_name[u.name]
        )
        if not read or len(waiting) < 2:
            continue
        draft = Draft(subject, f"task {task} is missing")
        draft.remove_task(task)
        yield draft.mutant()


@defect("MG1", "MG2", "MG3", "MG7")
def operator_missing_in_one_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A whole operator of one inner layer is gone; the next waits for what it waited for.

    Its weight, if it has one, is left unwired, and in any case its siblings have it.
    """
    if subject.layers < 4:
        return
    for tasks in mixed(rng, subject.operators()):
        layer = _layer_of_task(subject, tasks[0])
        if layer is None or not 0 < layer < subject.layers - 1:
            continue
        waits = {subject.tasks[t]["dependent_event"] for t in tasks}
        fires = {subject.tasks[t]["trigger_event"] for t in tasks}
        if len(waits) != 1 or len(fires) != 1:
            continue
        (before,), (after,) = waits, fires
        if before >> 48 or after >> 48 or before == after:
            continue
        followers = [n for n, t in enumerate(subject.tasks) if t["dependent_event"] == after]
        if not followers or any(
            subject.trigger(t) == after & 0xFFFFFFFF
            for t in range(2, len(subject.tasks))
            if t not in set(tasks)
        ):
            continue
        draft = Draft(subject, f"the operator of task {tasks[0]} is missing in layer {layer}")
        # The followers wait for what the operator waited for; its own event is taken out.
        gone = after & 0xFFFFFFFF
        for number in followers:
            draft.task(number)["dependent_event"] = before
        dropped = set(tasks)
        draft.tasks = [t for n, t in enumerate(draft.tasks) if n not in dropped]
        del draft.events[gone]
        for number in range(2, len(draft.tasks)):
            for field in ("dependent_event", "trigger_event"):
                value = draft.tasks[number][field]
                if value != 0x7FFFFFFFFFFFFFFE and value & 0xFFFFFFFF > gone:
                    draft.task(number)[field] = value - 1
        draft.relayout()
        yield draft.mutant()


@defect("MG707", "MG7")
def two_layers_in_other_order(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two neighbouring layers run in the other order: all that one loads stands in the other."""
    if subject.layers < 4:
        return
    of_layer: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for name in subject.by_name:
        layer = layer_of(name)
        if layer is not None and subject.storage.get(name) in ("host", "shuffled"):
            of_layer[layer][role_of(name)] = name
    for layer in mixed(rng, of_layer):
        one, other = of_layer[layer], of_layer.get(layer + 1, {})
        if not one or one.keys() != other.keys():
            continue
        turned = {one[role]: other[role] for role in one} | {other[r]: one[r] for r in one}
        draft = Draft(subject, f"layers {layer} and {layer + 1} run in the other order")
        for number, task in enumerate(draft.tasks):
            for side in ("inputs", "outputs"):
                for slot, tensor in enumerate(task[side] or []):
                    if new := turned.get(tensor["base_ptr"]):
                        draft.slot(number, side, slot)["base_ptr"] = new
        yield draft.mutant()
