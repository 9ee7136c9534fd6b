"""Ranks: what shows only when all ranks' files are looked at together.

These operators take the name of a subject and give whole folders.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from .defects_wiring import TABLES, groups_by_role
from .draft import Draft, Mutant
from .registry import defect, mixed
from .subject import Subject
from .subjects import ranks_of, subject


def _folder(name: str) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for rank in range(ranks_of(name)):
        files |= _pair(Draft(subject(name, rank)), rank)
    return files


def _pair(draft: Draft, rank: int) -> dict[str, str | bytes]:
    return {f"kernel_{rank}.cu": draft.cuda, f"task_graph_{rank}.json": draft.text()}


def _mutant(files: dict[str, str | bytes], what: str) -> Mutant:
    return Mutant("", "", what=what, files=files)


def untouched(name: str) -> Mutant:
    """All ranks' files as they are."""
    return _mutant(_folder(name), "nothing changed")


def _several(name: str) -> bool:
    return ranks_of(name) > 1


@defect("MG6", "MG9", whole=True)
def rank_missing(name: str, rng: random.Random) -> Iterator[Mutant]:
    """A rank between others has no files."""
    for rank in mixed(rng, range(1, ranks_of(name) - 1)):
        files = _folder(name)
        del files[f"kernel_{rank}.cu"], files[f"task_graph_{rank}.json"]
        yield _mutant(files, f"rank {rank} is missing")


@defect("MG6", "MG9", whole=True)
def half_a_pair(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One of a rank's two files is missing."""
    for rank in mixed(rng, range(ranks_of(name))):
        files = _folder(name)
        half = rng.choice([f"kernel_{rank}.cu", f"task_graph_{rank}.json"])
        del files[half]
        yield _mutant(files, f"{half} is missing")


@defect("MG604", "MG6", "MG405", whole=True)
def files_under_another_ranks_name(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank's graph stands under another rank's name: its event ids carry the wrong bits."""
    if not _several(name):
        return
    for _ in range(8):
        one, other = rng.sample(range(ranks_of(name)), 2)
        files = _folder(name)
        for template in ("kernel_{}.cu", "task_graph_{}.json"):
            files[template.format(other)] = files[template.format(one)]
        yield _mutant(files, f"rank {one}'s files stand for rank {other}'s too")


@defect("MG602", "MG6", whole=True)
def symmetric_allocation_differs(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank allocates twice as much symmetric memory: all later addresses differ."""
    if not _several(name):
        return
    one = subject(name, 0)
    for tensor in mixed(rng, [n for n, kind in one.storage.items() if kind == "symmetric"]):
        rank = rng.randrange(ranks_of(name))
        files = _folder(name)
        draft = Draft(subject(name, rank))
        nbytes = draft.subject.nbytes(tensor)
        draft.replace(
            f"{tensor} = nvshmem_malloc({nbytes})", f"{tensor} = nvshmem_malloc({2 * nbytes})"
        )
        yield _mutant(files | _pair(draft, rank), f"rank {rank} allocates {tensor} twice as big")


@defect("MG602", "MG6", whole=True)
def symmetric_allocations_in_another_order(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank makes its symmetric allocations in another order: addresses do not match."""
    if not _several(name):
        return
    block = re.compile(
        r"^.*\w+ = nvshmem_malloc\(\d+\);\n(?:.*assert\(.*\n)?.*all_tensors\[.*\n", re.MULTILINE
    )
    for _ in range(6):
        rank = rng.randrange(ranks_of(name))
        draft = Draft(subject(name, rank))
        blocks = [m[0] for m in block.finditer(draft.cuda)]
        sizes = [re.search(r"malloc\((\d+)", b) for b in blocks]
        unlike = [
            (a, b)
            for i, a in enumerate(blocks)
            for j, b in enumerate(blocks)
            if i < j and (sizes[i] or [0, 0])[1] != (sizes[j] or [0, 0])[1]
        ]
        if not unlike:
            return
        a, b = rng.choice(unlike)
        draft.cuda = draft.cuda.replace(a, "\x01").replace(b, a).replace("\x01", b)
        yield _mutant(_folder(name) | _pair(draft, rank), f"rank {rank} allocates in another order")


@defect("MG601", "MG6", "MG1", "MG7", whole=True)
def rope_none_on_one_rank(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank's attention gets no rotary tables at all."""
    if not _several(name):
        return
    for rank in mixed(rng, range(ranks_of(name))):
        draft = Draft(subject(name, rank))
        uses = [u for table in TABLES for u in draft.subject.by_name.get(table, ()) if u.optional]
        if not uses:
            return
        for use in uses:
            draft.task(use.task)[use.side][use.slot] = {
                "base_ptr": "nullptr",
                "data_type": 999,
                "dims": [],
                "offset": 0,
                "strides": [],
            }
        yield _mutant(_folder(name) | _pair(draft, rank), f"no rotary tables on rank {rank}")


@defect("MG6", "MG7", whole=True)
def weights_exchanged_on_one_rank(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank has two layers' weights of one role exchanged: the ranks sum different things."""
    from .defects_layers import _exchange

    if not _several(name):
        return
    roles = [n for n in groups_by_role(subject(name, 0)).values() if len(n) > 1]
    for names in mixed(rng, roles):
        rank = rng.randrange(ranks_of(name))
        draft = Draft(subject(name, rank))
        wired = [n for n in names if n in draft.subject.by_name]
        if len(wired) < 2 or draft.subject.storage[wired[0]] not in ("host", "shuffled"):
            continue
        one, other = rng.sample(wired, 2)
        _exchange(draft, one, other)
        yield _mutant(_folder(name) | _pair(draft, rank), f"{one} and {other} on rank {rank}")


@defect("MG603", "MG6", "MG1", "MG3", "MG7", whole=True)
def collective_of_another_buffer_on_one_rank(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank reduces another symmetric buffer than the others do, in one operator."""
    if not _several(name):
        return
    for _ in range(6):
        rank = rng.randrange(ranks_of(name))
        original: Subject = subject(name, rank)
        uses = [
            tiles
            for (_, side, slot), tiles in original.by_operator_slot.items()
            if tiles[0].code in (301, 302) and side == "inputs" and slot == 0
        ]
        if not uses:
            return
        tiles = rng.choice(uses)
        others = [
            n
            for n in original.kinds("symmetric")
            if n != tiles[0].name and original.nbytes(n) == original.nbytes(tiles[0].name)
        ]
        if not others:
            return
        other = rng.choice(others)
        draft = Draft(original)
        for use in tiles:
            draft.slot(use.task, use.side, use.slot)["base_ptr"] = other
        yield _mutant(_folder(name) | _pair(draft, rank), f"rank {rank} reduces {other}")


@defect("MG605", "MG606", "MG6", "MG4", whole=True)
def event_count_differs_on_one_rank(name: str, rng: random.Random) -> Iterator[Mutant]:
    """A put's event wants another number of triggers on one rank than the other ranks send."""
    if not _several(name):
        return
    for _ in range(6):
        rank = rng.randrange(ranks_of(name))
        original: Subject = subject(name, rank)
        remote = sorted(
            {
                t["trigger_event"] & 0xFFFFFFFF
                for t in original.tasks
                if t["trigger_event"] >> 48 == 0x1E00
            }
        )
        if not remote:
            return
        draft = Draft(original)
        event = rng.choice(remote)
        draft.event(event)["num_triggers"] += rng.choice([-1, 1])
        yield _mutant(_folder(name) | _pair(draft, rank), f"event {event} on rank {rank}")


@defect("MG604", "MG6", "MG4", whole=True)
def world_size_differs(name: str, rng: random.Random) -> Iterator[Mutant]:
    """One rank was built for another number of ranks."""
    if not _several(name):
        return
    for rank in mixed(rng, range(ranks_of(name))):
        draft = Draft(subject(name, rank))
        draft.sub(r"num_gpus = \d+", f"num_gpus = {2 * ranks_of(name)}")
        yield _mutant(_folder(name) | _pair(draft, rank), f"rank {rank} is of another world")


def _puts(name: str, rank: int) -> list[int]:
    tasks = subject(name, rank).tasks
    return [number for number, task in enumerate(tasks) if task["task_type"] in (199, 301)]


@defect("MG610", "MG6", whole=True)
def puts_into_another_slot(name: str, rng: random.Random) -> Iterator[Mutant]:
    """All puts of one rank go into the slot of another, on every other rank."""
    for rank in mixed(rng, range(ranks_of(name))):
        puts = _puts(name, rank)
        if not puts:
            continue
        other = rng.choice([r for r in range(ranks_of(name)) if r != rank])
        draft = Draft(subject(name, rank), "")
        for number in puts:
            output = draft.slot(number, "outputs", 0)
            output["offset"] += (other - rank) * output["strides"][0] * 2
        what = f"rank {rank} puts into slot {other}"
        yield _mutant(_folder(name) | _pair(draft, rank), what)


@defect("MG610", "MG606", "MG6", whole=True)
def puts_to_one_peer(name: str, rng: random.Random) -> Iterator[Mutant]:
    """All puts of one rank go to the same other rank: the rest gets nothing of it."""
    if ranks_of(name) < 3:
        return
    for rank in mixed(rng, range(ranks_of(name))):
        puts = _puts(name, rank)
        if not puts:
            continue
        peer = rng.choice([r for r in range(ranks_of(name)) if r != rank])
        draft = Draft(subject(name, rank), "")
        for number in puts:
            event = draft.task(number)["trigger_event"]
            draft.task(number)["trigger_event"] = event & ~(0xFFFF << 32) | peer << 32
        yield _mutant(_folder(name) | _pair(draft, rank), f"rank {rank} puts to rank {peer} alone")


def _bodies(cuda: str) -> int:
    """Where the dispatch begins."""
    return cuda.index("void _execute_task(")


@defect("MG609", whole=True)
def residual_added_by_a_second_rank(name: str, rng: random.Random) -> Iterator[Mutant]:
    """A rank's bodies read the residual without asking for its number: the sum has it twice."""
    if not _several(name):
        return
    for rank in mixed(rng, range(1, ranks_of(name))):
        draft = Draft(subject(name, rank))
        bodies = draft.subject.cuda[_bodies(draft.subject.cuda) :]
        theirs = subject(name, 0).cuda
        if "my_gpu_id" not in bodies + theirs[_bodies(theirs) :]:
            continue
        text = theirs[_bodies(theirs) :].replace("runtime_config.my_gpu_id", "nullptr")
        draft.cuda = draft.cuda[: _bodies(draft.cuda)] + text
        yield _mutant(_folder(name) | _pair(draft, rank), f"rank {rank} adds the residual too")


@defect("MG609", whole=True)
def residual_added_by_no_rank(name: str, rng: random.Random) -> Iterator[Mutant]:
    """Rank 0's bodies leave the residual out, as all others' do: nobody adds it."""
    if not _several(name) or "LINEAR_SWAPAB_WITH_RESIDUAL" not in subject(name, 0).cuda:
        return
    draft, theirs = Draft(subject(name, 0)), subject(name, 1).cuda
    draft.cuda = draft.cuda[: _bodies(draft.cuda)] + theirs[_bodies(theirs) :]
    yield _mutant(_folder(name) | _pair(draft, 0), "no rank adds the residual")


@defect("MG608", whole=True)
def sum_of_a_sum(name: str, rng: random.Random) -> Iterator[Mutant]:
    """A sum over the ranks takes what another one has made: it counts once per rank."""
    if not _several(name):
        return
    files: dict[str, str | bytes] = {}
    for rank in range(ranks_of(name)):
        draft = Draft(subject(name, rank))
        for number, task in enumerate(draft.tasks):
            if task["task_type"] in (107, 301, 302):
                tensor = draft.slot(number, "inputs", 0)
                if tensor["base_ptr"] == "mlp_out":
                    tensor["base_ptr"] = "attn_allreduce_out"
        files |= _pair(draft, rank)
    if "attn_allreduce_out" in subject(name, 0).storage:
        yield _mutant(files, "the sum behind the MLP takes attention's")


@defect("MG607", "MG7", whole=True)
def part_taken_for_the_sum(name: str, rng: random.Random) -> Iterator[Mutant]:
    """On every rank, whoever should read a sum over the ranks reads this rank's part of it."""
    if not _several(name):
        return
    for part, total in (("mlp_out", "mlp_final"), ("attn_proj_out", "attn_allreduce_out")):
        files: dict[str, str | bytes] = {}
        if total not in subject(name, 0).storage:
            continue
        for rank in range(ranks_of(name)):
            draft = Draft(subject(name, rank))
            for number, task in enumerate(draft.tasks):
                for slot, tensor in enumerate(task["inputs"] or []):
                    if tensor["base_ptr"] == total:
                        draft.slot(number, "inputs", slot)["base_ptr"] = part
            files |= _pair(draft, rank)
        yield _mutant(files, f"{part} is read for {total}")


@defect("MG611", "MG3")
def two_sums_at_once(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """The sum behind the MLP waits for no more than attention's, on the same teams."""
    sums = [n for n, task in enumerate(subject.tasks) if task["task_type"] == 302]
    tiles = sum(subject.tasks[n]["inputs"][0]["base_ptr"] == "attn_proj_out" for n in sums)
    layers = subject.layers or 1
    if not sums or not tiles or len(sums) != 2 * tiles:
        return
    step = tiles // layers
    draft = Draft(subject, "two sums over the ranks wait for one event")
    for one, other in zip(sums[:step], sums[step : 2 * step], strict=True):
        draft.task(other)["dependent_event"] = subject.tasks[one]["dependent_event"]
    draft.relayout()
    yield draft.mutant()
