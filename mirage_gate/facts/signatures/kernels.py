"""The table of device functions: which parameter is what of the operator.

Read from MPK's headers and from the code that generates the bodies, in the vintages that are
known: a function that has been declared in several ways stands here once for each, told apart by
the number of its parameters. Where the newest headers give a parameter a default, the shorter
list is one more way.

The notation is that of :mod:`mirage_gate.facts.signatures.notation`. A parameter without a word on
what it is is not checked, and the gate says so; those of which a third part, the equations, says
something are. A user adds functions under ``kernels`` in the configuration.
"""

from __future__ import annotations

_KV = "qo_indptr paged_kv_indptr paged_kv_indices paged_kv_last_page_len request_id=@request_id"
_FLAGS = "qk_norm=?qn,kn rope=?cos,sin q_norm_weight=qn? k_norm_weight=kn? cos=cos? sin=sin?"
_EPS = "q_eps k_eps"
_HEADS = "NUM_QO_HEADS*HEAD_DIM+2*NUM_KV_HEADS*HEAD_DIM=h.q, NUM_QO_HEADS*HEAD_DIM=h.o"
_GROUPS = "NUM_QO_GROUPS*HEAD_DIM=k.s"
_ARGMAX_PARTIAL = (
    "T=T:x,value BATCH_SIZE=b CHUNK_SIZE=v.x NUM_PARTIAL_TASKS=value.b",
    "input=x output_val=value output_idx=index num_active_tokens",
)
_ARGMAX_REDUCE = (
    "T=T:value BATCH_SIZE=b CHUNK_SIZE NUM_PARTIAL_TASKS=p",
    "input_val=value input_idx=index final_output=token num_active_tokens",
)
_EMBEDDING = (
    "T=T:w,y BATCH_SIZE=b CHUNK_SIZE=d OUTPUT_DIM_SIZE=y.b",
    "input=i? embedding=w output=y",
)
_RMS_NORM = ("T=T:x,g,y BATCH_SIZE=b HIDDEN_DIM=d", "input=x weight=g output=y eps")
_SILU = (
    "T=T:x,y BATCH_SIZE=b OUTPUT_SIZE=n I_STRIDE=x.b O_STRIDE=y.b",
    "input=x output=y num_active_tokens",
)
_LINEAR = "T=T:x,w,r,y BATCH_SIZE=b OUTPUT_SIZE=n REDUCTION_SIZE=k"
_SWAPAB = f"{_LINEAR} Kstages TMA_A TMA_B TMA_OUT TMA_RESIDUAL OUTPUT_STRIDE=y.b"
_SM100 = f"T=T:x,w,r,y TMA_A TMA_B Bias TMA_OUT MMA_M MMA_N {_LINEAR.partition(' ')[2]} NOBIAS=!r"
_SM100_CALL = "tma_a=w tma_b=x mBias=r? tma_out=y"
_MOE = "BATCH_SIZE=b OUTPUT_SIZE=n ORIG_OUTPUT_SIZE=y.s REDUCTION_SIZE=k NUM_EXPERTS=e NUM_TOPK=s"
_MOE_TYPES = "TMA_A Input Bias Indices Mask Output MMA_M MMA_N"
_MOE_CALL = (
    "tma_a=w mInput=x mBias=- mRoutingIndices=routing mMask=mask mOutput=y "
    "expert_offset=@expert_offset"
)
_PAGED = (
    "T=T:qkv,k,v,o NUM_QO_HEADS NUM_KV_HEADS KV_CACHE_STRIDE=k.s QKV_STRIDE=qkv.t O_STRIDE=o.t "
    "HEAD_DIM=e MAX_SEQ_LEN PAGE_SIZE=s"
)
_PAGED_CALL = f"qkv=qkv paged_k_cache=k paged_v_cache=v output=o {_KV} {_FLAGS} {_EPS}"
_PAGED_ATTENTION = (
    (_PAGED, _PAGED_CALL, _HEADS),
    (f"{_PAGED} MAX_TOKENS=t", _PAGED_CALL, _HEADS),
)
_MLA_CALL = "Q_tm=q KV_tm=kv Oa=o La=lse ss kv_len sk"

KERNELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "argmax_partial_kernel": (
        _ARGMAX_PARTIAL,
        ("T=T:x,value CHUNK_SIZE=v.x", "input=x output_val=value output_idx=index"),
    ),
    "argmax_partial_sm100_kernel": (_ARGMAX_PARTIAL,),
    "argmax_reduce_kernel": (
        _ARGMAX_REDUCE,
        (
            "T=T:value CHUNK_SIZE NUM_PARTIAL_TASKS=p",
            "input_val=value input_idx=index final_output=token step tokens",
        ),
    ),
    "argmax_reduce_sm100_kernel": (_ARGMAX_REDUCE,),
    "elementwise_add_task_impl": (
        ("T=T:a,c,y BATCH_SIZE=b OUTPUT_SIZE=n STRIDE=y.b", "input_a=a input_b=c output=y"),
    ),
    "embedding_kernel": (
        _EMBEDDING,
        ("T=T:w,y CHUNK_SIZE=d", "input=i? embedding=w output=y step tokens"),
    ),
    "embedding_kernel_hopper": (_EMBEDDING,),
    "find_ngram_global_kernel": (
        (
            "NGRAM_SIZE SPEC_LENGTH NUM_PARTIAL_TASKS=p",
            "input_array=part tokens=tokens out=spec step",
        ),
    ),
    "find_ngram_partial_kernel": (
        ("NGRAM_SIZE NUM_WORKERS", "input=tokens output_id=part input_token_num"),
    ),
    "fp8_moe_group_gemm_sm100_task_impl": (
        (
            "TMA_Weight Input InputScale WeightScale Indices Mask Output MMA_M MMA_N "
            f"{_MOE} EXPERT_STRIDE=%expert_offset W13_LINEAR "
            "NUM_AB_STAGE NUM_ACC_STAGE NUM_C_STAGE",
            "tma_weight=w mInput=x mInputScale=xs mWeightScale=ws mRoutingIndices=routing "
            "mMask=mask mOutput=y expert_offset=@expert_offset",
        ),
    ),
    "linear_fp8_sm100_task_impl": (
        (
            "kMajorA kMajorB kGranKA kGranKB SHAPE_M=b SHAPE_N=n SHAPE_K=k BLOCK_M BLOCK_N BLOCK_K "
            "kNumGroups kSwizzleAMode kSwizzleBMode kSwizzleCDMode kNumStages "
            "kNumNonEpilogueThreads kNumEpilogueThreads kNumMulticast kIsMulticastOnA kNumSMs "
            "kWithResidual=?r kGemmType kWithAccumulation a_dtype=T:x b_dtype=T:w cd_dtype=T:y "
            "epilogue_type",
            "grouped_layout=- shape_m==b shape_n==n shape_k==k tensor_map_a=x tensor_map_b=w "
            "tensor_map_sfa=xs tensor_map_sfb=ws tensor_map_residual=r/y tensor_map_cd=y",
        ),
    ),
    "linear_kernel": (
        (
            f"{_LINEAR} O_STRIDE=y.b",
            "input=x weight=w residual=r? output=y num_active_tokens residual_flag=?r",
        ),
        (f"{_LINEAR} O_STRIDE=y.b", "input=x weight=w residual=r? output=y residual_flag=?r"),
    ),
    "linear_kernel_hopper": ((_SWAPAB, "tma_a=x tma_b=w tma_out=y tma_residual=r?"),),
    "linear_swapAB_kernel_hopper": (
        (f"{_SWAPAB} SplitK", "tma_a=w tma_b=x tma_out=y tma_residual=r? add_residual=?r"),
        (f"{_SWAPAB} SplitK", "tma_a=w tma_b=x tma_out=y tma_residual=r?"),
        (_SWAPAB, "tma_a=w tma_b=x tma_out=y tma_residual=r?"),
    ),
    "linear_sm100_mpk_task_impl": (
        (f"{_SM100} SplitK NUM_AB_STAGE NUM_ACC_STAGE NUM_C_STAGE", _SM100_CALL),
        (f"{_SM100} NUM_AB_STAGE NUM_ACC_STAGE NUM_C_STAGE", _SM100_CALL),
    ),
    "merge_splitkv": (
        (
            "T=T:o,y NUM_QO_HEADS NUM_KV_HEADS NUM_QO_GROUPS HEAD_DIM MAX_TOKENS=t PARTITION_KV "
            "NUM_KV_CHUNKS KV_CHUNK_SIZE PAGE_SIZE",
            "lse=lse o=o qo_indptr paged_kv_indptr paged_kv_last_page_len request_id=@request_id "
            "output=y merge_task_offset=@merge_task_offset",
            "NUM_QO_HEADS*NUM_KV_HEADS*HEAD_DIM=h.o",
        ),
    ),
    "mla_kv_cache_gather_sm100_task_impl": (
        (
            "D_K=d D_V=v PAGE_SIZE=g K_PE_ROW_STRIDE=p.b",
            f"c_latent_new=c k_pe_new=p paged_cache=cache contiguous_kv=kv {_KV}",
        ),
        (
            "D_K=d D_V=v PAGE_SIZE=g",
            f"c_latent_new=c k_pe_new=p paged_cache=cache contiguous_kv=kv {_KV}",
        ),
    ),
    "mla_kv_cache_gather_split_sm100_task_impl": (
        (
            "D_K=d D_V=v PAGE_SIZE=g K_PE_ROW_STRIDE=p.b",
            f"c_latent_new=c k_pe_new=p paged_cache=cache ckv_sep=ckv kpe_sep=kpe {_KV}",
        ),
        (
            "D_K=d D_V=v PAGE_SIZE=g",
            f"c_latent_new=c k_pe_new=p paged_cache=cache ckv_sep=ckv kpe_sep=kpe {_KV}",
        ),
    ),
    "mla_mtp_decode_sm100_task_impl": (
        ("SINGLE_TILE", f"{_MLA_CALL} num_head_groups Q_LEN gi si bi"),
        ("SINGLE_TILE", f"{_MLA_CALL} num_head_groups Q_LEN gi si bi local_num_heads"),
    ),
    "mla_mtp_tp8_main": (("SINGLE_TILE", f"{_MLA_CALL} Q_LEN qpg Q_LEN_real block_x block_y"),),
    "mla_mtp_reduce_sm100_task_impl": (
        ("NUM_THREADS", "Oa=o La=lse O=y sk num_head_groups Q_LEN dv_base gi bi"),
        ("NUM_THREADS", "Oa=o La=lse O=y sk num_head_groups Q_LEN dv_base gi bi local_num_heads"),
    ),
    "mla_mtp_tp8_reduce": (
        ("", "Oa=o La=lse O=y sk num_head_groups Q_LEN qpg block_x block_y bi"),
    ),
    "moe_linear_sm100_task_impl": (
        (
            f"T=T:x,w,y {_MOE_TYPES} {_MOE} EXPERT_STRIDE=%expert_offset W13_LINEAR NOBIAS "
            "NUM_AB_STAGE NUM_ACC_STAGE NUM_C_STAGE",
            _MOE_CALL,
        ),
    ),
    "moe_linear_sm90_task_impl": (
        (
            f"T=T:x,w,y {_MOE_TYPES} {_MOE} EXPERT_STRIDE=%expert_offset W13_LINEAR NOBIAS "
            "NUM_AB_STAGE",
            _MOE_CALL,
        ),
    ),
    "mtp_accept_commit_kernel": (
        (
            "NUM_DRAFT_TOKENS",
            "accepted_count=accepted output_tokens=out current_position=step new_position=position "
            "final_output=final num_new_tokens=count",
        ),
    ),
    "mul_sum_add_sm100_task_impl": (
        (
            "T=T:x,r,y BATCH_SIZE=b OUTPUT_SIZE=n NUM_TOPK=s OUTPUT_STRIDE=y.b",
            "input=x weight=weight residual=r output=y",
        ),
    ),
    "multitoken_paged_attention_hopper_impl": (
        (
            "T=T:qkv,k,v NUM_QO_HEADS NUM_KV_HEADS NUM_QO_GROUPS KV_CACHE_STRIDE=k.s "
            "QKV_STRIDE=qkv.t O_STRIDE=o.t HEAD_DIM=e SEQ_LEN MAX_SEQ_LEN PAGE_SIZE=s MAX_TOKENS=t "
            "PARTITION_KV NUM_KV_CHUNKS=%kv_idx",
            f"paged_k_cache=k paged_v_cache=v {_KV} {_FLAGS} {_EPS} "
            "qkv=qkv output=o lse=lse? kv_idx",
            f"{_HEADS}, {_GROUPS}",
        ),
        (
            "T=T:qkv,k,v NUM_QO_HEADS NUM_KV_HEADS KV_CACHE_STRIDE=k.s QKV_STRIDE=qkv.t "
            "O_STRIDE=o.t HEAD_DIM=e MAX_SEQ_LEN PAGE_SIZE=s TMA_Q TMA_KV "
            "TMA_PAGED_KV_CACHE TMA_OUTPUT MAX_TOKENS=t",
            "tma_q=qkv tma_k=qkv tma_v=qkv tma_k_cache=k tma_v_cache=v tma_output=o "
            f"paged_k_cache=k paged_v_cache=v {_KV} {_FLAGS} {_EPS} output=o head_group",
            _HEADS,
        ),
    ),
    "multitoken_paged_attention_sm100_task_impl": _PAGED_ATTENTION,
    "multitoken_paged_attention_task_impl": _PAGED_ATTENTION,
    "multitoken_paged_attention_split_kv_task_impl": (
        (
            "T=T:qkv,k,v NUM_QO_HEADS NUM_KV_HEADS NUM_QO_GROUPS KV_CACHE_STRIDE=k.s "
            "QKV_STRIDE=qkv.t O_STRIDE HEAD_DIM=e SEQ_LEN MAX_SEQ_LEN PAGE_SIZE=s MAX_TOKENS=t "
            "PARTITION_KV NUM_KV_CHUNKS=%kv_idx",
            f"qkv=qkv paged_k_cache=k paged_v_cache=v output=o {_KV} {_FLAGS} {_EPS} lse=lse "
            "kv_idx=@kv_idx",
            f"{_HEADS.partition(',')[0]}, {_GROUPS}",
        ),
    ),
    "norm_linear_task_impl": (
        (
            "T=T:x,g,w,y BATCH_SIZE=b OUTPUT_SIZE=n REDUCTION_SIZE=k O_STRIDE=y.b",
            "input=x norm_weight=g weight=w eps output=y",
        ),
        (
            "T=T:x,g,w,y BATCH_SIZE=b OUTPUT_SIZE=n REDUCTION_SIZE=k O_STRIDE=y.b",
            "input=x norm_weight=g weight=w num_active_tokens eps output=y",
        ),
    ),
    "nvshmem_allgather_strided_put": (
        (
            "T=T:x,buf BATCH_SIZE=b OUTPUT_SIZE=n OUTPUT_STRIDE=buf.b",
            "buffer=buf local_data=x sig_addr event_index target_gpu_id active_tokens",
        ),
        (
            "T=T:x,buf BATCH_SIZE=b OUTPUT_SIZE=n OUTPUT_STRIDE=buf.b",
            "buffer=buf local_data=x sig_addr event_index target_gpu_id",
        ),
    ),
    "nvshmem_tile_allreduce": (
        (
            "T=T:x,y BATCH_SIZE=b OUTPUT_SIZE=n OUTPUT_STRIDE=y.b",
            "input=x output=y teams task_offset=@task_offset active_tokens",
        ),
    ),
    "nvshmemx_putmem_signal_block": (("", "dest=buf source=x nbytes sig_addr signal sig_op pe"),),
    "per_token_group_quantize_fp8_task_impl": (
        (
            "BATCH_SIZE=rows:x HIDDEN_SIZE=k GROUP_SIZE GLOBAL_STRIDE T=T:x DST_T=T:q SCALE_UE8M0",
            "input=x output_q=q output_s=scale eps min_8bit max_8bit scale_outer_stride",
        ),
    ),
    "reduction_kernel": (
        (
            "T=T:x,buf,y NUM_GPUS=ranks MY_GPU_ID=rank BATCH_SIZE=b OUTPUT_SIZE=n "
            "OUTPUT_STRIDE=y.b",
            "input=x buf=buf output=y active_tokens",
        ),
        (
            "T=T:x,buf,y NUM_GPUS=ranks MY_GPU_ID=rank BATCH_SIZE=b OUTPUT_SIZE=n "
            "OUTPUT_STRIDE=y.b",
            "input=x buf=buf output=y",
        ),
    ),
    "rms_norm_hopper_impl": (_RMS_NORM,),
    "rms_norm_impl": (_RMS_NORM,),
    "silu_mul_linear_task_impl": (
        (f"{_LINEAR} O_STRIDE=y.b", "input=x weight=w residual=r output=y residual_flag=?r"),
    ),
    "silu_mul_task_impl": (_SILU,),
    "silu_mul_task_impl_hopper": (_SILU,),
    "single_batch_decoding_kernel": (
        (
            "T=T:qkv,k,v,o NUM_QO_HEADS NUM_KV_HEADS HEAD_DIM=e WEIGHT_STRIDE=k.s",
            f"qkv=qkv k_cache=k v_cache=v output=o seq_len {_FLAGS} {_EPS}",
            _HEADS,
        ),
    ),
    "single_batch_extend_kernel": (
        (
            "T=T:qkv,k,v,o NUM_QO_HEADS NUM_KV_HEADS HEAD_DIM=e WEIGHT_STRIDE=k.s "
            "OUTPUT_STRIDE=o.t EXTEND_NUM",
            f"qkv=qkv k_cache=k v_cache=v output=o seq_len {_FLAGS} {_EPS}",
            _HEADS,
        ),
    ),
    "target_verify_greedy_kernel": (
        ("NUM_SPEC_TOKENS", "spec_token_id=spec target_token_id=target new_accepted_len tokens"),
    ),
    "tensor_init_sm100_task_impl": (
        ("T=T:x BATCH_SIZE=b OUTPUT_SIZE=n OUTPUT_STRIDE=x.b", "input=x init_val"),
    ),
    "topk_sigmoid_task_impl": (
        (
            "T=T:x VPT NUM_EXPERTS=e WARPS_PER_CTA BYTES_PER_LDG NUM_GROUPS TOPK_GROUP "
            "EXPERTS_PER_GROUP TOPK_EXPERTS=s",
            "input=x bias=bias finished=- output=weight num_rows==b routing_indices=routing "
            "active_expert_ids=mask start_expert end_expert==e routed_scaling_factor",
        ),
    ),
    "topk_softmax_task_impl": (
        (
            "T=T:x VPT NUM_EXPERTS=e WARPS_PER_CTA BYTES_PER_LDG",
            "input=x finished=- output=weight num_rows==b k==s routing_indices=routing "
            "active_expert_ids=mask start_expert end_expert==e renormalize",
        ),
    ),
}
