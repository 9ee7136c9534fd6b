"""MG5: does a kernel exist for every task, and does each find what it reads?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.facts.regions import BITS, type_name
from mirage_gate.facts.wiring import tasks_in
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import groups_of, in_layers, plural, slot_field, tasks
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access, Group


def _kernels(facts: RankFacts) -> dict[tuple[int, int], list[Group]]:
    """Give the groups of each (type, variant) that needs a dispatch branch."""
    return {
        kernel: groups
        for kernel, groups in facts.wiring.kernels.items()
        if not facts.task_type(kernel[0]).frame
    }


def _branches(facts: RankFacts) -> Iterator[tuple[Branch, list[Group]]]:
    """Give every dispatch branch that tasks select, with their groups."""
    for (task_type, variant), groups in _kernels(facts).items():
        branch = facts.wiring.branch(task_type, variant)
        if branch is not None:
            yield branch, groups


def _unmatched(facts: RankFacts) -> list[str]:
    """List the type names in the dispatch table that have no known code."""
    known = {kind.name for kind in facts.options.task_types.values()}
    return sorted({name for name, _ in facts.cuda.dispatch if name not in known})


@rule(
    "MG501",
    "no-kernel",
    Severity.ERROR,
    "A task's (type, variant) has no dispatch branch: it silently does nothing.",
    why="""
        `_execute_task` is one chain of if and else-if without a final else. A task that no
        branch matches does nothing, still triggers its event, and nobody notices: what it
        should have written stays as it was. A `.cu` without any `_execute_task` says nothing
        of kernels; that is a warning, for then nothing about them was checked.
    """,
    example="Tasks of type 156 and variant 2 exist, and the chain ends at variant 1.",
    fix="Emit kernel and graph again, together; register the task type's generator.",
)
def no_kernel(facts: RankFacts) -> Iterator[Finding]:
    if not facts.cuda.dispatch:
        yield Finding(
            rule="MG501",
            severity=Severity.WARNING,
            message="the CUDA file has no dispatch table: kernels and slots were not checked",
            location=facts.cuda.dispatch_location or Location(facts.cuda.path, 1, 1, 1, 1),
            hint="audit the whole file that MPK emitted",
            rank=facts.rank,
        )
        return
    unmatched = _unmatched(facts)
    kernels = _kernels(facts)
    unknown = sorted({task_type for task_type, _ in kernels if not facts.knows(task_type)})
    if len(unknown) > len(unmatched) > 0:
        yield _too_few_kernels(facts, unknown, unmatched)
    for (task_type, variant), groups in sorted(kernels.items()):
        if facts.wiring.branch(task_type, variant):
            continue
        if task_type in unknown and any((n, variant) in facts.cuda.dispatch for n in unmatched):
            continue  # one of them may be its kernel
        kind = facts.task_type(task_type).name
        variants = sorted(v for name, v in facts.cuda.dispatch if name == kind)
        has = f"it has variants {', '.join(map(str, variants[:8]))}" if variants else "it has none"
        at = facts.cuda.dispatch_location
        first = min(group.first for group in groups)
        yield Finding(
            rule="MG501",
            severity=Severity.ERROR,
            message=(
                f"{tasks(facts, groups)} of variant {variant} have no dispatch branch and do "
                f"nothing ({has})"
            ),
            location=facts.in_graph("all_tasks", first, "variant_id"),
            hint="emit kernel and graph again, together",
            related=(at.saying("the dispatch table"),) if at else (),
            rank=facts.rank,
        )


def _too_few_kernels(facts: RankFacts, unknown: list[int], unmatched: list[str]) -> Finding:
    """Fewer branches whose type is unknown than unknown types: some type has none."""
    groups = [group for group in facts.wiring.groups if group.task_type in unknown]
    first = min(group.first for group in groups)
    at = facts.cuda.dispatch_location
    return Finding(
        rule="MG501",
        severity=Severity.ERROR,
        message=(
            f"{len(unknown)} unknown task types ({', '.join(map(str, unknown[:6]))}) have "
            f"{plural(tasks_in(groups), 'task')}, and the dispatch table has only "
            f"{plural(len(unmatched), 'type')} that could be theirs "
            f"({', '.join(unmatched[:6])}): the tasks of at least one do nothing"
        ),
        location=facts.in_graph("all_tasks", first, "task_type"),
        hint="name the types with --runtime-header, or emit kernel and graph again, together",
        related=(at.saying("the dispatch table"),) if at else (),
        rank=facts.rank,
    )


@rule(
    "MG502",
    "missing-slot",
    Severity.ERROR,
    "A dispatch body reads a slot that a task of that type does not fill.",
    why="""
        The task descriptor's slots beyond the task's own are uninitialised: the kernel
        follows a pointer that nobody set.
    """,
    example="The body names `task_desc->input_ptrs[4]`, and its tasks have four inputs.",
    fix="Give the operator the tensor it lacks, or emit kernel and graph together.",
)
def missing_slot(facts: RankFacts) -> Iterator[Finding]:
    for branch, groups in _branches(facts):
        for side, named in (("input", branch.inputs), ("output", branch.outputs)):
            needed = max(named, default=-1) + 1
            short = [g for g in groups if len(g.inputs if side == "input" else g.outputs) < needed]
            if not short:
                continue
            has = min(len(g.inputs if side == "input" else g.outputs) for g in short)
            lacking = sorted(slot for slot in named if slot >= has)
            yield Finding(
                rule="MG502",
                severity=Severity.ERROR,
                message=(
                    f"{branch.type_name} variant {branch.variant} reads "
                    f"{side} {', '.join(map(str, lacking))}, and {tasks(facts, short)} "
                    f"fill {has}"
                ),
                location=branch.location,
                hint=f"give the operator the {side} it lacks, or emit both files together",
                related=(
                    facts.in_graph(
                        "all_tasks", short[0].first, f"{side}s", note=f"{has} {side}s here"
                    ),
                ),
                rank=facts.rank,
            )


@rule(
    "MG503",
    "unused-kernel",
    Severity.NOTE,
    "A dispatch branch that no task selects.",
    why="""
        In correct pairs every branch is selected by some task. A branch too many costs
        compile time, and may be the trace of an operator that was meant to be there.
    """,
    example="The chain has `TASK_SILU_MUL` variant 3, and tasks use 0 to 2.",
    fix="Emit kernel and graph again, together.",
)
def unused_kernel(facts: RankFacts) -> Iterator[Finding]:
    codes = {kind.name: code for code, kind in facts.options.task_types.items()}
    used = {(t, v) for t, v in _kernels(facts)}
    unknown = any(not facts.knows(task_type) for task_type, _ in used)
    for (name, variant), branch in facts.cuda.dispatch.items():
        if (codes.get(name), variant) in used or (name not in codes and unknown):
            continue
        yield Finding(
            rule="MG503",
            severity=Severity.NOTE,
            message=f"no task selects {name} variant {variant}",
            location=branch.location,
            hint="emit kernel and graph again, together",
            rank=facts.rank,
        )


@rule(
    "MG504",
    "limits",
    Severity.ERROR,
    "More than 7 inputs, 3 outputs or 4 dims, or dims and strides of different length.",
    why="""
        The runtime's task descriptor has room for seven inputs, three outputs and four
        dimensions. The loader's checks are asserts, compiled out in the default build: the
        eighth input overwrites what lies behind.
    """,
    example='`"dims": [8, 128]` beside `"strides": [128]`.',
    fix="Split the operator, or fuse its operands.",
)
def limits(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    uneven = {i for i, tensor in enumerate(tensors) if len(tensor.dims) != len(tensor.strides)}
    if not uneven:
        return
    for name, accesses in facts.wiring.accesses.items():
        found = [access for access in accesses if access.tensor in uneven]
        if not found:
            continue
        tensor = tensors[found[0].tensor]
        yield Finding(
            rule="MG504",
            severity=Severity.ERROR,
            message=(
                f"{name} has {plural(len(tensor.dims), 'dim')} and "
                f"{plural(len(tensor.strides), 'stride')} in {tasks(facts, groups_of(found))}"
            ),
            location=slot_field(facts, found[0], "dims"),
            hint="give as many strides as dims",
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG505",
    "repeated-work",
    Severity.WARNING,
    "Tasks alike in everything their body reads: the same work is done several times.",
    why="""
        Each task runs one kernel over one set of operands. Tasks with the same kernel, the
        same operands and the same metadata do the same thing again: at best wasted time, at
        worst a tile that somebody else was to compute.
    """,
    example="Eight QUANTIZE_FP8 tasks each quantise the whole tensor and read no metadata.",
    fix="Give the operator a grid whose tasks differ, or a grid of one.",
)
def repeated_work(facts: RankFacts) -> Iterator[Finding]:
    work: dict[tuple[object, ...], list[Group]] = defaultdict(list)
    for branch, groups in _branches(facts):
        for group in groups:
            reads, writes = facts.wiring.work_of(group)
            if group.count > 1 and branch.metadata and _rows_differ(facts, group, branch):
                continue
            destination = group.trigger >> 32  # a remote write goes where its event lives
            work[group.dependent, destination, reads, writes].append(group)
    repeated: dict[int, list[list[Group]]] = defaultdict(list)
    for groups in work.values():
        if sum(group.count for group in groups) > 1:
            repeated[groups[0].task_type].append(groups)
    for task_type, sets in sorted(repeated.items()):
        every = [group for groups in sets for group in groups]
        sizes = sorted({sum(group.count for group in groups) for groups in sets})
        times = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        first = min(every, key=lambda group: group.first)
        yield Finding(
            rule="MG505",
            severity=Severity.WARNING,
            message=(
                f"{tasks(facts, every)} do the same work {times} times over, in "
                f"{plural(len(sets), 'set')}: each set has one kernel, one set of operands and "
                "no metadata that tells its tasks apart"
            ),
            location=facts.in_graph("all_tasks", first.first, "task_type"),
            hint=f"give {facts.task_type(task_type).name} a grid whose tasks differ, or one task",
            rank=facts.rank,
        )


def _rows_differ(facts: RankFacts, group: Group, branch: Branch) -> bool:
    """Whether the metadata that the body reads tells the tasks of a group apart."""
    values = facts.wiring.metadata_in(group, branch)
    return len(set(values)) == len(values)


@rule(
    "MG506",
    "disconnected-slot",
    Severity.ERROR,
    "A slot whose body names it holds nullptr.",
    why="""
        A None input is emitted as `nullptr`. Attention skips its norm and rotary slots by a
        template flag when they are None: a feature switched off, which is a note. Any other
        kernel reads address 0.
    """,
    example="`layer_2_down_proj` was None in the builder: input 1 of the linear is nullptr.",
    fix="Pass the tensor. A fork's own optional slot is marked `?` in `task-types`.",
)
def disconnected_slot(facts: RankFacts) -> Iterator[Finding]:
    slots: dict[tuple[int, bool, int], list[Access]] = defaultdict(list)
    for access in facts.wiring.of(SENTINEL):
        if access.reads or access.writes:
            slots[access.group.task_type, access.is_input, access.index].append(access)
    for (task_type, is_input, index), accesses in sorted(slots.items()):
        optional = accesses[0].slot.optional or not facts.knows(task_type)
        kind = facts.task_type(task_type).name
        slot = f"{'input' if is_input else 'output'} {index} of {kind}"
        layers = {
            layer
            for access in accesses
            if (layer := facts.layers.of_group[access.group.number]) is not None
        }
        where = f" in {in_layers(layers)}" if layers else ""
        branch = facts.wiring.branch(task_type, accesses[0].group.variant)
        what = (
            "the kernel skips it: a feature is switched off"
            if optional
            else "the kernel reads address 0"
        )
        yield Finding(
            rule="MG506",
            severity=Severity.NOTE if optional else Severity.ERROR,
            message=(f"{slot} is nullptr in {tasks(facts, groups_of(accesses))}{where}; {what}"),
            location=slot_field(facts, accesses[0], "base_ptr"),
            hint="pass the tensor in the builder" if not optional else "nothing, if it is meant",
            related=(branch.location.saying("the body that names it"),) if branch else (),
            rank=facts.rank,
        )


@rule(
    "MG507",
    "unknown-task-type",
    Severity.NOTE,
    "A task type is in no table: its inputs are taken as read, its outputs as written.",
    why="""
        A fork's own operators have codes and slots that the built-in table cannot know.
        Nothing about such a type is an error unless it holds whatever the kernel does.
    """,
    example="Tasks of type 296, and no `TASK_… = 296` that the gate knows.",
    fix="""
        Give `--runtime-header` the fork's header, and describe the slots under `task-types`
        in the configuration.
    """,
)
def unknown_task_type(facts: RankFacts) -> Iterator[Finding]:
    for task_type in sorted({group.task_type for group in facts.wiring.groups}):
        if facts.knows(task_type):
            continue
        groups = [g for g in facts.wiring.groups if g.task_type == task_type]
        yield Finding(
            rule="MG507",
            severity=Severity.NOTE,
            message=f"task type {task_type} is unknown: {tasks(facts, groups)}",
            location=facts.in_graph("all_tasks", groups[0].first, "task_type"),
            hint="name it with --runtime-header, and its slots under task-types",
            rank=facts.rank,
        )


@rule(
    "MG508",
    "variant-shape",
    Severity.WARNING,
    "Tasks run a variant that was compiled for other tiles, or another than their siblings.",
    why="""
        A variant is a kernel generated for one shape: its tile sizes are template arguments.
        In correct graphs all tasks of one (type, variant) carry, slot by slot, tiles of one
        shape and data type. A task among them with another tile runs a kernel that was
        compiled for something else. An error where the data types differ in size. Nor do
        the tasks of one operator, with tiles all alike, run two variants.
    """,
    example="Of 128 tasks of variant 0, one carries 8 x 96 weights where all others carry 8 x 64.",
    fix="Give the tasks the variant that was generated for their tiles, or correct the tiles.",
    limits="A fork's kernel that reads its shape at run time can be waived.",
)
def variant_shape(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    told: set[int] = set()
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    tiles = [known.setdefault((t.data_type, t.dims), len(known)) for t in tensors]
    for (task_type, variant), groups in sorted(_kernels(facts).items()):
        branch = facts.wiring.branch(task_type, variant)
        if branch is None or not facts.knows(task_type):
            continue
        if len({tuple([tiles[n] for n in g.inputs + g.outputs]) for g in groups}) < 2:
            continue
        shapes: dict[tuple[bool, int], Counter[tuple[int, tuple[int, ...]]]] = defaultdict(Counter)
        carriers: dict[tuple[object, ...], list[Group]] = defaultdict(list)
        for group in groups:
            for is_input, operands in ((True, group.inputs), (False, group.outputs)):
                for index, number in enumerate(operands):
                    tensor = tensors[number]
                    _, reads, writes = facts.wiring.use(group, is_input, index)
                    if tensor.base_ptr != SENTINEL and (reads or writes):
                        shape = (tensor.data_type, tensor.dims)
                        shapes[is_input, index][shape] += group.count
                        carriers[(is_input, index, *shape)].append(group)
        for (is_input, index), counts in shapes.items():
            if len(counts) > 1:
                usual = counts.most_common(1)[0][0]
                odd = {s: carriers[(is_input, index, *s)] for s in counts if s != usual}
                told.update(group.number for groups in odd.values() for group in groups)
                yield _odd_shape(facts, branch, is_input, index, usual, odd)
                break  # the other slots of the same tasks would say it again
    yield from _mixed_variants(facts, told)


def _mixed_variants(facts: RankFacts, told: set[int]) -> Iterator[Finding]:
    """Find operators whose tasks, with tiles all alike, run more than one variant."""
    tensors = facts.graph.tensors
    for operator in facts.layers.operators:
        if len({group.variant for group in operator.groups}) < 2:
            continue
        alike: dict[object, dict[int, list[Group]]] = defaultdict(dict)
        for group in operator.groups:
            operands = [tensors[n] for n in group.inputs + group.outputs]
            tiles = tuple((t.base_ptr, t.data_type, t.dims) for t in operands)
            alike[tiles].setdefault(group.variant, []).append(group)
        for variants in alike.values():
            usual = max(variants, key=lambda variant: (tasks_in(variants[variant]), -variant))
            for variant, groups in variants.items():
                if variant != usual and told.isdisjoint(group.number for group in groups):
                    yield _odd_variant(facts, variant, groups, usual, variants[usual])


def _odd_variant(
    facts: RankFacts, variant: int, groups: list[Group], usual: int, others: list[Group]
) -> Finding:
    return Finding(
        rule="MG508",
        severity=Severity.WARNING,
        message=(
            f"{tasks(facts, groups)} run variant {variant}, and {tasks(facts, others)} of the same "
            f"operator, with tiles just like theirs, variant {usual}"
        ),
        location=facts.in_graph("all_tasks", groups[0].first, "variant_id"),
        hint="give all tasks of the operator one variant",
        related=(
            facts.in_graph("all_tasks", others[0].first, "variant_id", note="the usual variant"),
        ),
        rank=facts.rank,
    )


def _odd_shape(
    facts: RankFacts,
    branch: Branch,
    is_input: bool,
    index: int,
    usual: tuple[int, tuple[int, ...]],
    odd: dict[tuple[int, tuple[int, ...]], list[Group]],
) -> Finding:
    groups = [group for found in odd.values() for group in found]
    first = min(groups, key=lambda group: group.first)
    other = next(shape for shape, found in odd.items() if first in found)
    side = "input" if is_input else "output"
    clash = any(BITS.get(shape[0]) != BITS.get(usual[0]) for shape in odd)
    return Finding(
        rule="MG508",
        severity=Severity.ERROR if clash else Severity.WARNING,
        message=(
            f"{side} {index} of {tasks(facts, groups)} holds {_tile(other)}, and "
            f"variant {branch.variant} of {branch.type_name} runs on {_tile(usual)}"
        ),
        location=facts.in_graph("all_tasks", first.first, "variant_id"),
        hint="give the tasks the variant that was generated for their tiles",
        related=(
            branch.location.saying("the variant's kernel"),
            facts.in_graph("all_tasks", first.first, f"{side}s", index, "dims", note="its tile"),
        ),
        rank=facts.rank,
    )


def _tile(shape: tuple[int, tuple[int, ...]]) -> str:
    data_type, dims = shape
    return f"{' x '.join(map(str, dims)) or 'a scalar'} of {type_name(data_type)}"
