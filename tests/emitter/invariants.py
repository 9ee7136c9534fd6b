"""What must hold of a correct pair, checked by brute force from the two texts.

Nothing here is shared with the emitter or with the gate: one regular expression per statement of
the `.cu`, plain loops over the tasks, sets of byte runs. `problems` is empty for a correct pair.

What a slot is for is not in the files. The facts below are those that FORMATS.md gives: which
inputs a kernel writes, which slots it ignores, and where the rows it touches are picked at run
time, so that two tasks of one operator do not collide.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

__all__ = ["Cuda", "problems", "read_cuda"]

SIZES = {930: 1, 940: 2, 941: 2, 950: 4, 955: 4, 956: 4, 965: 8}
INVALID = 0x7FFF_FFFF_FFFF_FFFE
_NAMES = """
    EMBEDDING=101 RMS_NORM_LINEAR=102 ATTENTION_1=103 SILU_MUL_LINEAR_WITH_RESIDUAL=105
    REDUCE=107 LINEAR_WITH_RESIDUAL=108 ARGMAX_PARTIAL=110 ARGMAX_REDUCE=111
    PAGED_ATTENTION_1=116 SILU_MUL=118 RMS_NORM=119 LINEAR=120 PAGED_ATTENTION_HOPPER=153
    RMS_NORM_HOPPER=154 LINEAR_SWAPAB_HOPPER=155 LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER=156
    PAGED_ATTENTION_SPLIT_KV_HOPPER=164 MOE_W13_FP8_SM100=248 MOE_W2_FP8_SM100=249
    LINEAR_WITH_RESIDUAL_SM100=252 LINEAR_SM100=253 MOE_W13_LINEAR_SM100=254
    MOE_W2_LINEAR_SM100=255 ATTN_SM100=257 ARGMAX_REDUCE_SM100=258 ARGMAX_PARTIAL_SM100=259
    MOE_TOPK_SOFTMAX_SM100=260 MOE_MUL_SUM_ADD_SM100=261 TENSOR_INIT=262
    PAGED_ATTENTION_SPLIT_KV_MERGE_SM100=264 MLA_MTP_DECODE_SM100=269 MLA_MTP_REDUCE_SM100=270
    MTP_VERIFY_STRICT=271 MTP_ACCEPT_COMMIT=272 MTP_TOKEN_SCATTER=273 MTP_PREPARE_VERIFY=274
    QUANTIZE_FP8_SM100=275 LINEAR_FP8_SM100=276 LINEAR_FP8_WITH_RESIDUAL_SM100=277
    MLA_KV_GATHER_SM100=278 MOE_TOPK_SIGMOID_SM100=280 ELEMENTWISE_ADD_SM100=281
    MLA_MTP_DECODE_TP8_SM100=291 MLA_MTP_DECODE_TP8_REDUCE_SM100=292 MTP_BUILD_EMBED_INPUT=294
    MLA_ROPE_Q_SM100=296 NVSHMEM_ALLGATHER_STRIDED_PUT=301 NVSHMEM_TILE_ALLREDUCE=302
"""
CODES = {f"TASK_{name}": int(code) for name, code in re.findall(r"(\w+)=(\d+)", _NAMES)}

ATTENTION = frozenset((103, 116, 153, 164, 257))
WRITTEN_INPUTS = {**{code: {1, 2} for code in ATTENTION}, 278: {2, 3}, 262: {0}}
ALSO_READ = {**{code: {1, 2} for code in ATTENTION}, 278: {2}}
OPTIONAL_INPUTS = (3, 4, 5, 6)
AT_RUN_TIME = {
    **{(code, "inputs", slot): True for code in ATTENTION for slot in (1, 2)},
    **{(code, "outputs", slot): True for code in (164, 269, 291) for slot in (0, 1)},
    **{(code, "outputs", 0): True for code in (248, 249, 254, 255, 270, 292)},
    **{(code, "inputs", slot): True for code in (264, 270, 292) for slot in (0, 1)},
    (278, "inputs", 2): True,
    # Identical tasks, each doing the whole tensor: the same bytes, the same values.
    (275, "outputs", 0): True,
    (275, "outputs", 1): True,
}
PUT_REMOTE = 301
FINAL = re.compile(r"output_token|argmax_out|verify_out|mtp_\w+")
PARTIAL = re.compile(r"attn_out_tmp|lse")

Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Cuda:
    """What the `.cu` says: world size, tensors by name with storage and bytes, dispatch bodies."""

    num_gpus: int
    tensors: dict[str, tuple[str, int]]
    names: list[str]
    bodies: dict[tuple[int, int], list[tuple[str, int]]]
    runtime: dict[tuple[int, int], list[str]]


def read_cuda(text: str) -> Cuda:
    """Take a full or a reduced `.cu` apart."""
    start, at = text.index("_init_persistent_kernel"), text.index("_execute_task")
    init, chain = text[start:at], text[at:]
    tensors = {}
    names = re.findall(r'all_tensors\["([^"]+)"\] =', init)
    sizes = dict(re.findall(r"cudaMalloc\(&([\w.]+), (\d+)\)", init))
    symmetric = dict(re.findall(r"void \*([\w.]+) = nvshmem_malloc\((\d+)\)", init))
    for name in names:
        if name in symmetric:
            tensors[name] = ("symmetric", int(symmetric[name]))
        elif name in sizes:
            storage = "shuffled" if f"char *{name};" in init else "scratch"
            tensors[name] = (storage, int(sizes[name]))
        else:
            tensors[name] = ("host", 0)
    condition = r"task_type == (\w+) && task_desc(?:->|\.)variant_id == (\d+)"
    pieces = re.split(condition, chain)
    bodies, runtime = {}, {}
    for task, variant, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        key = CODES[task], int(variant)
        slots = re.findall(r"(input|output)(?:_tma_desc)?_ptrs\[(\d+)\]", body)
        bodies[key] = [(f"{side}s", int(slot)) for side, slot in slots]
        runtime[key] = re.findall(r"(?:task_metadata|runtime_config)\.(\w+)", body)
    gpus = re.search(r"assert\(num_gpus = (\d+)\)", init)
    assert gpus, "no world size"
    return Cuda(int(gpus[1]), tensors, names, bodies, runtime)


def problems(cuda_text: str, json_text: str) -> list[str]:
    """Everything that does not hold of the pair, one line each."""
    cuda, graph = read_cuda(cuda_text), json.loads(json_text)
    found = list(_frame(graph))
    found += _events(graph)
    found += _dispatch(cuda, graph)
    found += _wiring(cuda, graph)
    if found:
        return found
    accesses = _accesses(cuda, graph)
    return [*_coverage(cuda, accesses), *_order(cuda, graph, accesses)]


# -- the frame and the events ------------------------------------------------------------------


def _frame(graph: dict[str, Any]) -> Iterator[str]:
    tasks, events = graph["all_tasks"], graph["all_events"]
    if (tasks[0]["task_type"], tasks[1]["task_type"]) != (0, 10):
        yield "tasks 0 and 1 are not TERMINATE and BEGIN"
    if tasks[0]["trigger_event"] != INVALID or _position(tasks[1]["trigger_event"]) != 1:
        yield "task 0 triggers something, or task 1 does not trigger event 1"
    kinds = [event["event_type"] for event in events]
    if kinds[0] != 911 or kinds[1] != 903 or kinds[-1] != 910 or set(kinds[2:-1]) - {900}:
        yield "events do not have the fixed shape"
    if _range(events[1]) != (2, len(tasks)):
        yield "event 1 does not launch every task"
    waiting_for_none = {i for i, t in enumerate(tasks) if t["dependent_event"] == INVALID}
    if waiting_for_none != {0, 1, *graph["first_tasks"]}:
        yield "tasks other than 0, 1 and the first wait for nothing"


def _events(graph: dict[str, Any]) -> Iterator[str]:
    tasks, events = graph["all_tasks"], graph["all_events"]
    ranks = {t["trigger_event"] >> 32 & 0xFFFF for t in tasks[1:3]}
    if len(ranks) != 1:
        yield f"event ids carry the gpu bits {ranks}"
    triggers = Counter(
        _position(t["trigger_event"]) for t in tasks if t["trigger_event"] != INVALID
    )
    for position, event in enumerate(events[1:], 1):
        if event["num_triggers"] != triggers[position]:
            yield f"event {position}: {event['num_triggers']} ≠ {triggers[position]} triggers"
    seen: Counter[int] = Counter()
    for position, event in enumerate(events[2:-1], 2):
        for i in range(*_range(event)):
            seen[i] += 1
            dependent = tasks[i]["dependent_event"]
            if _position(dependent) != position or dependent >> 32 & 0xFFFF not in ranks:
                yield f"task {i} is in the range of event {position} and waits for {dependent}"
    expected = set(range(2, len(tasks))) - set(graph["first_tasks"])
    if seen != Counter(expected):
        yield "a task is in no event's range, or in two"
    for task in tasks:
        tensors = (task["inputs"] or []) + (task["outputs"] or [])
        if len(task["inputs"] or []) > 7 or len(task["outputs"] or []) > 3:
            yield "a task has too many slots"
        if any(len(t["dims"]) != len(t["strides"]) or len(t["dims"]) > 4 for t in tensors):
            yield "a tensor has too many dims, or strides of another length"
    started = _simulate(graph)
    if started != len(tasks) - 2:
        yield f"run by counting, {len(tasks) - 2 - started} tasks never start"


def _simulate(graph: dict[str, Any]) -> int:
    """Run one iteration by counting triggers; how many tasks started.

    Remote triggers count as if they were one's own: all ranks run the same graph.
    """
    tasks, events = graph["all_tasks"], graph["all_events"]
    missing = [event["num_triggers"] for event in events]
    ready, started = list(graph["first_tasks"]), 0
    while ready:
        started += 1
        position = _position(tasks[ready.pop()]["trigger_event"])
        missing[position] -= 1
        if missing[position] == 0:
            ready += range(*_range(events[position]))
    return started


def _position(event_id: int) -> int:
    return event_id & 0xFFFF_FFFF


def _range(event: dict[str, int]) -> tuple[int, int]:
    return event["first_task_id"], event["last_task_id"]


# -- dispatch and wiring -----------------------------------------------------------------------


def _dispatch(cuda: Cuda, graph: dict[str, Any]) -> Iterator[str]:
    selected = defaultdict(set)
    for task in graph["all_tasks"][2:]:
        arity = tuple(len(task[side] or []) for side in ("inputs", "outputs"))
        selected[task["task_type"], task["variant_id"]].add(arity)
    for key in selected.keys() ^ cuda.bodies.keys():
        yield f"{key}: a task without a branch, or a branch without a task"
    for key in selected.keys() & cuda.bodies.keys():
        for (side, slot), (inputs, outputs) in product(cuda.bodies[key], selected[key]):
            if slot >= (inputs if side == "inputs" else outputs):
                yield f"{key}: the body names {side}[{slot}], which its tasks do not have"


def _named(cuda: Cuda, task: dict[str, Any]) -> set[tuple[str, int]]:
    return set(cuda.bodies.get((task["task_type"], task["variant_id"]), ()))


def _wiring(cuda: Cuda, graph: dict[str, Any]) -> Iterator[str]:
    if cuda.names[-1] != "nullptr" or len(set(cuda.names)) != len(cuda.names):
        yield "a name is declared twice, or the sentinel is not last"
    read, written, unread_slots = set(), set(), set()
    for task in graph["all_tasks"]:
        code, named = task["task_type"], _named(cuda, task)
        for side in ("inputs", "outputs"):
            for slot, tensor in enumerate(task[side] or []):
                name = tensor["base_ptr"]
                if name not in cuda.tensors:
                    yield f"{name} is not declared"
                elif (side, slot) not in named:
                    unread_slots.add(name)
                elif name == "nullptr":
                    if code not in ATTENTION or slot not in OPTIONAL_INPUTS:
                        yield f"{code}: input {slot} is None and not optional"
                else:
                    reads, writes = _direction(code, side, slot)
                    read |= {name} if reads else set()
                    written |= {name} if writes else set()
    for name, (storage, _) in cuda.tensors.items():
        if storage in ("host", "shuffled"):
            if name not in read | written | unread_slots | {"nullptr"}:
                yield f"{name} ({storage}) is used by nobody"
        elif name in read and name not in written:
            yield f"{name} is read and never written"
        elif name in written and name not in read and not FINAL.fullmatch(name):
            yield f"{name} is written and never read"


def _direction(code: int, side: str, slot: int) -> tuple[bool, bool]:
    """Whether the kernel reads the slot, and whether it writes it."""
    if side == "outputs":
        return False, True
    writes = slot in WRITTEN_INPUTS.get(code, ())
    return not writes or slot in ALSO_READ.get(code, ()), writes


# -- bytes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """All tasks that touch the same bytes of a tensor the same way, under the same events."""

    operator: int
    writes: bool
    runs: Runs
    at_run_time: bool
    remote: bool
    dependent: int
    trigger: int


def _accesses(cuda: Cuda, graph: dict[str, Any]) -> dict[str, set[Access]]:
    """Per tensor, what touches it. An operator is a stretch of tasks of one type and variant."""
    accesses: dict[str, set[Access]] = defaultdict(set)
    operator, last = 0, (0, 0)
    for task in graph["all_tasks"][2:]:
        code = task["task_type"]
        if (code, task["variant_id"]) != last:
            operator, last = operator + 1, (code, task["variant_id"])
        named = _named(cuda, task)
        waits, trigger = task["dependent_event"], _position(task["trigger_event"])
        dependent = 1 if waits == INVALID else _position(waits)
        for side in ("inputs", "outputs"):
            for slot, tensor in enumerate(task[side] or []):
                if (side, slot) not in named or tensor["base_ptr"] == "nullptr":
                    continue
                shape = tuple(tensor["dims"]), tuple(tensor["strides"])
                runs = byte_runs(*shape, tensor["offset"], SIZES[tensor["data_type"]])
                picked = (code, side, slot) in AT_RUN_TIME
                remote = code == PUT_REMOTE and side == "outputs"
                rest = (runs, picked, remote, dependent, trigger)
                reads, writes = _direction(code, side, slot)
                for direction in [False] * reads + [True] * writes:
                    accesses[tensor["base_ptr"]].add(Access(operator, direction, *rest))
    return accesses


@lru_cache(maxsize=1 << 18)
def byte_runs(dims: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int) -> Runs:
    """The bytes of a tile, as half-open runs in order; contiguous dimensions make one run."""
    length = size
    axes: list[list[int]] = []
    for stride, dim in sorted(zip(strides, dims, strict=True)):
        if dim == 1:
            continue
        if not axes and stride * size == length:
            length *= dim
        else:
            axes.append([i * stride * size for i in range(dim)])
    starts = [offset]
    for axis in axes:
        starts = [start + step for step in axis for start in starts]
    return _union((start, start + length) for start in starts)


def _union(runs: Iterable[tuple[int, int]]) -> Runs:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _overlap(one: Runs, other: Runs) -> bool:
    if one[-1][1] <= other[0][0] or other[-1][1] <= one[0][0]:
        return False
    if len(one) > len(other):
        one, other = other, one
    for low, high in one:
        at = bisect_right(other, (high, -1)) - 1
        if at >= 0 and other[at][1] > low:
            return True
    return False


def _coverage(cuda: Cuda, accesses: dict[str, set[Access]]) -> Iterator[str]:
    for name, touching in accesses.items():
        storage, nbytes = cuda.tensors[name]
        local = [a for a in touching if not a.remote]
        if storage != "host" and any(a.runs[-1][1] > nbytes for a in local):
            yield f"{name}: a tile runs past {nbytes} bytes"
        if PARTIAL.fullmatch(name) or (storage == "host" and any(a.at_run_time for a in local)):
            continue
        read = _union(run for a in local if not a.writes for run in a.runs)
        written = _union(run for a in local if a.writes for run in a.runs)
        remote = any(a.remote for a in touching)
        if storage == "host":
            if len(_union([*read, *written])) != 1 or (read or written)[0][0] != 0:
                yield f"{name}: tiles leave a gap"
        elif storage == "shuffled":
            if read != ((0, nbytes),):
                yield f"{name}: not all of it is read"
        elif not remote and written != ((0, nbytes),):
            yield f"{name}: not all of it is written"
        elif read not in ((), ((0, nbytes),)):
            yield f"{name}: not all of it is read"


# -- order -------------------------------------------------------------------------------------


def _order(cuda: Cuda, graph: dict[str, Any], accesses: dict[str, set[Access]]) -> Iterator[str]:
    """No two accesses to the same bytes, one of them a write, may lack a path between them."""
    after = _reachable(graph)
    last = len(graph["all_events"]) - 1
    if any(not after[event] >> last & 1 for event in range(1, last)):
        yield "an event does not lead to the end"
    for name, touching in accesses.items():
        if PARTIAL.fullmatch(name):
            continue  # split-KV descriptors give row strides that are too small, and go unused
        waves: dict[tuple[int, int], list[Access]] = defaultdict(list)
        for access in touching:
            waves[access.dependent, access.trigger].append(access)
        for first, second in product(waves, repeat=2):
            before = after[first[1]] >> second[0] & 1
            behind = after[second[1]] >> first[0] & 1
            if before or behind or first > second:
                continue
            for one, other in product(waves[first], waves[second]):
                if _collide(one, other):
                    yield f"{name}: {one} and {other} are not ordered"
        if cuda.tensors[name][0] == "scratch":
            yield from _provided(name, waves, after)


def _collide(one: Access, other: Access) -> bool:
    if not (one.writes or other.writes) or one.remote or other.remote:
        return False
    # Tasks of one operator: a task reads what it writes in place, and rows that are picked at
    # run time do not meet.
    same_task = one.runs == other.runs
    picked = one.at_run_time or other.at_run_time
    if one.operator == other.operator and (same_task or picked):
        return False
    return _overlap(one.runs, other.runs)


def _provided(
    name: str, waves: dict[tuple[int, int], list[Access]], after: list[int]
) -> Iterator[str]:
    """Every byte read was written before, in the same iteration."""
    for (dependent, _), touching in waves.items():
        reads = {access.runs for access in touching if not access.writes}
        if not reads:
            continue
        writes = {
            access.runs
            for wave, others in waves.items()
            if after[wave[1]] >> dependent & 1
            for access in others
            if access.writes
        }
        written = _union(run for runs in writes for run in runs)
        for runs in reads:
            if _union([*written, *runs]) != written:
                yield f"{name}: {runs[:3]} is read before it is written"


def _reachable(graph: dict[str, Any]) -> list[int]:
    """For each event the set of events it comes before or is, as bits."""
    tasks, events = graph["all_tasks"], graph["all_events"]
    edges: dict[int, set[int]] = defaultdict(set)
    for task in tasks[2:]:
        waits = task["dependent_event"]
        source = 1 if waits == INVALID else _position(waits)
        edges[source].add(_position(task["trigger_event"]))
    after = [0] * len(events)
    # Events are laid out in launch order, so that every edge goes up.
    for event in reversed(range(len(events))):
        after[event] = 1 << event
        for target in edges[event]:
            assert target > event, f"edge {event} → {target} goes back"
            after[event] |= after[target]
    return after
