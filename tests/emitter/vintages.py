"""The same graphs as earlier states of MPK's generator wrote them.

Each function takes a pair of today and gives its texts as of then. What differs: how event ids
and bodies are spelled, which codes types have, which metadata there is, who runs the tasks
between ranks, and how often these signal.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .graph import INVALID_EVENT, METADATA, dump
from .pair import Pair

__all__ = ["VINTAGES", "Texts"]

PUT, REDUCE = 301, 107


@dataclass
class Texts:
    """A rank's two files as texts."""

    rank: int
    cuda: str
    graph: str


def _without_metadata(cuda: str, tasks: list[dict[str, Any]], kept: tuple[str, ...]) -> str:
    """Take fields out of the loader and of the tasks."""
    for name in METADATA:
        if name not in kept:
            cuda = re.sub(rf'\n.*task\.at\("{name}"\).*', "", cuda)
            for task in tasks:
                task.pop(name, None)
    return re.sub(r"task_desc->task_metadata\.(request_id|expert_offset)", r"task_desc->\1", cuda)


def _with_copies(cuda: str, graph: dict[str, Any], rows: bool) -> str:
    """Let copies between ranks be type 199; ``rows``: each row signals."""
    for task in graph["all_tasks"]:
        if task["task_type"] == PUT:
            task["task_type"] = 199
            if rows:
                position = task["trigger_event"] & 0xFFFF_FFFF
                signalled = graph["all_events"][position]
                signalled.setdefault("rows", task["inputs"][0]["dims"][0])
    for event in graph["all_events"]:
        event["num_triggers"] *= event.pop("rows", 1)
    return cuda.replace("TASK_NVSHMEM_ALLGATHER_STRIDED_PUT", "TASK_NVSHMEM_COPY")


def _without_branch(cuda: str, name: str) -> str:
    """Take the branches of a type out of the dispatch chain: the runtime ran it itself."""
    arm = rf"  (?:else )?if \(task_desc->task_type == {name} &&.*?\n  }}\n"
    cuda = re.sub(arm, "", cuda, flags=re.DOTALL)
    return re.sub(r"(_execute_task\([^{]*\{\n)  else if", r"\1  if", cuda)


def june_2025(pair: Pair) -> Texts:
    """Event ids are objects, their gpu counted from the file's own rank."""
    graph = copy.deepcopy(pair.graph)
    for task in graph["all_tasks"]:
        for field in ("trigger_event", "dependent_event"):
            number = task[field]
            gpu = (number >> 32 & 0xFFFF) - pair.rank if number != INVALID_EVENT else 0
            task[field] = {
                "gpu_offset": gpu % pair.num_gpus,
                "event_pos": number & 0xFFFF_FFFF,
                "is_nvshmem": number != INVALID_EVENT and bool(number >> 48),
            }
    return Texts(pair.rank, pair.cuda_text(), dump(graph))


def september_2025(pair: Pair) -> Texts:
    """Bodies name ``inputs[i].base_ptr``; the runtime runs what is between ranks."""
    graph = copy.deepcopy(pair.graph)
    cuda = _with_copies(pair.cuda_text(), graph, rows=False)
    cuda = _without_branch(_without_branch(cuda, "TASK_NVSHMEM_COPY"), "TASK_REDUCE")
    cuda = _without_metadata(cuda, graph["all_tasks"], ("request_id",))
    cuda = re.sub(r"(in|out)put_tma_desc_ptrs\[(\d+)\]", r"\1puts[\2].tma_desc_ptrs", cuda)
    cuda = re.sub(r"(in|out)put_ptrs\[(\d+)\]", r"\1puts[\2].base_ptr", cuda)
    for task in graph["all_tasks"]:
        if task["dependent_event"] != INVALID_EVENT:
            task["dependent_event"] &= (1 << 48) - 1  # nobody looked at a tag there
    return Texts(pair.rank, cuda.replace("task_desc->", "task_desc."), dump(graph))


def october_2025(pair: Pair) -> Texts:
    """The first kernels for SM100, under codes that mean something else today."""
    graph = copy.deepcopy(pair.graph)
    cuda = _with_copies(pair.cuda_text(), graph, rows=False)
    cuda = _without_branch(cuda, "TASK_NVSHMEM_COPY")
    cuda = _without_metadata(cuda, graph["all_tasks"], ("request_id",))
    for name, new, code, then in (
        ("TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER", "TASK_LINEAR_WITH_RESIDUAL_SM100", 156, 251),
        ("TASK_LINEAR_SWAPAB_HOPPER", "TASK_LINEAR_SM100", 155, 252),
        ("TASK_PAGED_ATTENTION_HOPPER", "TASK_ATTN_SM100", 153, 253),
        ("TASK_ARGMAX_REDUCE", "TASK_ARGMAX_REDUCE_SM100", 111, 254),
        ("TASK_ARGMAX_PARTIAL", "TASK_ARGMAX_PARTIAL_SM100", 110, 255),
        ("TASK_ARGMAX_REDUCE_SM100", "TASK_ARGMAX_REDUCE_SM100", 258, 254),
        ("TASK_ARGMAX_PARTIAL_SM100", "TASK_ARGMAX_PARTIAL_SM100", 259, 255),
    ):
        cuda = re.sub(rf"\b{name}\b", new, cuda)
        for task in graph["all_tasks"]:
            if task["task_type"] == code:
                task["task_type"] = then
    return Texts(pair.rank, cuda, dump(graph))


def november_2025(pair: Pair) -> Texts:
    """A copy between ranks signals once for each row."""
    graph = copy.deepcopy(pair.graph)
    cuda = _with_copies(pair.cuda_text(), graph, rows=True)
    cuda = _without_metadata(cuda, graph["all_tasks"], ("request_id", "expert_offset"))
    return Texts(pair.rank, cuda, dump(graph))


VINTAGES: dict[str, Callable[[Pair], Texts]] = {
    function.__name__: function
    for function in (june_2025, september_2025, october_2025, november_2025)
}
