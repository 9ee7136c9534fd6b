"""MG206: the same bytes are used under two data types, or by a kernel for another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.facts.regions import BITS, type_name
from mirage_gate.facts.signatures.notation import KINDS
from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import mistyped
from mirage_gate.rules._words import declared, groups_of, slot_field, tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.bytes._shared import touched_tensors

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.signatures.notation import Operand
    from mirage_gate.facts.wiring import Access, Group

RULE = Rule(
    "MG206",
    "type-clash",
    Severity.WARNING,
    "The same bytes are used under two data types, or by a kernel for another one.",
    why="""
        A writer of bfloat16 and a reader of float32 over the same bytes do not mean the same
        numbers, and not the same number of them. Nor do bfloat16 and float16, or float8 and int8,
        whose sizes are equal and whose bits mean something else. In a correct graph a tensor has
        one data type wherever it is named.

        The table of task types says of some slots what their kernel takes: values or indices, 8-bit
        floats. A slot that holds something else is said too, as an error where integers stand
        for floating numbers or sizes differ.
    """,
    example="`lse` is written as float32 and read as bfloat16; an FP8 weight is passed as int8.",
    fix="Give the tensor one data type in the builder.",
    limits="""
        A buffer that is deliberately reused under another type, and a view of float8 as uint8, can
        be waived.
    """,
    repeats=True,
)


@RULE.checked_by
def type_clash(facts: RankFacts) -> Iterator[Finding]:
    tensors = facts.graph.tensors
    for name, _, accesses in touched_tensors(facts):
        if len(facts.regions.of(name).data_types) < 2:
            continue
        by_type: dict[int, list[Access]] = defaultdict(list)
        for access in accesses:
            if tensors[access.tensor].data_type in BITS:
                by_type[tensors[access.tensor].data_type].append(access)
        if len(by_type) < 2:
            continue
        regions = facts.regions.of(name)
        masks = {code: regions.union(a.tensor for a in found) for code, found in by_type.items()}
        usual = max(by_type, key=lambda code: (len(by_type[code]), code))
        for code, found in sorted(by_type.items()):
            both = masks[code] & masks[usual]
            if code == usual or not both:
                continue
            odd = next(a for a in found if regions.mask(a.tensor) & both)
            other = next(a for a in by_type[usual] if regions.mask(a.tensor) & both)
            slots = {(access.is_input, access.index) for access in found}
            yield RULE.finding(
                facts.rank,
                (
                    f"{regions.text(both)} of {name} are {_type(facts, odd)} to "
                    f"{tasks(facts, groups_of(found))} and {_type(facts, other)} to others"
                ),
                slot_field(facts, odd, "data_type"),
                hint=f"give {name} one data type",
                related=(
                    *declared(facts, name),
                    slot_field(facts, other, "data_type", "the other type"),
                ),
                tensor=name,
                follows=[mistyped(*slot, groups_of(found)) for slot in slots if len(slots) == 1],
            )
    yield from _other_kinds(facts)


def _other_kinds(facts: RankFacts) -> Iterator[Finding]:
    """Find slots that hold another kind of numbers than their kernel is for."""
    tensors = facts.graph.tensors
    types = [tensor.data_type for tensor in tensors]
    alike: dict[tuple[int, int, tuple[int, ...]], list[Group]] = defaultdict(list)
    for group in facts.wiring.groups:
        key = tuple([types[n] for n in group.inputs + group.outputs])
        alike[group.task_type, len(group.inputs), key].append(group)
    found: dict[tuple[str, str], list[tuple[Group, Operand]]] = defaultdict(list)
    for groups in alike.values():
        signature = facts.signatures.of(groups[0])
        for operand in signature.operands if signature else ():
            code = facts.signatures.tensor(groups[0], operand).data_type
            if operand.kind and code in BITS and not KINDS[operand.kind](code):
                for group in groups:
                    if facts.signatures.used(group, operand):
                        name = facts.signatures.tensor(group, operand).base_ptr
                        found[operand.kind, name].append((group, operand))
    for (kind, name), slots in found.items():
        group, operand = slots[0]
        code = facts.signatures.tensor(group, operand).data_type
        plain = kind == "f8" and BITS[code] == 8
        yield RULE.finding(
            facts.rank,
            f"{operand.side} of {tasks(facts, [g for g, _ in slots])} is for {_KINDS[kind]}, and "
            f"{name} is {type_name(code)} there",
            facts.in_graph(
                "all_tasks",
                group.first,
                "inputs" if operand.is_input else "outputs",
                operand.index,
                "data_type",
            ),
            hint=f"pass the tensor that belongs there, or give {name} the data type of the kernel",
            severity=Severity.WARNING if plain else Severity.ERROR,
            related=declared(facts, name),
            tensor=name,
        )


_KINDS = {"f": "floating numbers", "f8": "8-bit floating numbers", "i": "integers"}


def _type(facts: RankFacts, access: Access) -> str:
    code = facts.graph.tensors[access.tensor].data_type
    return f"{type_name(code)} ({BITS[code]} bits)"
