"""The loader: names that get another's bytes, or no memory, or the memory of another."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise

from .defects_wiring import TABLES, groups_by_role
from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject, layer_of

_SOURCE = r'(?:static_cast<char\*>\(model_tensors\.at\("[^"]*"\)\)|\(char\*\)\(0x[0-9a-f]+\))'


def _source(draft: Draft, name: str) -> str:
    found = re.search(rf"char \*{re.escape(name)} = ({_SOURCE});", draft.cuda)
    if found is None:
        raise LookupError(f"{name} has no source in {draft.subject.name}")
    return found[1]


def _pairs(subject: Subject, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Loaded tensors that tasks use, each with one of its role in another layer."""
    for names in mixed(rng, groups_by_role(subject).values()):
        wired = [n for n in names if n in subject.by_name and subject.storage[n] == "host"]
        if len(wired) > 2:
            one, other = rng.sample(wired, 2)
            yield one, other


@defect("MG112", "MG108")
def loaded_from_another_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One layer's tensor is loaded from another layer's source, unlike all others of its role."""
    for name, other in _pairs(subject, rng):
        draft = Draft(subject, f"{name} is loaded from {other}'s source")
        draft.replace(f"*{name} = {_source(draft, name)}", f"*{name} = {_source(draft, other)}")
        yield draft.mutant()


@defect("MG112", "MG108", "MG113")
def entered_with_another_pointer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One layer's tensor is entered with the pointer of another layer's.

    That one may not even be defined yet.
    """
    for name, other in _pairs(subject, rng):
        draft = Draft(subject, f"{name} is entered as {other}")
        draft.replace(f'all_tensors["{name}"] = {name};', f'all_tensors["{name}"] = {other};')
        yield draft.mutant()


@defect("MG112")
def entered_behind_its_start(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A weight is entered some bytes further on: all of its rows are others."""
    for name in mixed(rng, subject.kinds("host")):
        if name not in subject.by_name:
            continue
        by = rng.choice([2, 256, 8192])
        draft = Draft(subject, f"{name} is entered {by} bytes on")
        draft.replace(f'all_tensors["{name}"] = {name};', f'all_tensors["{name}"] = {name} + {by};')
        draft.declared(name)
        yield draft.mutant()


@defect("MG112")
def tables_from_each_others_sources(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Cosine is loaded by the name of sine, or sine by that of cosine: positions are wrong."""
    tables = [name for name in TABLES if f'at("{name}")' in subject.cuda]
    for name, other in (tables[:2], tables[:2][::-1]) if len(tables) > 1 else ():
        draft = Draft(subject, f"{name} is loaded as {other}")
        draft.replace(f'at("{name}")', f'at("{other}")')
        draft.places.add(("cuda", draft.cuda_line(f"char *{name} =")))
        yield draft.mutant()


def _copies(subject: Subject, name: str) -> list[str]:
    """The lines of the copies that fill a shuffled tensor."""
    return re.findall(rf"^.*cudaMemcpy2DAsync\(.*\({name} \+ \d+\).*$", subject.cuda, re.MULTILINE)


@defect("MG112")
def part_of_another_layer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A part of a shuffled tensor is copied from another layer's source."""
    for name in mixed(rng, subject.kinds("shuffled")):
        number = layer_of(name)
        others = [n for n in subject.kinds("shuffled") if layer_of(n) not in (number, None)]
        if number is None or len(others) < 2:
            continue
        line = rng.choice(_copies(subject, name))
        moved = line.replace(f'at("layer_{number}_', f'at("layer_{layer_of(others[0])}_')
        draft = Draft(subject, f"{name} takes a part of {others[0]}")
        draft.replace(line, moved)
        draft.places.add(("cuda", draft.cuda_line(moved)))
        yield draft.mutant()


@defect("MG204")
def part_copied_twice(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A source is copied into two places of a shuffled tensor, and what belongs there is not."""
    for name in mixed(rng, subject.kinds("shuffled")):
        one, other, *_ = mixed(rng, _copies(subject, name))
        source = [re.search(r'at\("([^"]*)"\)', line) for line in (one, other)]
        if source[0] is None or source[1] is None:
            continue
        draft = Draft(subject, f"{source[0][1]} stands for {source[1][1]} too")
        draft.replace(other, other.replace(source[1][1], source[0][1]))
        draft.declared(name)
        yield draft.mutant()


@defect("MG204")
def parts_in_another_order(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Two parts of a shuffled tensor have each other's source, in every layer alike."""
    for part in mixed(rng, {re.sub(r"^layer_\d+_", "", n) for n in subject.kinds("shuffled")}):
        names = [name for name in subject.kinds("shuffled") if name.endswith(part)]
        draft = Draft(subject, f"two parts of {part} are exchanged")
        for name in names:
            one, other = _copies(subject, name)[-2:]
            sources = [re.search(r'at\("([^"]*)"\)', line) for line in (one, other)]
            if sources[0] is None or sources[1] is None:
                break
            draft.replace(one, one.replace(sources[0][1], "@"))
            draft.replace(other, other.replace(sources[1][1], sources[0][1]))
            draft.replace('at("@")', f'at("{sources[1][1]}")')
            draft.declared(name)
        else:
            yield draft.mutant()


@defect("MG204")
def parts_not_in_turns(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The parts of a shuffled tensor lie one behind the other, where its reader takes turns."""
    line = re.compile(r"\+ (\d+)\), (\d+), (.*), (\d+), (\d+), (\d+), cuda")
    for name in mixed(rng, subject.kinds("shuffled")):
        draft, at = Draft(subject, f"{name} is filled without turns"), 0
        for copy in _copies(subject, name):
            found = line.search(copy)
            if found is None or found[6] == "1":
                break
            whole = int(found[5]) * int(found[6])
            flat = f"+ {at}), {whole}, {found[3]}, {whole}, {whole}, 1, cuda"
            draft.replace(copy, copy.replace(found[0], flat))
            at += whole
        else:
            draft.declared(name)
            yield draft.mutant()


def _touched(subject: Subject, rng: random.Random, *kinds: str) -> list[str]:
    names = {use.name for use in subject.uses if use.reads or use.writes}
    return mixed(rng, [name for name in subject.kinds(*kinds) if name in names])


def _allocation(subject: Subject, name: str) -> str:
    found = re.search(rf"^.*cudaMalloc\(&{re.escape(name)}, .*\n", subject.cuda, re.MULTILINE)
    if found is None:
        raise LookupError(f"{name} is not allocated in {subject.name}")
    return found[0]


@defect("MG113")
def never_allocated(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A buffer that tasks use is entered without any memory."""
    for name in _touched(subject, rng, "scratch", "shuffled"):
        draft = Draft(subject, f"{name} is never allocated")
        draft.replace(_allocation(subject, name), "")
        draft.declared(name)
        yield draft.mutant()


@defect("MG113")
def allocated_too_late(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A buffer is allocated only after the map has got its pointer."""
    for name in _touched(subject, rng, "scratch"):
        line = _allocation(subject, name)
        draft = Draft(subject, f"{name} is allocated too late")
        draft.replace(line, "")
        draft.sub(rf"^(.*all_tensors\[\"{re.escape(name)}\"\].*\n)", rf"\g<1>{line}")
        draft.declared(name)
        yield draft.mutant()


@defect("MG113")
def entered_as_a_null_pointer(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """What tasks touch, and no kernel may skip, is entered as a null pointer."""
    needed = {u.name for u in subject.uses if (u.reads or u.writes) and not u.optional}
    for name in mixed(rng, [name for name in subject.storage if name in needed]):
        draft = Draft(subject, f"{name} is a null pointer")
        draft.replace(f'all_tensors["{name}"] = {name};', f'all_tensors["{name}"] = nullptr;')
        draft.declared(name)
        yield draft.mutant()


@defect("MG113")
def taken_back(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """An entry is erased before the loader looks it up."""
    for name in _touched(subject, rng, "host", "scratch"):
        draft = Draft(subject, f"{name} is erased")
        last = '  all_tensors["nullptr"] = nullptr;'
        draft.replace(last, f'  all_tensors.erase("{name}");\n{last}')
        draft.declared(name)
        yield draft.mutant()


@defect("MG113", "MG602")
def collective_on_local_memory(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """What other ranks read or write is not symmetric: they know no address of it."""
    slots = {(301, "outputs"), (302, "inputs")}
    names = {u.name for u in subject.uses if (u.code, u.side) in slots and u.slot == 0}
    for name in mixed(rng, names):
        nbytes = subject.nbytes(name)
        draft = Draft(subject, f"{name} is local")
        draft.sub(
            rf"void \*{name} = nvshmem_malloc\({nbytes}\);\n.*assert.*\n",
            f"void *{name};\n  CUDA_CHECK(cudaMalloc(&{name}, {nbytes}));\n",
        )
        draft.declared(name)
        yield draft.mutant()


@defect("MG114", "MG113")
def two_buffers_in_one_memory(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A buffer is entered with the pointer of another that is in use."""
    names = _touched(subject, rng, "scratch", "symmetric")
    for name, other in pairwise(names):
        draft = Draft(subject, f"{name} is entered as {other}")
        draft.replace(f'all_tensors["{name}"] = {name};', f'all_tensors["{name}"] = {other};')
        yield draft.mutant()
