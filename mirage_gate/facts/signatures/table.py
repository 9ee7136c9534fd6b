"""The table of operators: what the slots of each task type are to each other.

Read from MPK's kernels and from its graphs. A relation that is not certain is left out: ``_``. The
notation is that of :mod:`mirage_gate.facts.signatures.notation`; a user adds types, or says
better, under ``task-types`` in the configuration.
"""

from __future__ import annotations

_LINEAR = "x[b,k] w[n,k] -> y[b,n]"
_LINEAR_WITH_RESIDUAL = "x[b,k] w[n,k] r[b,n] -> y[b,n]"
_RMS_NORM = "x[b,d] g[d] -> y[b,d]"
_CACHE = "k[_,s,h.c,e] v[_,s,h.c,e] qn?[e] kn?[e] cos?[m,e] sin?[m,e]"
_ATTENTION = f"qkv[t,h.q] {_CACHE} -> o[t,h.o]"
_SPLIT_KV = f"qkv[t,h.q] {_CACHE} -> lse[_,_,_] o[_,_,_]"
_ARGMAX_PARTIAL = "x:f[b,v.x] -> value:f[b,v.p] index:i[b,v.p]"
_ARGMAX_REDUCE = "value:f[b,p] index:i[b,p] -> token:i[b,_]"
_MOE_W13 = "x[b,k] w[e,n,k] routing:i[e,b] mask:i[_] -> y[b,s,n]"
_MOE_W2 = "x[b,s,k] w[e,n,k] routing:i[e,b] mask:i[_] -> y[b,s,n]"
_FP8 = "x:f8[b,k] xs[k.s,_] w:f8[n,k] ws~[n,k.s]"
_MLA_DECODE = "q[_,_] kv[_,_] -> o[_,_] lse:f[_,_]"
_MLA_REDUCE = "o[_,_] lse:f[_,_] -> y[_,_]"

OPERATORS: dict[str, str] = {
    "TASK_EMBEDDING": "i:i[_,_] w[v,d] -> y[b,d]",
    "TASK_EMBEDDING_HOPPER": "i:i[_,_] w[v,d] -> y[b,d]",
    "TASK_RMS_NORM": _RMS_NORM,
    "TASK_RMS_NORM_HOPPER": _RMS_NORM,
    "TASK_RMS_NORM_LINEAR": "x[b,k] g[k] w[n,k] -> y[b,n]",
    "TASK_LINEAR": _LINEAR,
    "TASK_LINEAR_HOPPER": _LINEAR,
    "TASK_LINEAR_SWAPAB_HOPPER": _LINEAR,
    "TASK_LINEAR_CUTLASS_HOPPER": _LINEAR,
    "TASK_LINEAR_SM100": _LINEAR,
    "TASK_SPLITK_LINEAR_SWAPAB_HOPPER": _LINEAR,
    "TASK_SPLITK_LINEAR_SM100": _LINEAR,
    "TASK_LINEAR_WITH_RESIDUAL": _LINEAR_WITH_RESIDUAL,
    "TASK_LINEAR_WITH_RESIDUAL_HOPPER": _LINEAR_WITH_RESIDUAL,
    "TASK_LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER": _LINEAR_WITH_RESIDUAL,
    "TASK_LINEAR_CUTLASS_WITH_RESIDUAL_HOPPER": _LINEAR_WITH_RESIDUAL,
    "TASK_LINEAR_WITH_RESIDUAL_SM100": _LINEAR_WITH_RESIDUAL,
    "TASK_LINEAR_FP8_SM100": f"{_FP8} -> y[b,n]",
    "TASK_LINEAR_FP8_WITH_RESIDUAL_SM100": f"{_FP8} r[b,n] -> y[b,n]",
    "TASK_SILU_MUL": "x[b,2n] -> y[b,n] | x[b,s,2n] -> y[b,s,n]",
    "TASK_SILU_MUL_HOPPER": "x[b,2n] -> y[b,n] | x[b,s,2n] -> y[b,s,n]",
    "TASK_SILU_MUL_LINEAR_WITH_RESIDUAL": "x[b,2k] w[n,k] r[b,n] -> y[b,n]",
    "TASK_ELEMENTWISE_ADD_SM100": "a[b?,n] c[b?,n] -> y[b,n]",
    "TASK_ATTENTION_1": _ATTENTION,
    "TASK_SINGLE_BATCH_EXTEND_ATTENTION": _ATTENTION,
    "TASK_PAGED_ATTENTION_1": _ATTENTION,
    "TASK_PAGED_ATTENTION_HOPPER": _ATTENTION,
    "TASK_ATTN_SM100": _ATTENTION,
    "TASK_PAGED_ATTENTION_SPLIT_KV_HOPPER": _SPLIT_KV,
    "TASK_PAGED_ATTENTION_SPLIT_KV_SM100": _SPLIT_KV,
    "TASK_PAGED_ATTENTION_SPLIT_KV_MERGE_SM100": "lse[_,_,_] o[_,_,_] -> y[t,h.o]",
    "TASK_ARGMAX_PARTIAL": _ARGMAX_PARTIAL,
    "TASK_ARGMAX_PARTIAL_SM100": _ARGMAX_PARTIAL,
    "TASK_ARGMAX_REDUCE": _ARGMAX_REDUCE,
    "TASK_ARGMAX_REDUCE_SM100": _ARGMAX_REDUCE,
    "TASK_SAMPLING_SM100": "x:f[b,v] -> token:i[b,_]",
    # the older vintage's output carries the whole buffer's descriptor
    "TASK_REDUCE": "x[b,n] buf[ranks,b,n] -> y[b,n] | x[b,n] buf[ranks,b,n] -> y[_,_,_]",
    "TASK_NVSHMEM_COPY": "x[_,_] -> buf[_,_,_]",
    "TASK_NVSHMEM_ALLGATHER_STRIDED_PUT": "x[b,n] -> buf[_,b,n]",
    "TASK_NVSHMEM_TILE_ALLREDUCE": "x[b,n] -> y[b,n]",
    "TASK_MOE_W13_LINEAR_SM90": _MOE_W13,
    "TASK_MOE_W13_LINEAR_SM100": _MOE_W13,
    "TASK_MOE_W2_LINEAR_SM90": _MOE_W2,
    "TASK_MOE_W2_LINEAR_SM100": _MOE_W2,
    "TASK_MOE_W13_FP8_SM100": (
        "x:f8[b,k] xs:f[b,k.s] w:f8[e,n,k] ws:f[e,n,k.s] routing:i[e,b] mask:i[_] -> y[b,s,n]"
    ),
    "TASK_MOE_W2_FP8_SM100": (
        "x:f8[b,s,k] xs:f[b,s,k.s] w:f8[e,n,k] ws:f[e,n,k.s] routing:i[e,b] mask:i[_] -> y[b,s,n]"
    ),
    "TASK_MOE_TOPK_SOFTMAX_SM100": "x:f[b,e] -> weight:f[b,s] routing:i[e,b] mask:i[_]",
    "TASK_MOE_TOPK_SIGMOID_SM100": "x:f[b,e] bias:f[e] -> weight:f[b,s] routing:i[e,b] mask:i[_]",
    "TASK_MOE_MUL_SUM_ADD_SM100": "x:f[b,s,n] weight:f[b,s] r[b,n] -> y[b,n]",
    "TASK_TENSOR_INIT": "x[b,n] u[_,_] -> z[_,_]",
    "TASK_QUANTIZE_FP8_SM100": (
        "x:f[b,k] -> q:f8[b,k] scale[_,_] | x:f[b,s,k] -> q:f8[b,s,k] scale:f[b,s,k.s]"
    ),
    "TASK_MLA_DECODE_SM100": _MLA_DECODE,
    "TASK_MLA_MTP_DECODE_SM100": _MLA_DECODE,
    "TASK_MLA_MTP_DECODE_TP2_SM100": _MLA_DECODE,
    "TASK_MLA_MTP_DECODE_TP4_SM100": _MLA_DECODE,
    "TASK_MLA_MTP_DECODE_TP8_SM100": _MLA_DECODE,
    "TASK_MLA_REDUCE_SM100": _MLA_REDUCE,
    "TASK_MLA_MTP_REDUCE_SM100": _MLA_REDUCE,
    "TASK_MLA_MTP_DECODE_TP2_REDUCE_SM100": _MLA_REDUCE,
    "TASK_MLA_MTP_DECODE_TP4_REDUCE_SM100": _MLA_REDUCE,
    "TASK_MLA_MTP_DECODE_TP8_REDUCE_SM100": _MLA_REDUCE,
    "TASK_MLA_KV_GATHER_SM100": "c[b,v] p[b,_] cache[_,g,d] kv[_,d] ->",
    "TASK_MLA_KV_GATHER_SPLIT_SM100": "c[b,v] p[b,_] cache[_,g,d] ckv[_,v] kpe[_,_] ->",
    "TASK_MLA_PREFILL_SM100": "qn[_,_] qp[_,_] ckv[_,_] kpe[_,_] o[_,_] ->",
    "TASK_FIND_NGRAM_PARTIAL": "tokens:i[_,_] -> part:i[_,_]",
    "TASK_FIND_NGRAM_GLOBAL": "part:i[_,p] tokens:i[_,_] -> spec:i[_,_]",
    "TASK_TARGET_VERIFY_GREEDY": "spec:i[_,_] target:i[_,_] -> accepted:i[_,_]",
    "TASK_MTP_VERIFY_STRICT": "draft:i[b,_] target:i[b,_] -> accepted:i[b,_] out:i[b,_]",
    "TASK_MTP_ACCEPT_COMMIT": (
        "accepted:i[b,_] out:i[b,_] step:i[_] -> position:i[b,_] final:i[b,_] count:i[b,_]"
    ),
    "TASK_MTP_TOKEN_SCATTER": "x:i[b,_] -> y:i[b,_]",
    "TASK_MTP_PREPARE_VERIFY": "main:i[b,_] draft:i[b,_] tokens:i[_,_] step:i[_] -> count:i[_]",
    "TASK_MTP_BUILD_EMBED_INPUT": "out:i[b,_] -> tokens:i[b,_]",
}
