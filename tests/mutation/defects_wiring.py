"""Names: tensors that nobody wires, wires wrongly, declares twice or not at all."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator

from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject, layer_of, role_of

TABLES = ("cos_position_embedding", "sin_position_embedding", "rope_cos", "rope_sin")


def _siblings(subject: Subject, name: str) -> list[str]:
    """The tensors with the same role in other layers."""
    if layer_of(name) is None:
        return []
    role = role_of(name)
    return [n for n in subject.storage if n != name and role_of(n) == role]


@defect("MG101", "MG102")
def weight_taken_from_another_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Every reference to a loaded tensor names its sibling of another layer instead.

    The tensor is attached, and no task reads or writes it: a layer computes with another's weight.
    """
    for name in mixed(rng, subject.kinds("host", "shuffled")):
        siblings = [n for n in _siblings(subject, name) if n in subject.by_name]
        if not siblings:
            continue
        other = rng.choice(siblings)
        draft = Draft(subject, f"{name} is {other} everywhere")
        _replace_everywhere(draft, name, other)
        draft.declared(name)
        yield draft.mutant()


def _replace_everywhere(draft: Draft, name: str, other: str) -> None:
    for number, task in enumerate(draft.tasks):
        for side in ("inputs", "outputs"):
            for slot, tensor in enumerate(task[side] or []):
                if tensor["base_ptr"] == name:
                    draft.slot(number, side, slot)["base_ptr"] = other


@defect("MG101", "MG102")
def loaded_and_passed_to_nobody(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A host tensor is attached that no task names: the operator it is for was never emitted."""
    for name in ("layer_0_new_norm", "bias", "rope_cos_2", "layer_1_k_scale"):
        draft = Draft(subject, f"{name} is attached for nobody")
        draft.replace(
            '  all_tensors["nullptr"]',
            f'  char *{name} = static_cast<char*>(model_tensors.at("{name}"));\n'
            f'  all_tensors["{name}"] = {name};\n  all_tensors["nullptr"]',
        )
        draft.declared(name)
        yield draft.mutant()


@defect("MG101")
def tables_none_everywhere(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Every attention task gets None for a rotary table that is still attached."""
    tables = [name for name in TABLES if name in subject.by_name]
    for chosen in (tables[:1], tables[1:2], tables):
        uses = [use for name in chosen for use in subject.by_name[name]]
        if not uses or not all(use.optional for use in uses):
            continue
        draft = Draft(subject, f"{' and '.join(chosen)} is None everywhere")
        for use in uses:
            _none(draft, use.task, use.side, use.slot)
        for name in chosen:
            draft.declared(name)
        yield draft.mutant()


def _none(draft: Draft, task: int, side: str, slot: int) -> None:
    """What MPK emits for an input that is None."""
    nothing = {"base_ptr": "nullptr", "data_type": 999, "dims": [], "offset": 0, "strides": []}
    draft.task(task)[side][slot] = nothing


@defect("MG107", "MG101")
def table_slot_dropped_from_every_body(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """No dispatch body names the slot that carries a rotary table: listed, and read by nobody."""
    for name in TABLES:
        slots = {(use.side, use.slot) for use in subject.by_name.get(name, ())}
        carriers = {
            (t["task_type"], t["variant_id"], slot)
            for t in subject.tasks
            for slot, tensor in enumerate(t["inputs"] or [])
            if tensor["base_ptr"] == name
        }
        if not slots:
            continue
        draft = Draft(subject, f"no body names the slot of {name}")
        for code, variant, slot in sorted(carriers):
            _drop_from_body(draft, code, variant, f"input_ptrs[{slot}]")
        draft.declared(name)
        yield draft.mutant()


def _drop_from_body(draft: Draft, code: int, variant: int, expression: str) -> None:
    """Blank out an expression in the body of one branch."""
    start, end = branch_span(draft.cuda, code, variant)
    body = draft.cuda[start:end]
    body = body.replace(f"task_desc->{expression}", "nullptr").replace(
        f"task_desc.{expression}", "nullptr"
    )
    draft.cuda = draft.cuda[:start] + body + draft.cuda[end:]


_CONDITION = re.compile(
    r"(?:else )?if \(task_desc(?:->|\.)task_type == (\w+) && .*variant_id == (\d+)"
)


def branch_span(cuda: str, code: int, variant: int) -> tuple[int, int]:
    """Where a branch of the dispatch chain stands, condition and body."""
    from tests.emitter.invariants import CODES

    found = list(_CONDITION.finditer(cuda))
    for match, after in zip(found, [*found[1:], None], strict=True):
        if (CODES[match[1]], int(match[2])) == (code, variant):
            end = after.start() if after else cuda.index("\n}", match.end())
            return match.start(), end
    raise LookupError(f"no branch for {code}, {variant}")


@defect("MG105")
def writers_moved_elsewhere(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """All writers of a scratch tensor write to another, new one; its readers stay.

    Only tensors that no slot both reads and writes, so that no writer is left.
    """
    for name in mixed(rng, subject.kinds("scratch", "symmetric")):
        uses = subject.by_name[name]
        writes = [use for use in uses if use.writes]
        if not writes or any(use.reads for use in writes) or not any(use.reads for use in uses):
            continue
        draft = Draft(subject, f"all writers of {name} write elsewhere")
        draft.declare(f"{name}_moved", max(subject.nbytes(name), 1))
        for use in writes:
            draft.slot(use.task, use.side, use.slot)["base_ptr"] = f"{name}_moved"
        draft.declared(name)
        yield draft.mutant()


@defect("MG105", "MG2", "MG3")
def reader_takes_a_buffer_that_nobody_writes(
    subject: Subject, rng: random.Random
) -> Iterator[Mutant]:
    """One task reads, in place of its scratch operand, a buffer that no task writes."""
    uses = [
        u for u in subject.uses if u.reads and not u.writes and subject.storage[u.name] == "scratch"
    ]
    for use in mixed(rng, uses):
        draft = Draft(subject, f"task {use.task} reads a buffer that nobody writes")
        draft.declare("stale_buffer", subject.nbytes(use.name))
        draft.slot(use.task, use.side, use.slot)["base_ptr"] = "stale_buffer"
        draft.declared("stale_buffer")
        yield draft.mutant()


@defect("MG104", "MG105")
def readers_moved_elsewhere(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """All readers of a scratch tensor read another, new one: read and never written."""
    for name in mixed(rng, subject.kinds("scratch", "symmetric")):
        uses = subject.by_name[name]
        reads = [use for use in uses if use.reads]
        if not reads or any(use.writes for use in reads):
            continue
        draft = Draft(subject, f"all readers of {name} read elsewhere")
        draft.declare("moved", subject.nbytes(name))
        for use in reads:
            draft.slot(use.task, use.side, use.slot)["base_ptr"] = "moved"
        draft.declared("moved")
        draft.declared(name)
        yield draft.mutant()


@defect("MG106")
def declaration_removed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The `all_tensors` statement of a tensor that tasks name is gone."""
    for name in mixed(rng, subject.any_reference - {"nullptr"}):
        draft = Draft(subject, f"{name} is not declared")
        draft.sub(rf'^.*all_tensors\["{re.escape(name)}"\] =.*\n', "")
        _first_reference(draft, name)
        yield draft.mutant()


def _first_reference(draft: Draft, name: str) -> None:
    for number, task in enumerate(draft.tasks):
        for side in ("inputs", "outputs"):
            for slot, tensor in enumerate(task[side] or []):
                if tensor["base_ptr"] == name:
                    draft.at(number, side, slot, "base_ptr")
                    return


@defect("MG106")
def declaration_commented_out(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The statement is still there to be read, in a comment or in dead code, and does nothing."""
    for name in mixed(rng, subject.any_reference - {"nullptr"}):
        draft = Draft(subject, f"the declaration of {name} is no code")
        before, after = rng.choice([("// ", ""), ("/* ", " */"), ("\n#if 0\n", "\n#endif")])
        draft.sub(rf'^(.*all_tensors\["{re.escape(name)}"\] =.*)$', rf"{before}\g<1>{after}")
        _first_reference(draft, name)
        yield draft.mutant()


@defect("MG106")
def reference_misspelled(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One task names a tensor that is declared nowhere."""
    for use in mixed(rng, subject.uses):
        draft = Draft(subject, f"task {use.task} misspells {use.name}")
        wrong = rng.choice(
            [use.name + "_", use.name.upper() + "X", use.name[:-1], " " + use.name, ""]
        )
        if wrong in subject.storage or wrong == use.name:
            continue
        draft.slot(use.task, use.side, use.slot)["base_ptr"] = wrong
        draft.at(use.task, use.side, use.slot, "base_ptr")
        yield draft.mutant()


@defect("MG108")
def declared_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A name has two `all_tensors` statements: the later wins, the earlier's tensor is lost."""
    for name in mixed(rng, subject.storage):
        draft = Draft(subject, f"{name} is declared twice")
        draft.replace(
            '  all_tensors["nullptr"]',
            f'  all_tensors["{name}"] = {name};\n  all_tensors["nullptr"]',
        )
        draft.places.add(("cuda", draft.cuda_line('all_tensors["nullptr"]') - 1))
        yield draft.mutant()


@defect("MG108")
def two_names_on_one_address(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two attached tensors have one literal address, and tasks write one of them."""
    literals = dict(re.findall(r"char \*(\w+) = \(char\*\)\((0x[0-9a-f]+)\)", subject.cuda))
    written = [n for n in literals if any(u.writes for u in subject.by_name.get(n, ()))]
    for name in mixed(rng, written):
        other = rng.choice([n for n in literals if n != name and literals[n] != literals[name]])
        draft = Draft(subject, f"{name} and {other} are one address")
        draft.sub(rf"(char \*{name} = \(char\*\)\()0x[0-9a-f]+", rf"\g<1>{literals[other]}")
        draft.declared(name)
        draft.declared(other)
        yield draft.mutant()


@defect("MG109")
def name_is_no_identifier(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A name with a dot or a dash, in both files: nvcc cannot compile the variable."""
    for name in mixed(rng, subject.storage):
        wrong = rng.choice([f"model.{name}", name + "-2", "2" + name, name.replace("_", "/", 1)])
        if wrong == name:
            continue
        draft = Draft(subject, f"{name} is named {wrong}")
        draft.rename(name, wrong)
        draft.declared(wrong)
        yield draft.mutant()


@defect("MG105", "MG2", "MG3", "MG7")
def operands_of_one_layer_swapped(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An operator reads a scratch of the same size, written by no task, as its activation.

    In one operator only: elsewhere the right buffer is still written and read.
    """
    for (_operator, side, slot), uses in mixed(rng, subject.by_operator_slot.items()):
        if side != "inputs" or subject.storage[uses[0].name] != "scratch":
            continue
        if any(use.writes for use in uses):
            continue
        draft = Draft(subject, f"operator of task {uses[0].task} reads a buffer nobody writes")
        draft.declare("unfilled", subject.nbytes(uses[0].name))
        for use in uses:
            draft.slot(use.task, side, slot)["base_ptr"] = "unfilled"
        draft.declared("unfilled")
        yield draft.mutant()


def groups_by_role(subject: Subject) -> dict[str, list[str]]:
    """Names of layer tensors by role."""
    roles: dict[str, list[str]] = defaultdict(list)
    for name in subject.storage:
        if layer_of(name) is not None:
            roles[role_of(name)].append(name)
    return roles
