"""What a task type is in a plan: its operator's word, and what its slots are to it.

A row is a statement in the plan's own notation over the slots: ``i0`` is input 0, ``o0`` output
0. It goes by the type's *name*, less what tells generations and sizes apart (:data:`ASIDE`), so
one row stands for Ampere's, Hopper's and Blackwell's kernels. A row may be several statements,
joined by names of its own: a fused kernel reads as what it does. ``a:b`` is a value with its
scales, one name in a plan.

An operator that MPK splits over tasks and joins again is two types: ``X_parts`` and ``X_merge``.
Where the second takes the first's results, a plan has one ``X``. A type without a row is called
by its name, reads its inputs and gives what it writes.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

ASIDE = re.compile(r"_(?:HOPPER|SM\d+|CUTLASS|SWAPAB|AMPERE|TP\d+|V\d+)(?=_|$)")
"""What a type's name says about the machine it is for, and not about what it does."""

_ATTENTION = "attention(i0, i1, i2, i3, i4, i5, i6)"
_MLA_PARTS = "o0, o1 = mla_attention_parts(i0, i1)"
_MLA_MERGE = "o0 = mla_attention_merge(i0, i1)"

WORDS: dict[str, str] = {
    "EMBEDDING": "o0 = embedding(i0, i1)",
    "RMS_NORM": "o0 = rms_norm(i0, i1)",
    "RMS_NORM_LINEAR": "h = rms_norm(i0, i1); o0 = linear(h, i2)",
    "LINEAR": "o0 = linear(i0, i1)",
    "LINEAR_WITH_RESIDUAL": "o0 = linear(i0, i1) + i2",
    "SPLITK_LINEAR": "o0 = linear(i0, i1) + o0",
    "LINEAR_FP8": "o0 = linear(i0:i1, i2:i3)",
    "LINEAR_FP8_WITH_RESIDUAL": "o0 = linear(i0:i1, i2:i3) + i4",
    "QUANTIZE_FP8": "o0:o1 = quantize(i0)",
    "ATTENTION_1": f"o0 = {_ATTENTION}",
    "SINGLE_BATCH_EXTEND_ATTENTION": f"o0 = {_ATTENTION}",
    "PAGED_ATTENTION_1": f"o0 = {_ATTENTION}",
    "PAGED_ATTENTION": f"o0 = {_ATTENTION}",
    "ATTN": f"o0 = {_ATTENTION}",
    "PAGED_ATTENTION_SPLIT_KV": "o0, o1 = attention_parts(i0, i1, i2, i3, i4, i5, i6)",
    "PAGED_ATTENTION_SPLIT_KV_MERGE": "o0 = attention_merge(i0, i1)",
    "MLA_KV_GATHER": "i3 = kv_append(i0, i1, i2)",
    "MLA_KV_GATHER_SPLIT": "i3, i4 = kv_append(i0, i1, i2)",
    "MLA_DECODE": _MLA_PARTS,
    "MLA_MTP_DECODE": _MLA_PARTS,
    "MLA_REDUCE": _MLA_MERGE,
    "MLA_MTP_REDUCE": _MLA_MERGE,
    "MLA_MTP_DECODE_REDUCE": _MLA_MERGE,
    "MLA_PREFILL": "i4 = mla_prefill(i0, i1, i2, i3)",
    "MLA_ROPE_Q": "o0 = rope(i0, i1, i2)",
    "SILU_MUL": "o0 = silu_mul(i0)",
    "SILU_MUL_LINEAR_WITH_RESIDUAL": "m = silu_mul(i0); o0 = linear(m, i1) + i2",
    "MOE_TOPK_SOFTMAX": "o0, o1, o2 = topk_softmax(i0)",
    "MOE_TOPK_SIGMOID": "o0, o1, o2 = topk_sigmoid(i0, i1)",
    "MOE_W13_LINEAR": "o0 = experts(i0, i1, i2, i3)",
    "MOE_W2_LINEAR": "o0 = experts(i0, i1, i2, i3)",
    "MOE_W13_FP8": "o0 = experts(i0:i1, i2:i3, i4, i5)",
    "MOE_W2_FP8": "o0 = experts(i0:i1, i2:i3, i4, i5)",
    "MOE_MUL_SUM_ADD": "o0 = weighted_sum(i0, i1) + i2",
    "ELEMENTWISE_ADD": "o0 = i0 + i1",
    "IDENTITY": "o0 = copy(i0)",
    "TENSOR_INIT": "i0 = zeros()",
    "ARGMAX": "o0 = argmax(i0)",
    "ARGMAX_PARTIAL": "o0, o1 = argmax_parts(i0)",
    "ARGMAX_REDUCE": "o0 = argmax_merge(i0, i1)",
    "SAMPLING": "o0 = sample(i0)",
    "ALLREDUCE": "o0 = all_reduce(i0)",
    "NVSHMEM_TILE_ALLREDUCE": "o0 = all_reduce(i0)",
    "NVSHMEM_COPY": "o0 = put(i0)",
    "NVSHMEM_ALLGATHER_STRIDED_PUT": "o0 = put(i0)",
    "REDUCE": "o0 = all_reduce(i0, i1)",
}
"""Type name, less :data:`ASIDE`, to what it is."""

ZEROS = "zeros"
PUT = "put"
ALL_REDUCE = "all_reduce"
QUANTIZE = "quantize"
ADD = "add"
PARTS, MERGE = "_parts", "_merge"

Pick = tuple[str, int]
"""``("i", 0)`` is input 0, ``("o", 0)`` output 0, ``("h", 0)`` the row's own name ``h``."""


class Form(msgspec.Struct, frozen=True):
    """One statement of a row. A term is a slot, or a slot and that of its scales."""

    results: tuple[tuple[Pick, ...], ...]
    operator: str
    operands: tuple[tuple[Pick, ...], ...]
    added: tuple[tuple[Pick, ...], ...] = ()


@cache
def forms(name: str) -> tuple[Form, ...] | None:
    """Give the statements of a type by its name; None for one that has no row."""
    row = WORDS.get(base(name))
    return None if row is None else tuple(_form(text) for text in row.split("; "))


def results(name: str) -> tuple[tuple[bool, int], ...]:
    """Give the slots, (is input, index), that hold what a type is run for; none if not known.

    A cache that attention fills is none of them: it is written beside its result.
    """
    picks = (pick for form in forms(name) or () for result in form.results for pick in result)
    return tuple((side == "i", index) for side, index in picks if side in ("i", "o"))


_ATTENDS = frozenset({"attention", "mla_attention", "mla_prefill"})


def attends(name: str) -> bool:
    """Whether a type is attention, or a half of it."""
    operators = (form.operator for form in forms(name) or ())
    return any(o.removesuffix(PARTS).removesuffix(MERGE) in _ATTENDS for o in operators)


def base(name: str) -> str:
    """Give a type's name less what it says of machines: ``LINEAR_WITH_RESIDUAL``."""
    return ASIDE.sub("", name.removeprefix("TASK_"))


def word(name: str) -> str:
    """Give the operator's word for a type without a row."""
    plain = re.sub(r"\W+", "_", base(name)).strip("_").lower()
    return plain if plain[:1].isalpha() else f"task_{plain}"


def _form(text: str) -> Form:
    results, _, right = text.partition(" = ")
    first, *added = right.split(" + ")
    call = re.fullmatch(r"(\w+)\((.*)\)", first)
    if call is None:
        return Form(_terms(results), ADD, _terms(right.replace(" + ", ", ")))
    return Form(_terms(results), call[1], _terms(call[2]), _terms(", ".join(added)))


def _terms(text: str) -> tuple[tuple[Pick, ...], ...]:
    terms = text.split(", ") if text else []
    return tuple(tuple(_pick(part) for part in term.split(":")) for term in terms)


def _pick(text: str) -> Pick:
    slot = re.fullmatch(r"([io])(\d+)", text)
    return (slot[1], int(slot[2])) if slot else (text, 0)
