"""What each task type does with its slots: the access table.

Sources: the measured facts about MPK's generated graphs and kernels (which declared inputs
are written, which slots are dummies, which rows a body picks at run time); the codes are
those of MPK's ``runtime_header.h``. A ``.cu``'s own dispatch bodies override the table:
a slot that the body of a variant does not name is not touched by it.

A slot is written as ``access`` plus marks:

======  ====================================================================
``r``   read                                ``w``   written
``rw``  read and written                    ``-``   touched by nobody
``?``   optional: may be None, the kernel skips it by a template flag
``+``   accumulating: added into what is there; such writers may overlap
``@``   the rows are picked at run time (pages, requests, experts, splits)
``!``   the access crosses ranks
======  ====================================================================

Slots that a type's row does not list are read (inputs) or written (outputs).
"""

from __future__ import annotations

from functools import cache

import msgspec


class Slot(msgspec.Struct, frozen=True):
    """How a task type uses one slot.

    ``indexed``: which part of the tile is touched is known only at run time, so tasks of
    one operator do not collide there and no byte can be proven missing. ``remote``: the
    bytes of another rank are meant.
    """

    reads: bool
    writes: bool
    optional: bool = False
    accumulates: bool = False
    indexed: bool = False
    remote: bool = False

    @property
    def exact(self) -> bool:
        """Whether exactly the bytes of the tile on this rank are touched."""
        return not (self.indexed or self.remote)


READ = Slot(reads=True, writes=False)
WRITE = Slot(reads=False, writes=True)
_READ_SOME = Slot(reads=True, writes=False, indexed=True)
_WRITE_SOME = Slot(reads=False, writes=True, indexed=True)


class TaskType(msgspec.Struct, frozen=True):
    """One task type. ``final``: what it writes is the model's result, read by the host.

    ``frame`` marks the types that the runtime handles itself, without a dispatch branch.
    ``collective`` marks those that talk to other ranks, ``signals_rows`` those that trigger
    their event once for each row of what they send. ``words`` are what the names of the
    tensors in the inputs have in them, empty where that is not said. ``given``: the user says
    that the code is this type's. ``known``: it is known what the type does with its slots.
    ``operator`` is a user's own word on what the slots are to each other
    (:mod:`mirage_gate.facts.signatures`).
    """

    code: int
    name: str
    inputs: tuple[Slot, ...] = ()
    outputs: tuple[Slot, ...] = ()
    final: bool = False
    frame: bool = False
    collective: bool = False
    signals_rows: bool = False
    words: tuple[str, ...] = ()
    given: bool = False
    known: bool = True
    operator: str = ""

    def input(self, slot: int) -> Slot:
        """How input ``slot`` is used."""
        if slot < len(self.inputs):
            return self.inputs[slot]
        return READ if self.known else _READ_SOME

    def output(self, slot: int) -> Slot:
        """How output ``slot`` is used."""
        if slot < len(self.outputs):
            return self.outputs[slot]
        return WRITE if self.known else _WRITE_SOME


def slot(text: str) -> Slot:
    """Read one slot's notation. Raises :class:`ValueError` for anything else."""
    access = text.rstrip("?+@!")
    if access not in ("r", "w", "rw", "-"):
        raise ValueError(f"{text!r} is no slot: r, w, rw or -, then any of ? + @ !")
    return Slot(
        reads="r" in access,
        writes="w" in access,
        optional="?" in text,
        accumulates="+" in text,
        indexed="@" in text,
        remote="!" in text,
    )


def slots(text: str) -> tuple[Slot, ...]:
    """Read a row of slots, separated by blanks."""
    return tuple(slot(part) for part in text.split())


_ATTENTION = "r rw@ rw@ r? r? r? r?"
_WORDS = {
    _ATTENTION: ("", "k", "v", "q", "k", "cos", "sin"),
    "rw rw r r": ("", "", "cos", "sin"),
}
"""By access: the caches, the norms of queries and keys, and the rotary tables."""

# name: (inputs, outputs). Only rows that differ from "inputs read, outputs written".
_ACCESS: dict[str, tuple[str, str]] = {
    "TASK_ATTENTION_1": (_ATTENTION, "w"),
    "TASK_SINGLE_BATCH_EXTEND_ATTENTION": (_ATTENTION, "w"),
    "TASK_PAGED_ATTENTION_1": (_ATTENTION, "w"),
    "TASK_PAGED_ATTENTION_HOPPER": (_ATTENTION, "w"),
    "TASK_ATTN_SM100": (_ATTENTION, "w"),
    "TASK_PAGED_ATTENTION_SPLIT_KV_HOPPER": (_ATTENTION, "w@ w@"),
    "TASK_PAGED_ATTENTION_SPLIT_KV_SM100": (_ATTENTION, "w@ w@"),
    "TASK_PAGED_ATTENTION_SPLIT_KV_MERGE_SM100": ("r@ r@", "w"),
    "TASK_REDUCE": ("r r!", "w"),
    "TASK_NVSHMEM_COPY": ("r", "w!"),
    "TASK_NVSHMEM_ALLGATHER_STRIDED_PUT": ("r", "w!"),
    "TASK_NVSHMEM_TILE_ALLREDUCE": ("r!", "w"),
    "TASK_SPLITK_LINEAR_SWAPAB_HOPPER": ("r r", "w+"),
    "TASK_SPLITK_LINEAR_SM100": ("r r", "w+"),
    "TASK_MOE_W13_LINEAR_SM90": ("r r@ r r", "w@"),
    "TASK_MOE_W2_LINEAR_SM90": ("r@ r@ r r", "w@"),
    "TASK_MOE_W13_LINEAR_SM100": ("r r@ r r", "w@"),
    "TASK_MOE_W2_LINEAR_SM100": ("r@ r@ r r", "w@"),
    "TASK_MOE_W13_FP8_SM100": ("r r r@ r@ r r", "w@"),
    "TASK_MOE_W2_FP8_SM100": ("r@ r@ r@ r@ r r", "w@"),
    "TASK_TENSOR_INIT": ("w -", "-"),
    "TASK_MLA_DECODE_SM100": ("r r", "w@ w@"),
    "TASK_MLA_MTP_DECODE_SM100": ("r r", "w@ w@"),
    "TASK_MLA_MTP_DECODE_TP2_SM100": ("r r", "w@ w@"),
    "TASK_MLA_MTP_DECODE_TP4_SM100": ("r r", "w@ w@"),
    "TASK_MLA_MTP_DECODE_TP8_SM100": ("r r", "w@ w@"),
    "TASK_MLA_REDUCE_SM100": ("r@ r@", "w"),
    "TASK_MLA_MTP_REDUCE_SM100": ("r@ r@", "w"),
    "TASK_MLA_MTP_DECODE_TP2_REDUCE_SM100": ("r@ r@", "w"),
    "TASK_MLA_MTP_DECODE_TP4_REDUCE_SM100": ("r@ r@", "w"),
    "TASK_MLA_MTP_DECODE_TP8_REDUCE_SM100": ("r@ r@", "w"),
    "TASK_MLA_PREFILL_SM100": ("r r r r w", ""),
    "TASK_MLA_KV_GATHER_SM100": ("r r rw@ w", ""),
    "TASK_MLA_KV_GATHER_SPLIT_SM100": ("r r rw@ w w", ""),
    "TASK_MLA_KV_GATHER_UNIFIED_SM100": ("r r r rw@ w w", ""),
    "TASK_DEEPSEEK_MLA_ROPE_SM100": ("rw rw r r", "w w"),
    "TASK_MTP_TOKEN_SCATTER": ("r", "w@"),
    "TASK_MTP_FLOAT_SCATTER": ("r", "w@"),
    "TASK_PROB_SCATTER_SM100": ("r", "w@"),
}

_FINAL = frozenset(
    {
        "TASK_ARGMAX",
        "TASK_ARGMAX_REDUCE",
        "TASK_ARGMAX_REDUCE_SM100",
        "TASK_SAMPLING_SM100",
        "TASK_TARGET_VERIFY_GREEDY",
        "TASK_MTP_VERIFY_STRICT",
        "TASK_MTP_VERIFY_PROBABILISTIC",
        "TASK_MTP_ACCEPT_COMMIT",
        "TASK_MTP_PREPARE_VERIFY",
    }
)
_FRAME = frozenset({"TASK_TERMINATE", "TASK_BEGIN_TASK_GRAPH"})
_COLLECTIVE = frozenset(
    {
        "TASK_ALLREDUCE",
        "TASK_REDUCE",
        "TASK_NVSHMEM_COPY",
        "TASK_NVSHMEM_ALLGATHER_STRIDED_PUT",
        "TASK_NVSHMEM_TILE_ALLREDUCE",
    }
)

CODES: dict[int, str] = {
    0: "TASK_TERMINATE",
    10: "TASK_BEGIN_TASK_GRAPH",
    101: "TASK_EMBEDDING",
    102: "TASK_RMS_NORM_LINEAR",
    103: "TASK_ATTENTION_1",
    104: "TASK_ATTENTION_2",
    105: "TASK_SILU_MUL_LINEAR_WITH_RESIDUAL",
    106: "TASK_ALLREDUCE",
    107: "TASK_REDUCE",
    108: "TASK_LINEAR_WITH_RESIDUAL",
    109: "TASK_ARGMAX",
    110: "TASK_ARGMAX_PARTIAL",
    111: "TASK_ARGMAX_REDUCE",
    112: "TASK_FIND_NGRAM_PARTIAL",
    113: "TASK_FIND_NGRAM_GLOBAL",
    114: "TASK_TARGET_VERIFY_GREEDY",
    115: "TASK_SINGLE_BATCH_EXTEND_ATTENTION",
    116: "TASK_PAGED_ATTENTION_1",
    117: "TASK_PAGED_ATTENTION_2",
    118: "TASK_SILU_MUL",
    119: "TASK_RMS_NORM",
    120: "TASK_LINEAR",
    121: "TASK_IDENTITY",
    150: "TASK_HOPPER_TASK_BEGIN",
    151: "TASK_LINEAR_WITH_RESIDUAL_HOPPER",
    152: "TASK_LINEAR_HOPPER",
    153: "TASK_PAGED_ATTENTION_HOPPER",
    154: "TASK_RMS_NORM_HOPPER",
    155: "TASK_LINEAR_SWAPAB_HOPPER",
    156: "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER",
    157: "TASK_LINEAR_CUTLASS_HOPPER",
    158: "TASK_LINEAR_CUTLASS_WITH_RESIDUAL_HOPPER",
    159: "TASK_SILU_MUL_HOPPER",
    160: "TASK_EMBEDDING_HOPPER",
    161: "TASK_MOE_W13_LINEAR_SM90",
    162: "TASK_MOE_W2_LINEAR_SM90",
    163: "TASK_SPLITK_LINEAR_SWAPAB_HOPPER",
    164: "TASK_PAGED_ATTENTION_SPLIT_KV_HOPPER",
    198: "TASK_HOPPER_TASK_END",
    200: "TASK_SCHD_TASKS",
    201: "TASK_SCHD_EVENTS",
    202: "TASK_GET_EVENT",
    203: "TASK_GET_NEXT_TASK",
    230: "TASK_SM100_TASK_BEGIN",
    231: "TASK_SM100_TMA_START_TASK",
    248: "TASK_MOE_W13_FP8_SM100",
    249: "TASK_MOE_W2_FP8_SM100",
    251: "TASK_SPLITK_LINEAR_SM100",
    252: "TASK_LINEAR_WITH_RESIDUAL_SM100",
    253: "TASK_LINEAR_SM100",
    254: "TASK_MOE_W13_LINEAR_SM100",
    255: "TASK_MOE_W2_LINEAR_SM100",
    256: "TASK_SM100_TMA_END_TASK",
    257: "TASK_ATTN_SM100",
    258: "TASK_ARGMAX_REDUCE_SM100",
    259: "TASK_ARGMAX_PARTIAL_SM100",
    260: "TASK_MOE_TOPK_SOFTMAX_SM100",
    261: "TASK_MOE_MUL_SUM_ADD_SM100",
    262: "TASK_TENSOR_INIT",
    263: "TASK_PAGED_ATTENTION_SPLIT_KV_SM100",
    264: "TASK_PAGED_ATTENTION_SPLIT_KV_MERGE_SM100",
    265: "TASK_SAMPLING_SM100",
    266: "TASK_MLA_DECODE_SM100",
    267: "TASK_MLA_REDUCE_SM100",
    268: "TASK_MLA_PREFILL_SM100",
    269: "TASK_MLA_MTP_DECODE_SM100",
    270: "TASK_MLA_MTP_REDUCE_SM100",
    271: "TASK_MTP_VERIFY_STRICT",
    272: "TASK_MTP_ACCEPT_COMMIT",
    273: "TASK_MTP_TOKEN_SCATTER",
    274: "TASK_MTP_PREPARE_VERIFY",
    275: "TASK_QUANTIZE_FP8_SM100",
    276: "TASK_LINEAR_FP8_SM100",
    277: "TASK_LINEAR_FP8_WITH_RESIDUAL_SM100",
    278: "TASK_MLA_KV_GATHER_SM100",
    280: "TASK_MOE_TOPK_SIGMOID_SM100",
    281: "TASK_ELEMENTWISE_ADD_SM100",
    282: "TASK_SOFTMAX_GATHER_SM100",
    283: "TASK_MTP_VERIFY_PROBABILISTIC",
    284: "TASK_PROB_SCATTER_SM100",
    285: "TASK_MTP_FLOAT_SCATTER",
    286: "TASK_PROB_EXTRACT_SM100",
    287: "TASK_MLA_MTP_DECODE_TP2_SM100",
    288: "TASK_MLA_MTP_DECODE_TP2_REDUCE_SM100",
    289: "TASK_MLA_MTP_DECODE_TP4_SM100",
    290: "TASK_MLA_MTP_DECODE_TP4_REDUCE_SM100",
    291: "TASK_MLA_MTP_DECODE_TP8_SM100",
    292: "TASK_MLA_MTP_DECODE_TP8_REDUCE_SM100",
    293: "TASK_MLA_KV_GATHER_SPLIT_SM100",
    294: "TASK_MTP_BUILD_EMBED_INPUT",
    295: "TASK_MLA_PREFILL_TP8_SM100",
    298: "TASK_SM100_TASK_END",
    300: "TASK_MULTIGPU_TASK_BEGIN",
    301: "TASK_NVSHMEM_ALLGATHER_STRIDED_PUT",
    302: "TASK_NVSHMEM_TILE_ALLREDUCE",
    349: "TASK_MULTIGPU_TASK_END",
    910: "TASK_GRAPH",
}
"""The runtime header's codes and names."""


def task_type(code: int, name: str) -> TaskType:
    """Build the built-in facts of one type; a name that the table lacks has the defaults."""
    inputs, outputs = _ACCESS.get(name, ("", ""))
    return TaskType(
        code=code,
        name=name,
        inputs=slots(inputs),
        outputs=slots(outputs),
        final=name in _FINAL,
        frame=name in _FRAME,
        collective=name in _COLLECTIVE,
        signals_rows=name == "TASK_NVSHMEM_COPY",
        words=_WORDS.get(inputs, ()),
        known=name in _ACCESS or name in _PLAIN,
    )


_PLAIN = frozenset(CODES.values()) - _ACCESS.keys()
"""The types that read their inputs and write their outputs."""


@cache
def built_in() -> dict[int, TaskType]:
    """Give every known type by its code."""
    return {code: task_type(code, name) for code, name in CODES.items()}
