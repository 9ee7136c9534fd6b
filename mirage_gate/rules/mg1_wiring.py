"""MG1: is every declared tensor wired to a task, and every wired tensor declared?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import BUFFERS, LOADED, SENTINEL, Declaration
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import declared, groups_of, plural, size, slot_field, storage, tasks
from mirage_gate.rules.base import rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Access, Group


_MOST_UNDECLARED = 20
"""Above so many names, what is wrong is the pair and not a name."""


def _unreferenced(facts: RankFacts, name: str) -> bool:
    return not facts.wiring.of(name)


@rule(
    "MG101",
    "unwired-critical-tensor",
    Severity.ERROR,
    "A critical tensor is declared and no task reads it.",
    why="""
        The rotary tables carry the positions. When no task reads them, attention knows no
        order of tokens: the kernel compiles, exits 0, every numerics test of a kernel
        passes, because each kernel is right, and the model babbles. The task that was
        never emitted has no test.
    """,
    example="""
        `all_tensors["rope_cos"] = rope_cos;` stands in the `.cu`, and no task of the graph
        has `rope_cos` among its inputs.
    """,
    fix="""
        Pass the table to the operator that needs it in the Python builder (the attention
        layer's cos/sin arguments, or the layer that applies RoPE), emit again and check
        that `consumer_task_types` names that operator.
    """,
    limits="""
        Names decide what is critical: the built-in list and patterns, or `--critical`. A
        table that is deliberately unused should not be attached. A slot that the dispatch
        body ignores does not count as a reader; that case is MG107's.
    """,
)
def unwired_critical_tensor(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if not facts.is_critical(declaration) or facts.wiring.consumers(name):
            continue
        if any(access.is_input and access.ignored for access in facts.wiring.of(name)):
            continue  # MG107 says it
        refs = facts.wiring.input_refs(name)
        yield Finding(
            rule="MG101",
            severity=Severity.ERROR,
            message=f"critical tensor {name} is declared and no task reads it (input_refs={refs})",
            location=declaration.location,
            hint=f"wire {name} to the layer that needs it in the builder, then emit again",
            related=storage(declaration),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG102",
    "unwired-loaded-tensor",
    Severity.ERROR,
    "A host or shuffled tensor is loaded, and no task reads or writes it.",
    why="""
        The builder attached a weight, cache or table and then wired it to nothing. In
        correct graphs every host or shuffled tensor is referenced by a task, whatever its
        name, so this needs no list of names.
    """,
    example="""
        `layer_3_q_norm` is attached from the model's weights and the attention layer was
        built without it: queries are not normalised in layer 3.
    """,
    fix="""
        Pass the tensor to the operator it belongs to. If the model really does not use it,
        do not attach it: it costs memory on every rank.
    """,
)
def unwired_loaded_tensor(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind not in LOADED or facts.is_critical(declaration):
            continue
        if _unreferenced(facts, name):
            yield Finding(
                rule="MG102",
                severity=Severity.ERROR,
                message=(
                    f"{declaration.kind} tensor {name} is loaded and no task reads or writes it "
                    "(input_refs=0, output_refs=0)"
                ),
                location=declaration.location,
                hint=f"pass {name} to the operator it belongs to, or do not attach it",
                related=storage(declaration),
                tensor=name,
                rank=facts.rank,
            )


@rule(
    "MG103",
    "unused-buffer",
    Severity.NOTE,
    "A scratch or symmetric buffer is allocated and no task references it.",
    why="""
        Builders allocate some buffers for every configuration, so an unused one is normal.
        It costs device memory, and now and then it is the trace of an operator that was
        meant to be there.
    """,
    example="`all_reduce_buf` is allocated in a run on one GPU.",
    fix="Allocate the buffer only where it is used, or leave it.",
)
def unused_buffer(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind not in (*BUFFERS, "unknown") or not _unreferenced(facts, name):
            continue
        if facts.is_critical(declaration):
            continue  # MG101 says it
        kind = "tensor of unknown storage" if declaration.kind == "unknown" else declaration.kind
        yield Finding(
            rule="MG103",
            severity=Severity.NOTE,
            message=f"{kind} {name}{size(declaration)} is allocated and no task references it",
            location=declaration.location,
            hint="allocate it only where it is used",
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG104",
    "never-read",
    Severity.WARNING,
    "A scratch tensor is written and no task reads it.",
    why="""
        Work whose result nobody uses is either wasted or, more often, a consumer that reads
        another buffer than it should. What the known final steps (argmax, sampling,
        verification, acceptance) write is for the host and is not reported.
    """,
    example="`mlp_mid` is written by the gate/up projection and SiLU reads `mlp_mid_old`.",
    fix="Wire the consumer to this tensor, or drop the operator that writes it.",
    limits="A fork's own final step is told apart with `final = true` in `task-types`.",
)
def never_read(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind not in BUFFERS:
            continue
        producers = facts.wiring.producers(name)
        if not producers or facts.wiring.consumers(name):
            continue
        if any(facts.task_type(group.task_type).final for group in producers):
            continue
        writer = next(access for access in facts.wiring.of(name) if access.writes)
        yield Finding(
            rule="MG104",
            severity=Severity.WARNING,
            message=(
                f"{declaration.kind} {name}{size(declaration)} is written by "
                f"{tasks(facts, producers)} and read by none"
            ),
            location=declaration.location,
            hint=f"wire its reader to {name}, or drop the operator that writes it",
            related=(slot_field(facts, writer, "base_ptr", "written here"),),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG105",
    "never-written",
    Severity.ERROR,
    "A scratch or symmetric tensor is read, and nothing writes it.",
    why="""
        Only tasks fill scratch memory. A tensor that is read and never written holds
        whatever was there before: the operator computes with garbage.
    """,
    example="`mtp_target_token_ids` is read by the verification step and no task writes it.",
    fix="Wire the operator that should produce the tensor, or read the one that it does write.",
)
def never_written(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind not in BUFFERS:
            continue
        consumers = facts.wiring.consumers(name)
        if not consumers or facts.wiring.producers(name):
            continue
        reader = next(access for access in facts.wiring.of(name) if access.reads)
        yield Finding(
            rule="MG105",
            severity=Severity.ERROR,
            message=(
                f"{declaration.kind} {name}{size(declaration)} is read by "
                f"{tasks(facts, consumers)} and written by none"
            ),
            location=declaration.location,
            hint=f"wire the operator that produces {name}",
            related=(slot_field(facts, reader, "base_ptr", "read here"),),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG106",
    "undeclared-tensor",
    Severity.ERROR,
    "A task names a tensor that the CUDA file does not declare.",
    why="""
        The loader looks the name up in `all_tensors`. Its check is an assert, compiled out
        in the default build: what follows is undefined. Most often the two files are not
        of one build.
    """,
    example='A task reads `"base_ptr": "mlp_final"`, and the `.cu` declares `mlp_out`.',
    fix="Emit both files again, together; never mix the halves of two builds.",
)
def undeclared_tensor(facts: RankFacts) -> Iterator[Finding]:
    undeclared = {
        name: accesses
        for name, accesses in facts.wiring.accesses.items()
        if name not in facts.declared
    }
    if len(undeclared) > _MOST_UNDECLARED:
        yield _many_undeclared(facts, undeclared)
        return
    for name, accesses in undeclared.items():
        refs = sum(access.group.count for access in accesses)
        first = min(accesses, key=lambda access: access.group.first)
        yield Finding(
            rule="MG106",
            severity=Severity.ERROR,
            message=(
                f"{name} is named in {plural(refs, 'slot')} of "
                f"{tasks(facts, groups_of(accesses))} and declared nowhere in the CUDA file"
            ),
            location=slot_field(facts, first, "base_ptr"),
            hint="emit kernel and graph again, together",
            tensor=name,
            rank=facts.rank,
        )


def _many_undeclared(facts: RankFacts, undeclared: dict[str, list[Access]]) -> Finding:
    """So many names are missing that the files belong to two builds: said once."""
    named = len(facts.wiring.accesses)
    accesses = [access for own in undeclared.values() for access in own]
    first = min(accesses, key=lambda access: access.group.first)
    return Finding(
        rule="MG106",
        severity=Severity.ERROR,
        message=(
            f"{len(undeclared)} of the {named} names in the graph are declared nowhere in the CUDA "
            f"file ({', '.join(list(undeclared)[:3])}, …): the two files are not of one build"
        ),
        location=slot_field(facts, first, "base_ptr"),
        hint="emit kernel and graph again, together",
        rank=facts.rank,
    )


@rule(
    "MG107",
    "ignored-input",
    Severity.NOTE,
    "Tasks carry the tensor in an input slot that no dispatch body reads.",
    why="""
        The graph lists a tensor for a task, and the kernel that runs the task never touches
        that slot. For a residual that a rank compiles out that is right; for a rotary table
        it means that the model knows no positions although every list of names looks
        complete. An error if the tensor is critical and nothing else consumes it.
    """,
    example="""
        A task of type 278 carries `rope_cos` as input 4, and its branch names
        `task_desc->input_ptrs[0]` to `[3]` only.
    """,
    fix="Emit a kernel that reads the slot, or wire the tensor to the operator that does.",
)
def ignored_input(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        ignored = [a for a in facts.wiring.of(name) if a.is_input and a.ignored]
        if not ignored:
            continue
        lost = facts.is_critical(declaration) and not facts.wiring.consumers(name)
        slots = sorted({(access.group.task_type, access.index) for access in ignored})
        where = ", ".join(f"input {index} of {facts.task_type(t).name}" for t, index in slots[:3])
        more = " and others" if len(slots) > 3 else ""
        branch = facts.wiring.branch(ignored[0].group.task_type, ignored[0].group.variant)
        body = (branch.location.saying("this body does not read the slot"),) if branch else ()
        yield Finding(
            rule="MG107",
            severity=Severity.ERROR if lost else Severity.NOTE,
            message=(
                f"{'critical tensor ' * lost}{name} is carried by "
                f"{tasks(facts, groups_of(ignored))} in a slot that no body reads ({where}{more})"
                + (" and no task reads it" if lost else "")
            ),
            location=declaration.location,
            hint=f"emit a kernel that reads {name}, or do not pass it",
            related=(*body, slot_field(facts, ignored[0], "base_ptr", "carried here")),
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG108",
    "repeated-declaration",
    Severity.ERROR,
    "A name is declared twice, or two names share one literal pointer.",
    why="""
        `all_tensors` is a map: the later declaration wins, and every task that names the
        tensor gets it. Two names on one address are one tensor under two names: writing one
        overwrites the other. Where tasks only read it, as when several MTP steps share one
        norm, it is a note.
    """,
    example='`all_tensors["layer_0_q_norm"] = …;` stands twice: attached in two places.',
    fix="Attach each tensor once, under one name.",
)
def repeated_declaration(facts: RankFacts) -> Iterator[Finding]:
    first_at: dict[str, Declaration] = {}
    pointers: dict[str, Declaration] = {}
    for declaration in facts.cuda.declarations:
        name = declaration.name
        earlier = first_at.setdefault(name, declaration)
        if earlier is not declaration:
            yield Finding(
                rule="MG108",
                severity=Severity.ERROR,
                message=(
                    f"{name} is declared again (first on line {earlier.location.line}): "
                    "the later declaration replaces the earlier"
                ),
                location=declaration.location,
                hint=f"attach {name} once",
                related=(earlier.location.saying("declared here first"),),
                tensor=name,
                rank=facts.rank,
            )
        if not declaration.pointer:
            continue
        other = pointers.setdefault(declaration.pointer, declaration)
        if other.name != name:
            writers = facts.wiring.producers(name) or facts.wiring.producers(other.name)
            shared = f"written by {tasks(facts, writers)}" if writers else "tasks only read it"
            yield Finding(
                rule="MG108",
                severity=Severity.ERROR if writers else Severity.NOTE,
                message=(
                    f"{name} and {other.name} are one address, {declaration.pointer} ({shared})"
                ),
                location=declaration.location,
                hint="attach each tensor once, under one name",
                related=(other.location.saying(f"{other.name} is declared here"),),
                tensor=name,
                rank=facts.rank,
            )


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@rule(
    "MG109",
    "illegal-name",
    Severity.ERROR,
    "A declared name is no C++ identifier.",
    why="""
        The emitter writes the name as a C++ variable. With a dot or a dash in it the file
        does not compile, which nvcc says ten minutes later and a thousand lines further on.
    """,
    example='`char *model.layers.0.x = …; all_tensors["model.layers.0.x"] = model.layers.0.x;`',
    fix="Attach the tensor under a name of letters, digits and underscores.",
)
def illegal_name(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind == "sentinel" or _IDENTIFIER.match(name):
            continue
        legal = re.sub(r"\W", "_", name, flags=re.ASCII)
        yield Finding(
            rule="MG109",
            severity=Severity.ERROR,
            message=f"{name or 'the empty name'} is no C++ identifier: the kernel cannot compile",
            location=declaration.location,
            hint=f"attach it as {legal}" if legal and not legal[0].isdigit() else "rename it",
            tensor=name,
            rank=facts.rank,
        )


@rule(
    "MG110",
    "nothing-critical",
    Severity.WARNING,
    "No declared tensor is critical: nothing was proven about position encoding.",
    why="""
        A check by name finds nothing when the names differ, and passes without having
        checked anything. The gate says so instead of passing in silence.
    """,
    example="The rotary tables are called `freqs`, which no built-in pattern matches.",
    fix="""
        Name the tables: `--critical +freqs` adds to the built-in list, and
        `critical = ["+freqs"]` in the configuration makes it last.
    """,
    limits="""
        A model without rotary tables can ignore the rule: `--ignore MG110`. Where a list given
        with `--critical` matches nothing at all, it is an error.
    """,
)
def nothing_critical(facts: RankFacts) -> Iterator[Finding]:
    critical = facts.options.critical
    names = list(facts.declared)
    none = not any(facts.is_critical(d) for d in facts.declared.values())
    # A list of the user's own that matches nothing is a mistake, not another model.
    severity = Severity.ERROR if none and not critical.built_in else Severity.WARNING
    for name in critical.asked:
        if name not in facts.declared:
            from difflib import get_close_matches  # slow to load

            close = get_close_matches(name, names, n=2)
            near = f" (there is {' and '.join(close)})" if close else ""
            yield Finding(
                rule="MG110",
                severity=severity,
                message=(
                    f"critical tensor {name} was asked for and is not declared{near}: not checked"
                ),
                location=Location(facts.cuda.path, 1, 1, 1, 1),
                hint="correct the name given to --critical",
                tensor=name,
                rank=facts.rank,
            )
    if not none or (critical.asked and not (critical.patterns or critical.built_in)):
        return
    at = next((d.location for d in facts.declared.values()), Location(facts.cuda.path, 1, 1, 1, 1))
    count = len(names) - (SENTINEL in names)
    yield Finding(
        rule="MG110",
        severity=severity,
        message=(
            f"none of the {count} declared tensors is critical: "
            "nothing was proven about position encoding"
        ),
        location=at,
        hint="name the rotary tables with --critical +NAME",
        rank=facts.rank,
    )


@rule(
    "MG111",
    "exchanged-operands",
    Severity.WARNING,
    "Two inputs of attention carry each other's tensor, by their names.",
    why="""
        Cosine and sine tables have one shape, and so have the caches of keys and values and
        the norms of queries and keys. Exchanged, each is read by the right tasks in every
        layer, all bytes are covered, and the positions are wrong.
    """,
    example="Input 5 of attention is `sin_pos_embed`, and input 6 is `cos_pos_embed`.",
    fix="Exchange the two arguments of the attention layer in the builder.",
    limits="""
        Names decide: `cos` and `sin`, `k` and `v`, `q` and `k`, as words of their own. Only
        for the attention kernels of MPK, whose inputs are known.
    """,
)
def exchanged_operands(facts: RankFacts) -> Iterator[Finding]:
    found: dict[tuple[int, int, int], list[Group]] = {}
    for group in facts.wiring.groups:
        words = facts.task_type(group.task_type).words
        if not words:
            continue
        names = facts.wiring.names(group)[0][: len(words)]
        for one, other in combinations(range(len(names)), 2):
            own, its = words[one], words[other]
            if own and its and own != its:
                here, there = _words_in(names[one]), _words_in(names[other])
                if {own, its} & here == {its} and {own, its} & there == {own}:
                    found.setdefault((group.task_type, one, other), []).append(group)
    for (task_type, one, other), groups in sorted(found.items()):
        names = facts.wiring.names(groups[0])[0]
        words = facts.task_type(task_type).words
        yield Finding(
            rule="MG111",
            severity=Severity.WARNING,
            message=(
                f"{names[one]} is input {one} of {tasks(facts, groups)} and {names[other]} input "
                f"{other}: by their names they are each other's ({words[one]}, {words[other]})"
            ),
            location=facts.in_graph("all_tasks", groups[0].first, "inputs", one, "base_ptr"),
            hint=f"exchange {names[one]} and {names[other]}",
            related=(
                facts.in_graph(
                    "all_tasks", groups[0].first, "inputs", other, "base_ptr", note="the other"
                ),
                *declared(facts, names[one]),
                *declared(facts, names[other]),
            ),
            tensor=names[one],
            rank=facts.rank,
        )


def _words_in(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name.lower()))
