"""The kinds of task a persistent kernel runs, and what a dispatch body of each names.

A body is written in shorthand, one word per kernel argument, in the order the real bodies have:

    i3   task_desc->input_ptrs[3]                 o0   task_desc->output_ptrs[0]
    ti1  task_desc->input_tma_desc_ptrs[1][0]     to0  task_desc->output_tma_desc_ptrs[0][0]
    m.F  task_desc->task_metadata.F               r.F  runtime_config.F

Words before a `|` stand in the condition of an `if` that holds the rest, as where an MLA body
first asks whether its request has any work.

Codes and names are those of MPK's runtime header; 296 is not in it yet, and stands for the task
that rotates q in a DeepSeek-V3 whose position encoding is wired.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "KINDS_BY_CODE", "TaskKind"]


@dataclass(frozen=True)
class TaskKind:
    """One task type: its enumerator (without `TASK_`), its code, its usual body.

    `by_strides`: whether the row stride of the output is compiled in, so that two operators with
    equal tiles of unequal tensors are two variants.
    """

    name: str
    code: int
    body: str
    by_strides: bool = True

    @property
    def enumerator(self) -> str:
        return f"TASK_{self.name}"


_PAGES = "r.qo_indptr_buffer r.paged_kv_indptr_buffer r.paged_kv_indices_buffer"
_PAGED = f"{_PAGES} r.paged_kv_last_page_len_buffer m.request_id"
_KV_LENGTH = "r.paged_kv_indptr_buffer r.paged_kv_indptr_buffer r.paged_kv_last_page_len_buffer"
_QO_LENGTH = "r.qo_indptr_buffer r.qo_indptr_buffer"
_FP8 = "ti0 ti2 ti1 ti3"

_ALL = (
    TaskKind("EMBEDDING", 101, "i0 i1 o0"),
    TaskKind("RMS_NORM_LINEAR", 102, "i0 i1 i2 r.qo_indptr_buffer o0"),
    TaskKind("ATTENTION_1", 103, "i0 i1 i2 o0 r.step i3 i4 i5 i6"),
    TaskKind("SILU_MUL_LINEAR_WITH_RESIDUAL", 105, "i0 i1 i2 o0 r.my_gpu_id"),
    TaskKind("REDUCE", 107, "i0 i1 o0 r.qo_indptr_buffer"),
    TaskKind("LINEAR_WITH_RESIDUAL", 108, "i0 i1 i2 o0 r.qo_indptr_buffer r.my_gpu_id"),
    TaskKind("ARGMAX_PARTIAL", 110, "i0 o0 o1 r.qo_indptr_buffer"),
    TaskKind("ARGMAX_REDUCE", 111, "i0 i1 o0 r.qo_indptr_buffer"),
    TaskKind("PAGED_ATTENTION_1", 116, f"i0 i1 i2 o0 {_PAGED} i3 i4 i5 i6"),
    TaskKind("SILU_MUL", 118, "i0 o0 r.qo_indptr_buffer"),
    TaskKind("RMS_NORM", 119, "i0 i1 o0"),
    TaskKind("LINEAR", 120, "i0 i1 o0 r.qo_indptr_buffer"),
    TaskKind("IDENTITY", 121, "i0 o0"),
    TaskKind("PAGED_ATTENTION_HOPPER", 153, f"i1 i2 {_PAGED} i3 i4 i5 i6 i0 o0"),
    TaskKind("RMS_NORM_HOPPER", 154, "i0 i1 o0"),
    TaskKind("LINEAR_SWAPAB_HOPPER", 155, "ti1 ti0 to0"),
    TaskKind("LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER", 156, "ti1 ti0 ti2 to0 r.my_gpu_id"),
    TaskKind(
        "PAGED_ATTENTION_SPLIT_KV_HOPPER",
        164,
        f"i1 i2 {_PAGED} i3 i4 i5 i6 i0 o1 o0 m.kv_idx",
    ),
    TaskKind("MOE_W13_FP8_SM100", 248, "ti2 i0 i1 i3 i4 i5 o0 m.expert_offset"),
    TaskKind("MOE_W2_FP8_SM100", 249, "ti2 i0 i1 i3 i4 i5 o0 m.expert_offset"),
    TaskKind("LINEAR_WITH_RESIDUAL_SM100", 252, "ti1 ti0 to0 i2"),
    TaskKind("LINEAR_SM100", 253, "ti1 ti0 to0"),
    TaskKind("MOE_W13_LINEAR_SM100", 254, "ti1 i2 i3 o0 i0 m.expert_offset"),
    TaskKind("MOE_W2_LINEAR_SM100", 255, "ti1 i2 i3 o0 i0 m.expert_offset"),
    TaskKind("ATTN_SM100", 257, f"i0 i1 i2 o0 {_PAGED} i3 i4 i5 i6"),
    TaskKind("ARGMAX_REDUCE_SM100", 258, "i0 i1 o0 r.qo_indptr_buffer"),
    TaskKind("ARGMAX_PARTIAL_SM100", 259, "i0 o0 o1 r.qo_indptr_buffer"),
    TaskKind("MOE_TOPK_SOFTMAX_SM100", 260, "i0 o0 o1 o2"),
    TaskKind("MOE_MUL_SUM_ADD_SM100", 261, "i0 i1 i2 o0"),
    TaskKind("TENSOR_INIT", 262, "i0"),
    TaskKind(
        "PAGED_ATTENTION_SPLIT_KV_MERGE_SM100",
        264,
        "i0 i1 r.qo_indptr_buffer r.paged_kv_indptr_buffer r.paged_kv_last_page_len_buffer "
        "m.request_id o0 m.merge_task_offset",
    ),
    TaskKind(
        "MLA_MTP_DECODE_SM100",
        269,
        f"m.merge_task_offset {_KV_LENGTH} {_QO_LENGTH} | ti0 ti1 o0 o1 m.request_id m.kv_idx",
    ),
    TaskKind(
        "MLA_MTP_REDUCE_SM100",
        270,
        f"m.merge_task_offset {_QO_LENGTH} | i0 i1 o0 m.kv_idx m.request_id",
    ),
    TaskKind("QUANTIZE_FP8_SM100", 275, "i0 o0 o1"),
    TaskKind("LINEAR_FP8_SM100", 276, f"{_FP8} to0 to0", by_strides=False),
    TaskKind("LINEAR_FP8_WITH_RESIDUAL_SM100", 277, f"{_FP8} ti4 to0", by_strides=False),
    TaskKind(
        "MLA_KV_GATHER_SM100",
        278,
        f"m.request_id r.qo_indptr_buffer {_KV_LENGTH} | i0 i1 i3 i2 {_PAGED}",
    ),
    TaskKind("MOE_TOPK_SIGMOID_SM100", 280, "i0 i1 o0 o1 o2"),
    TaskKind("ELEMENTWISE_ADD_SM100", 281, "i0 i1 o0"),
    TaskKind(
        "MLA_MTP_DECODE_TP8_SM100",
        291,
        f"m.request_id {_KV_LENGTH} {_QO_LENGTH} | ti0 ti1 o0 o1 m.kv_idx m.request_id",
    ),
    TaskKind(
        "MLA_MTP_DECODE_TP8_REDUCE_SM100",
        292,
        f"m.merge_task_offset {_QO_LENGTH} | i0 i1 o0 m.kv_idx m.request_id",
    ),
    TaskKind("MLA_ROPE_Q_SM100", 296, "i0 i1 i2 o0 r.step"),
    TaskKind("NVSHMEM_ALLGATHER_STRIDED_PUT", 301, "o0 i0 r.all_event_counters r.qo_indptr_buffer"),
    TaskKind(
        "NVSHMEM_TILE_ALLREDUCE", 302, "i0 o0 r.nvshmem_teams m.task_offset r.qo_indptr_buffer"
    ),
)

KINDS = {kind.name: kind for kind in _ALL}
KINDS_BY_CODE = {kind.code: kind for kind in _ALL}
