"""MG508: tasks run a variant that was compiled for other tiles, or another than their siblings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.facts.regions import BITS, type_name
from mirage_gate.facts.wiring import Group, tasks_in
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import misshapen, mistyped, without_kernel
from mirage_gate.rules._words import plural, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._shared import dispatched_kernels

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG508",
    "variant-shape",
    Severity.WARNING,
    "Tasks run a variant that was compiled for other tiles, or another than their siblings.",
    why="""
        A variant is a kernel generated for one shape: its tile sizes are template arguments.
        In correct graphs all tasks of one (type, variant) carry, slot by slot, tiles of one
        shape and data type. A task among them with another tile runs a kernel that was
        compiled for something else. An error where the data types differ in size. Nor do
        the tasks of one operator, with tiles all alike, run two variants, unless these are one
        kernel with another part of the work compiled into each.
    """,
    example="Of 128 tasks of variant 0, one carries 8 x 96 weights where all others carry 8 x 64.",
    fix="Give the tasks the variant that was generated for their tiles, or correct the tiles.",
    limits="A fork's kernel that reads its shape at run time can be waived.",
    repeats=True,
)


@RULE.checked_by
def variant_shape(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    told: set[int] = set()
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    tiles = [known.setdefault((t.data_type, t.dims), len(known)) for t in tensors]
    for (task_type, variant), groups in sorted(dispatched_kernels(facts).items()):
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


_Mixed = tuple[list[Group], list[Group]]
"""Groups of one variant, and those of the operator's usual one."""


def _mixed_variants(facts: RankFacts, told: set[int]) -> Iterator[Finding]:
    """Find operators whose tasks, with tiles all alike, run more than one variant.

    One finding for each kind of task, whatever the number of its variants and operators.
    """
    tensors = facts.graph.tensors
    mixed: dict[int, list[_Mixed]] = defaultdict(list)
    for operator in facts.layers.operators:
        if len({group.variant for group in operator.groups}) < 2:
            continue
        alike: dict[object, dict[int, list[Group]]] = defaultdict(dict)
        for group in operator.groups:
            operands = [tensors[n] for n in group.inputs + group.outputs]
            tiles = tuple((t.base_ptr, t.data_type, t.dims) for t in operands)
            alike[tiles].setdefault(group.variant, []).append(group)
        for variants in alike.values():
            if len(variants) < 2 or _share_the_work(facts, operator.task_type, variants):
                continue
            usual = max(variants, key=lambda variant: (tasks_in(variants[variant]), -variant))
            for variant, groups in variants.items():
                if variant != usual and told.isdisjoint(group.number for group in groups):
                    mixed[operator.task_type].append((groups, variants[usual]))
    for found in mixed.values():
        yield _odd_variant(facts, found)


def _share_the_work(facts: RankFacts, task_type: int, variants: dict[int, list[Group]]) -> bool:
    """Whether the variants are one kernel, each compiled for another part of the operator.

    Equally many tasks run each, and their bodies differ in one number that is passed.
    """
    if len({tasks_in(groups) for groups in variants.values()}) > 1:
        return False
    passed = []
    for variant in variants:
        branch = facts.wiring.branch(task_type, variant)
        calls = branch.body.calls if branch and branch.body else ()
        if not calls:
            return False
        kernel = [(c.function, [e.text for e in c.template], len(c.arguments)) for c in calls]
        passed.append((kernel, [e for c in calls for e in c.arguments]))
    if any(kernel != passed[0][0] for kernel, _ in passed):
        return False
    columns = list(zip(*(arguments for _, arguments in passed), strict=True))
    differing = [column for column in columns if len({e.text for e in column}) > 1]
    return len(differing) == 1 and len({e.value for e in differing[0]} - {None}) == len(variants)


def _odd_variant(facts: RankFacts, found: list[_Mixed]) -> Finding:
    groups, others = found[0]
    more = tasks_in(group for own, _ in found[1:] for group in own)
    also = f"; so do {plural(more, 'more task')} of that type" if more else ""
    own_groups = {g.number for own, _ in found for g in own}
    variants = {(g.task_type, g.variant) for own, _ in found for g in own}
    # Whoever else runs it lacks the branch too: that these tasks run it is another mistake.
    alone = len(variants) == 1 and all(
        group.number in own_groups
        for variant in variants
        for group in facts.wiring.kernels.get(variant, ())
    )
    return RULE.finding(
        facts.rank,
        (
            f"{tasks(facts, groups)} run variant {groups[0].variant}, and {tasks(facts, others)} "
            f"of the same operator, with tiles just like theirs, variant {others[0].variant}{also}"
        ),
        facts.in_graph("all_tasks", groups[0].first, "variant_id"),
        hint="give all tasks of the operator one variant",
        related=(
            facts.in_graph("all_tasks", others[0].first, "variant_id", note="the usual variant"),
        ),
        follows=[without_kernel(*variant) for variant in variants] if alone else (),
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
    claims = [
        claim(is_input, index, groups)
        for at, claim in enumerate((mistyped, misshapen))
        if any(shape[at] != usual[at] for shape in odd)
    ]
    clash = any(BITS.get(shape[0]) != BITS.get(usual[0]) for shape in odd)
    return RULE.finding(
        facts.rank,
        (
            f"{side} {index} of {tasks(facts, groups)} holds {_tile(other)}, and "
            f"variant {branch.variant} of {branch.type_name} runs on {_tile(usual)}"
        ),
        facts.in_graph("all_tasks", first.first, "variant_id"),
        hint="give the tasks the variant that was generated for their tiles",
        severity=Severity.ERROR if clash else Severity.WARNING,
        related=(
            branch.location.saying("the variant's kernel"),
            facts.in_graph("all_tasks", first.first, f"{side}s", index, "dims", note="its tile"),
        ),
        about=claims if len(claims) > 1 else (),
        causes=claims,
        follows=claims if len(claims) == 1 else (),
    )


def _tile(shape: tuple[int, tuple[int, ...]]) -> str:
    data_type, dims = shape
    return f"{' x '.join(map(str, dims)) or 'a scalar'} of {type_name(data_type)}"
