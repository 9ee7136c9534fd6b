"""Which task type a code names: that depends on when, and by which fork, a pair was emitted.

A type's facts go by its name (:mod:`mirage_gate.facts.task_types`). The graph has codes only;
the dispatch branches of the ``.cu`` name every type that the kernel runs, with its variants.
So the codes are those of the vintage under which most of the pair's kernels have a branch.

Sources: the enum ``TaskType`` in each state of MPK's public ``runtime_header.h`` from June
2025 to April 2026, and the codes that newer public sources and forks use.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.task_types import CODES, TaskType, task_type

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts


class Vintage(msgspec.Struct, frozen=True):
    """The codes of one time: those of today but for ``differs``, code to name.

    An empty name: the code meant nothing then. ``since`` says when it began, as people name it.
    """

    since: str
    differs: dict[int, str]

    def names(self) -> dict[int, str]:
        """Give every code's name."""
        return {code: name for code, name in (CODES | self.differs).items() if name}


_COPY = {199: "TASK_NVSHMEM_COPY", 301: "", 302: ""}
_FIRST_SM100 = {
    251: "TASK_LINEAR_WITH_RESIDUAL_SM100",
    252: "TASK_LINEAR_SM100",
    253: "TASK_ATTN_SM100",
    254: "TASK_ARGMAX_REDUCE_SM100",
    255: "TASK_ARGMAX_PARTIAL_SM100",
    **dict.fromkeys(range(256, 267), ""),
}
_NEWER = {
    232: "TASK_COPY",
    233: "TASK_CONCAT",
    235: "TASK_EAGLE3_D2T_REMAP",
    236: "TASK_EAGLE3_COMMIT",
    242: "TASK_LINEAR_SM100_V2",
    243: "TASK_LINEAR_WITH_RESIDUAL_SM100_V2",
    244: "TASK_LINEAR_SM100_V3",
    245: "TASK_LINEAR_WITH_RESIDUAL_SM100_V3",
    246: "TASK_SPLITK_LINEAR_FP8_SWAPAB_SM100",
    247: "TASK_LINEAR_FP8_SWAPAB_SM100",
    250: "TASK_LINEAR_FP8_SWAPAB_WITH_RESIDUAL_SM100",
    279: "TASK_LINEAR_FP8_BMM_SM100",
    288: "TASK_MLA_MTP_DECODE_TP_REDUCE_SM100",
    296: "TASK_MLA_UNIFIED_SM100",
    297: "TASK_MLA_KV_GATHER_UNIFIED_SM100",
    298: "TASK_MLA_PREFILL_TP8_CHUNKED_SM100",
    299: "TASK_MLA_PREFILL_TP8_CHUNKED_SPLITK_SM100",
    303: "TASK_NVSHMEM_GLOBAL_ARGMAX",
    304: "TASK_DEEPSEEK_MLA_ROPE_SM100",
    305: "TASK_MLA_PREFILL_TP8_CHUNKED_REDUCE_SM100",
    306: "TASK_FP8_GEMM_DENSE_SM100",
    307: "TASK_DSV3_DENSE_MLP_FUSED_SM100",
    308: "TASK_FP8_GEMM_DENSE_FINEN_SM100",
    309: "TASK_FUSED_RMSNORM_QUANTIZE_FP8_SM100",
    310: "TASK_MOE_TOPK_COMPACT_SM100",
    311: "TASK_FP8_GROUP_GEMM_SMALLM_SM100",
    312: "TASK_FP8_GROUP_GEMM_LARGEM_SM100",
    313: "TASK_MOE_PERMUTE_SM100",
    314: "TASK_MOE_UNPERMUTE_SM100",
    315: "TASK_TRANSPOSE_SCALE_SM100",
    316: "TASK_ASSEMBLE_Q_DECODE_SM100",
    317: "TASK_FP8_GROUP_GEMM_LARGEM_COMPACT_SM100",
    318: "TASK_DSV3_ROUTER_GATE_GEMV_SM100",
    319: "TASK_ATTN_BLOCK_MEGAKERNEL_SM100",
    320: "TASK_MOE_TOPK_MARKER_INIT_SM100",
    321: "TASK_FP8_GROUP_GEMM_LARGEM_COMPACT_FUSED_SM100",
    322: "TASK_LINEAR_FP8_BMM_DENSE_SM100",
    323: "TASK_MLA_KV_APPEND_SM100",
    325: "TASK_FFN_FULL_MEGAKERNEL_SM100",
    326: "TASK_RMS_NORM_HOPPER_V2",
    327: "TASK_SILU_MUL_V2",
    328: "TASK_EMBEDDING_V2",
    329: "TASK_ATTN_SM100_V2",
    330: "TASK_ARGMAX_PARTIAL_SM100_V2",
    331: "TASK_ARGMAX_REDUCE_SM100_V2",
    332: "TASK_DSV3_FFN_ROUTER_QUANT_V2",
    333: "TASK_DSV3_FFN_TOPK_SIGMOID_V2",
    334: "TASK_DSV3_FFN_W13_GEMV_V2",
    335: "TASK_DSV3_FFN_SILU_QUANT_V2",
    336: "TASK_DSV3_FFN_W2_GEMV_V2",
    337: "TASK_DSV3_FFN_ROUTER_QUANT_RMS_V2",
    338: "TASK_DSV3_FFN_W13_TOPK_V2",
    339: "TASK_DSV3_FFN_W2_SILU_V2",
    340: "TASK_DSV3_ATTN_P0_QKVA_V2",
    341: "TASK_DSV3_ATTN_QB_ROPE_KV_V2",
    342: "TASK_DSV3_ATTN_MLA_PARTIAL_V2",
    343: "TASK_DSV3_ATTN_MLA_MERGE_V2",
    344: "TASK_DSV3_ATTN_WUV_V2",
    345: "TASK_DSV3_ATTN_OPROJ_V2",
    346: "TASK_DSV3_ATTN_MLA_FUSED_V2",
    347: "TASK_DSV3_FFN_W13_RQR_TOPK_V2",
    348: "TASK_DSV3_FFN_MEGA_V2",
    349: "TASK_DSV3_FFN_MEGA_FG_V2",
    350: "TASK_NVSHMEM_TILE_ALLREDUCE_V2",
    351: "TASK_NVSHMEM_TILE_ALLREDUCE_WITH_RESIDUAL_V2",
    352: "TASK_TENSOR_INIT_V2",
    353: "TASK_ATTN_BLOCK_MEGAKERNEL_V2",
    354: "TASK_DSV3_DENSE_MLP_FUSED_V2",
    355: "TASK_DSV3_LMHEAD_GEMV_V2",
    356: "TASK_DSV3_FFN_W13_PIPE_V2",
    357: "TASK_DSV3_FFN_W2_PIPE_V2",
}
_SECOND_KERNELS = {
    244: "TASK_LINEAR_SM100_V2",
    245: "TASK_LINEAR_WITH_RESIDUAL_SM100_V2",
    281: "TASK_RMS_NORM_HOPPER_V2",
    282: "TASK_SILU_MUL_V2",
    283: "TASK_EMBEDDING_V2",
    284: "TASK_ATTN_SM100_V2",
    285: "TASK_ARGMAX_PARTIAL_SM100_V2",
    286: "TASK_ARGMAX_REDUCE_SM100_V2",
}

VINTAGES = (
    Vintage("April 2026", {}),
    Vintage("after April 2026", _NEWER),
    Vintage("the first second-generation kernels", _NEWER | _SECOND_KERNELS),
    Vintage("29 January 2026", {199: "TASK_NVSHMEM_ALLGATHER_STRIDED_PUT", 301: "", 302: ""}),
    Vintage("25 November 2025", _COPY),
    Vintage("24 November 2025", _COPY | {263: "TASK_SAMPLING_SM100", 264: "", 265: ""}),
    Vintage("11 October 2025", _COPY | _FIRST_SM100),
)
"""Every vintage, the likeliest first: of equally good ones the first is taken."""


@cache
def _tables() -> tuple[dict[int, str], ...]:
    return tuple(vintage.names() for vintage in VINTAGES)


def types_of(facts: RankFacts) -> dict[int, TaskType]:
    """Give the task types of a rank's pair by code.

    What the user gave (a runtime header, types of the configuration) holds. A code that
    vintages use differently is judged by the one that fits best; where others fit as well and
    mean something else by it, it is left out: nobody knows what it is.
    """
    types = facts.options.task_types
    kernels = facts.wiring.kernels
    here = dict.fromkeys(code for code, _ in kernels)
    doubtful = [code for code in here if code in _apart() and not _given(types, code)]
    if doubtful:
        names = _best_names(facts, list(here), doubtful)
        by_name = {kind.name: kind for kind in types.values()}
        types = {code: kind for code, kind in types.items() if code not in doubtful}
        for code, name in names.items():
            kind = by_name.get(name) or task_type(code, name)
            types[code] = msgspec.structs.replace(kind, code=code)
    return _with_frame(facts, types)


def _best_names(facts: RankFacts, here: list[int], doubtful: list[int]) -> dict[int, str]:
    """Name those codes of which it is certain what they mean in this pair."""
    types = facts.options.task_types
    branches = {name for name, _ in facts.cuda.dispatch}
    given = {types[code].name for code in here if _given(types, code)}
    scores = []
    for names in _tables():
        misfits = sum(not _fits(facts, code, names.get(code, "")) for code in doubtful)
        meant = {names.get(code) for code in here} | given
        scores.append(2 * misfits + len(branches - meant))
    best, *rest = [
        names for score, names in zip(scores, _tables(), strict=True) if score == min(scores)
    ]
    own = branches - set().union(*(names.values() for names in _tables())) - given
    certain = {}
    for code in doubtful:
        name = best.get(code, "")
        others = {other.get(code, "") for other in rest} - {name, ""}
        # A kernel that no table names may be the code's: a fork's, or a newer one.
        if name and (_fits(facts, code, name) or not (others or own)):
            certain[code] = name
    return certain


def _given(types: dict[int, TaskType], code: int) -> bool:
    return code in types and types[code].given


@cache
def _apart() -> frozenset[int]:
    """The codes that do not mean the same in every vintage."""
    return frozenset(code for vintage in VINTAGES for code in vintage.differs)


def _fits(facts: RankFacts, code: int, name: str) -> bool:
    """Whether each variant of a code has a branch of that name, and its tasks the slots."""
    if not name:
        return False
    if name in _FRAME_ONCE and not any(here == name for here, _ in facts.cuda.dispatch):
        return name in _run_by_the_runtime(facts)
    for (own, variant), groups in facts.wiring.kernels.items():
        if own == code:
            branch = facts.cuda.dispatch.get((name, variant))
            if branch is None:
                return False
            slots = (branch.inputs, groups[0].inputs), (branch.outputs, groups[0].outputs)
            if any(max(named, default=-1) >= len(filled) for named, filled in slots):
                return False
    return True


_FRAME_ONCE = ("TASK_NVSHMEM_COPY", "TASK_REDUCE")


def _run_by_the_runtime(facts: RankFacts) -> tuple[str, ...]:
    """Name the types that the runtime ran itself, without a branch, when the pair was emitted.

    Until October 2025, when loaders did not read ``expert_offset`` yet, both kinds of task
    between ranks; until the middle of November copies (no ``kv_idx`` yet).
    """
    fields = facts.cuda.loader_fields
    if not fields or "kv_idx" in fields:
        return ()
    return _FRAME_ONCE[:1] if "expert_offset" in fields else _FRAME_ONCE


def _with_frame(facts: RankFacts, types: dict[int, TaskType]) -> dict[int, TaskType]:
    """Mark the types that the runtime runs itself, which signalled once then."""
    own = set(_run_by_the_runtime(facts)) - {name for name, _ in facts.cuda.dispatch}
    if not own:
        return types
    return {
        code: msgspec.structs.replace(kind, frame=True, signals_rows=False)
        if kind.name in own
        else kind
        for code, kind in types.items()
    }
