"""Changes that leave a correct pair correct: the gate has nothing new to say."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .defects_wiring import branch_span
from .draft import Draft, Mutant
from .registry import harmless, mixed
from .subject import Subject, layer_of, role_of

# -- the graph's text --------------------------------------------------------------------------


@harmless()
def other_json_layout(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The same values, minified, indented otherwise, with CRLF, blanks, a BOM, a last newline."""
    graph = Draft(subject).graph()
    text = Draft(subject).text()
    layouts = {
        "minified": json.dumps(graph, separators=(",", ":")),
        "one line": json.dumps(graph),
        "indent 4": json.dumps(graph, indent=4, sort_keys=True),
        "indent 0": json.dumps(graph, indent=0),
        "tabs": json.dumps(graph, indent="\t"),
        "CRLF": text.replace("\n", "\r\n"),
        "a BOM": b"\xef\xbb\xbf" + text.encode(),
        "a last newline": text + "\n",
        "blanks around": " \n\t" + text + " \r\n" * 99,
        "blank lines": text.replace("\n", "\n\n"),
        "blanks before colons": text.replace('":', '" \t:'),
    }
    for what, changed in mixed(rng, layouts.items()):
        yield Mutant(subject.cuda, changed, what=what)


@harmless()
def keys_in_another_order(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The members of every object stand in another order."""

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in mixed(rng, value)}
        return [turned(element) for element in value] if isinstance(value, list) else value

    for _ in range(8):
        text = json.dumps(turned(Draft(subject).graph()), indent=2)
        yield Mutant(subject.cuda, text, what="keys in another order")


@harmless()
def names_written_with_escapes(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Underscores of names and keys are written as an escape: the same strings to any reader."""
    text = Draft(subject).text()
    for pattern in (r'"base_ptr"', r"layer_", r"_"):
        escaped = pattern.replace("_", "\\u005f")
        yield Mutant(subject.cuda, text.replace(pattern, escaped), what=f"{pattern} escaped")


@harmless()
def unknown_fields(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Tasks, tensors, events and the top level have members that nobody knows."""
    extras: list[Any] = [None, 1, -1.5e300, "inputs", [], {}, {"all_tasks": [{"base_ptr": "x"}]}]
    for number in range(10):
        draft = Draft(subject, f"unknown fields, {number}")
        for _ in range(20):
            task = draft.task(rng.randrange(len(draft.tasks)))
            task[f"extra_{number}"] = rng.choice(extras)
            for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ())):
                tensor["name"] = rng.choice(extras)
            draft.event(rng.randrange(len(draft.events)))["comment"] = rng.choice(extras)
        text = draft.text()
        if number % 2:
            text = text[: text.rindex("}")].rstrip() + ',\n  "zz_version": {"a": [1, "]"]}\n}'
        yield Mutant(draft.cuda, text, what=draft.note)


@harmless()
def numbers_spelled_otherwise(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Sizes, pitches and offsets of the `.cu` with separators or suffixes, or in another base."""
    text = Draft(subject).text()
    numbers = re.compile(r"(?<=[ (,])(\d{4,})(?=[,)])")
    for what, spelled in {
        "separators": lambda found: f"{int(found[1]):,}".replace(",", "'"),
        "suffixes": lambda found: f"{found[1]}ULL",
        "hexadecimal": lambda found: hex(int(found[1])),
        "octal": lambda found: f"0{int(found[1]):o}",
    }.items():
        yield Mutant(numbers.sub(spelled, subject.cuda), text, what=f"numbers with {what}")


@harmless()
def empty_lists_for_null(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """`[]` where the emitter writes null: to the loader the same, no slot."""
    draft = Draft(subject, "[] for null")
    for number, task in enumerate(subject.tasks):
        for side in ("inputs", "outputs"):
            if task[side] is None:
                draft.task(number)[side] = []
    yield draft.mutant()


@harmless()
def noise_in_metadata(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Metadata fields that no body reads hold other noise, all of one union."""
    fields = ("expert_offset", "kv_idx", "merge_task_offset", "request_id", "task_offset")
    reads = {
        key: [name for name in names if name in fields]
        for key, names in subject.source.runtime.items()
    }
    quiet = [
        n
        for n, t in enumerate(subject.tasks)
        if n > 1 and not reads.get((t["task_type"], t["variant_id"]), [""])
    ]
    for _ in range(6):
        draft = Draft(subject, "other noise in metadata")
        for number in mixed(rng, quiet)[:100]:
            task = draft.task(number)
            for field in fields:
                if field in task:
                    task[field] = rng.choice([0, 7, 65535, -1, 16711687, -65536])
        yield draft.mutant()


@harmless()
def strides_of_single_rows(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A dim of one element has another stride, in all tasks or one: no address depends on it."""
    slots = [tiles for tiles in subject.by_operator_slot.values() if 1 in tiles[0].tile[1]]
    for times in range(8 if slots else 0):
        alone = times % 2
        draft = Draft(subject, f"other strides for dims of 1{' in one task' * alone}")
        for tiles in mixed(rng, slots)[:20]:
            axis = rng.choice([i for i, dim in enumerate(tiles[0].tile[1]) if dim == 1])
            stride = rng.choice([0, 1, 8, 2**30])
            for use in [rng.choice(tiles)] if alone else tiles:
                draft.slot(use.task, use.side, use.slot)["strides"][axis] = stride
        yield draft.mutant()


# -- names, numbers, order -----------------------------------------------------------------------


@harmless()
def scratch_renamed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Scratch buffers have other names, in both files; a layer's in every layer alike."""
    plain = [n for n in subject.kinds("scratch", "symmetric") if layer_of(n) is None]
    roles: dict[str, list[str]] = defaultdict(list)
    for name in subject.kinds("scratch", "symmetric"):
        if layer_of(name) is not None:
            roles[role_of(name)].append(name)
    for name in mixed(rng, plain):
        draft = Draft(subject, f"{name} renamed")
        draft.rename(name, rng.choice([f"buf_{len(name)}", f"{name}_v2", f"X{name}", "tmp"]))
        yield draft.mutant()
    for names in mixed(rng, roles.values()):
        draft = Draft(subject, f"{names[0]} and siblings renamed")
        for name in names:
            draft.rename(name, f"{name}_new")
        yield draft.mutant()


@harmless()
def weights_renamed(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A weight has another name in every layer."""
    roles: dict[str, list[str]] = defaultdict(list)
    for name in subject.kinds("host", "shuffled"):
        if layer_of(name) is not None:
            roles[role_of(name)].append(name)
    for names in mixed(rng, roles.values()):
        draft = Draft(subject, f"{names[0]} and siblings renamed")
        for name in names:
            draft.rename(name, f"{name}_w")
        yield draft.mutant()


@harmless()
def tasks_permuted(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Tasks that wait for one event stand in another order: nothing orders them anyway."""
    for _ in range(6):
        draft = Draft(subject, "tasks permuted within their events' ranges")
        spans = [(2, 2 + len(draft.first_tasks))]
        spans += [(e["first_task_id"], e["last_task_id"]) for e in draft.events[2:-1]]
        for low, high in spans:
            part = draft.tasks[low:high]
            rng.shuffle(part)
            draft.tasks[low:high] = part
        yield draft.mutant()


@harmless()
def events_renumbered(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The inner events have other positions, and every id follows."""
    for _ in range(4):
        draft = Draft(subject, "events renumbered")
        inner = list(range(2, len(draft.events) - 1))
        places = dict(zip(inner, mixed(rng, inner), strict=True))
        events = list(draft.events)
        for old, new in places.items():
            events[new] = draft.events[old]
        draft.events = events
        _renumber(draft, places)
        yield draft.mutant()


def _renumber(draft: Draft, places: dict[int, int]) -> None:
    for number in range(1, len(draft.tasks)):
        for field in ("dependent_event", "trigger_event"):
            value = draft.tasks[number][field]
            at = value & 0xFFFF_FFFF
            if value != 0x7FFF_FFFF_FFFF_FFFE and places.get(at, at) != at:
                draft.task(number)[field] = value - at + places[at]


@harmless()
def events_merged(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two neighbouring events between the same two operators become one: more order, not less."""
    operator_of = {t: uses[0].operator for t, uses in subject.by_task.items()}
    fired: dict[int, set[int]] = defaultdict(set)
    for task in subject.by_task:
        if not subject.tasks[task]["trigger_event"] >> 48:
            fired[subject.trigger(task)].add(operator_of[task])
    for one in mixed(rng, range(2, len(subject.events) - 2)):
        two = one + 1
        a, b = subject.events[one], subject.events[two]
        waiting = {
            operator_of.get(t) for e in (a, b) for t in range(e["first_task_id"], e["last_task_id"])
        }
        if len(waiting) != 1 or len(fired[one]) != 1 or fired[one] != fired[two]:
            continue
        if a["last_task_id"] != b["first_task_id"]:
            continue
        draft = Draft(subject, f"events {one} and {two} merged")
        merged = draft.event(one)
        merged["last_task_id"] = b["last_task_id"]
        merged["num_triggers"] += b["num_triggers"]
        del draft.events[two]
        later = {e: e - 1 for e in range(two, len(subject.events))}
        _renumber(draft, later)
        yield draft.mutant()


@harmless()
def variants_renumbered(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A type's variants have other numbers, in the graph and in the chain."""
    from tests.emitter.invariants import CODES

    variants: dict[int, list[int]] = defaultdict(list)
    for code, variant in subject.source.bodies:
        variants[code].append(variant)
    names = {code: name for name, code in CODES.items()}
    for code, listed in mixed(rng, variants.items()):
        new = dict(zip(listed, mixed(rng, [v + 3 for v in listed]), strict=True))
        draft = Draft(subject, f"variants of {code} renumbered")
        pattern = rf"({names[code]} && \S*variant_id == )(\d+)"
        draft.cuda = re.sub(pattern, lambda m, new=new: f"{m[1]}{new[int(m[2])]}", draft.cuda)  # type: ignore[misc]
        for number, task in enumerate(subject.tasks):
            if task["task_type"] == code:
                draft.task(number)["variant_id"] = new[task["variant_id"]]
        yield draft.mutant()


# -- the .cu -----------------------------------------------------------------------------------

_FAKES = (
    '  // all_tensors["ghost"] = ghost;',
    '  /* all_tensors["ghost"] = ghost; */',
    '  /* char *ghost;\n     cudaMalloc(&ghost, 1);\n     all_tensors["ghost"] = ghost; */',
    '  printf("all_tensors[\\"ghost\\"] = ghost;");',
    '  printf("// not a comment /* nor this"); // but this " is',
    '#if 0\n  all_tensors["ghost"] = ghost;\n#endif',
    '#if 0\n#if 1\n  all_tensors["ghost"] = ghost;\n#endif\n  all_tensors["ghost"] = a;\n#endif',
    '  auto text = R"(all_tensors["ghost"] = ghost; /* )";',
    '  auto text = R"x(all_tensors["ghost"] = ghost; )" // )x";',
    "  int million = 1'000'000; char quote = '\"'; char slash = '\\\\';",
    '  // a comment that goes on \\\n  all_tensors["ghost"] = ghost;',
    '  auto it = all_tensors.find("ghost"); auto at = all_tensors.at("nullptr");',
    '  if (all_tensors["nullptr"] == nullptr) {}',
    "  std::map<std::string, void *> all_tensors_2;",
    "  char *unrelated = nullptr; void *other = unrelated;",
    "  size_t x = sizeof(char *), y = sizeof(void *);",
)


@harmless()
def code_that_looks_like_declarations(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Comments, strings, dead code and look-ups among the declarations declare nothing."""
    anchor = '  all_tensors["'
    starts = [m.start() for m in re.finditer(re.escape("\n" + anchor), subject.cuda)]
    for fake in mixed(rng, _FAKES):
        at = rng.choice(starts) + 1
        at = subject.cuda.index("\n", at) + 1
        cuda = subject.cuda[:at] + fake + "\n" + subject.cuda[at:]
        yield Mutant(cuda, Draft(subject).text(), what=f"among the declarations: {fake}")


_DEAD_BRANCHES = (
    "  // else if (task_desc->task_type == TASK_GHOST && task_desc->variant_id == 0) {",
    "  /* task_desc->input_ptrs[6], task_desc->output_ptrs[2] */",
    '  printf("task_desc->input_ptrs[6]");',
    "#if 0\n  task_desc->input_ptrs[6];\n#endif",
    "  // } an unbalanced brace {{{",
)


@harmless()
def code_that_looks_like_slots(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Comments, strings and dead code in a dispatch body name no slot."""
    for fake in mixed(rng, _DEAD_BRANCHES):
        code, variant = rng.choice(sorted(subject.source.bodies))
        start, _ = branch_span(subject.cuda, code, variant)
        at = subject.cuda.index("\n", start) + 1
        cuda = subject.cuda[:at] + fake + "\n" + subject.cuda[at:]
        yield Mutant(cuda, Draft(subject).text(), what=f"in the body of {code}: {fake}")


@harmless()
def other_cuda_layout(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The same statements with CRLF, tabs, a BOM, without checks, broken over lines."""
    cuda = subject.cuda
    layouts: dict[str, str] = {
        "CRLF": cuda.replace("\n", "\r\n"),
        "tabs": cuda.replace("  ", "\t"),
        "a BOM": "\ufeff" + cuda,
        "unchecked": re.sub(r"CUDA_CHECK\((cudaM.*)\);", r"\1;", cuda),
        "broken lines": re.sub(r"(cudaMalloc\(&\w+,) ", r"\1\n      ", cuda),
        "no blanks": re.sub(r"(all_tensors\[\"\w+\"\]) = ", r"\1=", cuda),
        "blanks": re.sub(r"all_tensors\[(\"\w+\")\] = ", r"all_tensors [ \1 ]  =  ", cuda),
        "blank lines": cuda.replace("\n", "\n\n"),
        "trailing blanks": cuda.replace("\n", "  \n"),
        "pointer to the type": re.sub(r"\b(char|void) \*(\w+)( =|;)", r"\1* \2\3", cuda),
        "reinterpret_cast": cuda.replace(
            "static_cast<char*>(model_tensors", "reinterpret_cast<char *>(model_tensors"
        ),
        "parentheses": re.sub(
            r"\((task_desc\S+task_type == \w+) && (task_desc\S+variant_id == \d+)\)",
            r"((\1) && (\2))",
            cuda,
        ),
    }
    for what, changed in mixed(rng, layouts.items()):
        yield Mutant(changed, Draft(subject).text(), what=what)


@harmless()
def declarations_in_another_order(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The tensors are declared in another order, each with its storage; the sentinel stays last."""
    start = subject.cuda.index("\n", subject.cuda.index("assert(num_gpus")) + 1
    end = subject.cuda.index('  all_tensors["nullptr"]')
    lines = subject.cuda[start:end].split("\n")
    blocks: list[list[str]] = [[]]
    head: list[str] = []
    for line in lines:
        if "std::map" in line:
            head.append(line)
            continue
        blocks[-1].append(line)
        if "all_tensors[" in line:
            blocks.append([])
    tail = blocks.pop()
    if any("nvshmem" in line for block in blocks for line in block):
        return  # all ranks must allocate symmetric memory in the same order
    for _ in range(4):
        order = [line for block in mixed(rng, blocks) for line in block]
        cuda = subject.cuda[:start] + "\n".join([*head, *order, *tail]) + subject.cuda[end:]
        yield Mutant(cuda, Draft(subject).text(), what="declarations in another order")


@harmless()
def unused_scratch(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A scratch buffer that no task uses: normal, a note at most."""
    for name in ("spare", "rope_tmp", "layer_0_spare", "mtp_spare", "x", "q_rope_out"):
        draft = Draft(subject, f"{name} is unused")
        draft.declare(name, rng.choice([0, 1, 16384, 2**40]))
        yield draft.mutant()


@harmless()
def allocation_padded(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A scratch allocation is larger than its tiles need, rounded up to a page."""
    sized = [n for n in subject.kinds("scratch") if subject.nbytes(n)]
    for name in mixed(rng, sized):
        nbytes = subject.nbytes(name)
        draft = Draft(subject, f"{name} is padded")
        draft.replace(f"cudaMalloc(&{name}, {nbytes})", f"cudaMalloc(&{name}, {nbytes + 4096})")
        yield draft.mutant()


# -- the loader ----------------------------------------------------------------------------------


@harmless()
def loaded_by_other_names(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Every tensor is asked for by the checkpoint's name, in every layer alike."""
    plain = r'(char \*\w+ = static_cast<char\*>\(model_tensors\.at\(")'
    if not re.search(plain, subject.cuda):
        return
    for layer, other in ((r"model.layers.\2.\3.weight", r"\2.weight"), (r"L\2/\3", r"w/\2")):
        cuda = re.sub(plain + r"layer_(\d+)_(\w+)", r"\1" + layer, subject.cuda)
        cuda = re.sub(plain + r"(?!layer)(\w+)(?=\")", r"\1" + other, cuda)
        yield Mutant(cuda, Draft(subject).text(), what=f"loaded as {layer}")


@harmless()
def memory_of_another_allocator(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A buffer gets its memory from a function that nobody here knows."""
    for name in mixed(rng, subject.kinds("scratch")):
        line = re.search(rf"^.*cudaMalloc\(&{re.escape(name)}, .*$", subject.cuda, re.MULTILINE)
        if line is None:
            continue
        call = rng.choice([f"CHECK(pool.get(&{name}, 4096));", f"{name} = take(4096);"])
        cuda = subject.cuda.replace(line[0], f"  {call}")
        yield Mutant(cuda, Draft(subject).text(), what=call)


@harmless()
def variables_of_other_names(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The pointers are numbered and not named: the map's keys are the names."""
    names = {name: f"t{number}" for number, name in enumerate(subject.storage)}
    pattern = re.compile(r"(?<![\w.\"])(" + "|".join(map(re.escape, names)) + r")(?![\w.\"])")
    end = subject.cuda.index('  all_tensors["nullptr"]')
    head = pattern.sub(lambda found: names[found[1]], subject.cuda[:end])
    yield Mutant(head + subject.cuda[end:], Draft(subject).text(), what="numbered pointers")
