"""A builder as a user writes it: a small dense model, with the mistakes that it is asked for."""

from __future__ import annotations

import argparse
import os

import mirage as mi

INT64 = 965
BATCH, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, VOCAB = 4, 128, 8, 4, 32, 384, 256


def build(args: argparse.Namespace, rank: int = 0, ranks: int = 1) -> mi.PersistentKernel:
    mpk = mi.PersistentKernel(ranks, rank)
    heads, kv_heads, mlp = HEADS // ranks, KV_HEADS // ranks, MLP // ranks
    q, kv = heads * HEAD_DIM, kv_heads * HEAD_DIM
    token = mpk.attach_input((BATCH, 1), "input_token", INT64)
    cos = mpk.attach_input((64, HEAD_DIM), "cos_position_embedding")
    sin = mpk.attach_input((64, HEAD_DIM), "sin_position_embedding")
    embed_out = mpk.new_tensor((BATCH, HIDDEN), "embed_out")
    rmsnorm_out = mpk.new_tensor((BATCH, HIDDEN), "rmsnorm_out")
    attn_in = mpk.new_tensor((BATCH, q + 2 * kv), "attn_in")
    attn_out = mpk.new_tensor((BATCH, q), "attn_out")
    attn_proj_out = mpk.new_tensor((BATCH, HIDDEN), "attn_proj_out", symmetric=True)
    attn_sum = mpk.new_tensor((BATCH, HIDDEN), "attn_allreduce_out", symmetric=True)
    mlp_mid = mpk.new_tensor((BATCH, 2 * mlp), "mlp_mid")
    silu_out = mpk.new_tensor((BATCH, mlp), "silu_mul_out")
    mlp_out = mpk.new_tensor((BATCH, HIDDEN), "mlp_out", symmetric=True)
    mlp_sum = mpk.new_tensor((BATCH, HIDDEN), "mlp_final", symmetric=True)
    logits = mpk.new_tensor((BATCH, VOCAB), "argmax_in")
    value = mpk.new_tensor((BATCH, 4), "argmax_part_value")
    index = mpk.new_tensor((BATCH, 4), "argmax_part_index", INT64)
    out = mpk.attach_input((BATCH, 1), "output_token", INT64)
    embed = mpk.attach_input((VOCAB, HIDDEN), "embed_tokens")
    mpk.embed_layer(token, embed, embed_out)
    x = embed_out

    def project(
        x: mi.DTensor, weight: mi.DTensor, into: mi.DTensor, total: mi.DTensor
    ) -> mi.DTensor:
        mpk.linear_with_residual_layer(x, weight, stream, into, tiles=4)
        if ranks == 1:
            return into
        mpk.allreduce_layer(into, total, tiles=4)
        return total

    for i in range(args.layers):
        w_norm = mpk.attach_input((HIDDEN,), f"layer_{i}_input_layernorm")
        w_q = mpk.attach_input((q, HIDDEN), f"layer_{i}_q_proj")
        w_k = mpk.attach_input((kv, HIDDEN), f"layer_{i}_k_proj")
        w_v = mpk.attach_input((kv, HIDDEN), f"layer_{i}_v_proj")
        w_qkv = mpk.shuffle_tensors([w_q, w_k, w_v], kv_heads, f"layer_{i}_qkv_proj")
        w_q_norm = mpk.attach_input((HEAD_DIM,), f"layer_{i}_q_norm")
        w_k_norm = mpk.attach_input((HEAD_DIM,), f"layer_{i}_k_norm")  # the forgotten norm
        cache = (4, 64, kv_heads, HEAD_DIM)
        k_cache = mpk.attach_input(cache, f"layer_{i}_k_cache")
        v_cache = mpk.attach_input(cache, f"layer_{i}_v_cache")
        stream = x
        mpk.rmsnorm_layer(x, w_norm, rmsnorm_out)
        mpk.linear_layer(rmsnorm_out, w_qkv, attn_in, tiles=8)
        no_rope = args.no_rope == i and rank in args.wrong_ranks
        forgets = args.no_norm == i
        mpk.paged_attention_layer(
            input=attn_in,
            k_cache=k_cache,
            v_cache=v_cache,
            q_norm=None if forgets else w_q_norm,
            k_norm=None if forgets else w_k_norm,
            cos_pos_embed=None if no_rope else cos,
            sin_pos_embed=None if no_rope else sin,
            output=attn_out,
        )
        w = mpk.attach_input((HIDDEN, q), f"layer_{i}_o_proj")
        x = project(attn_out, w, attn_proj_out, attn_sum)
        stream = x
        w_norm = mpk.attach_input((HIDDEN,), f"layer_{i}_post_attn_layernorm")
        w_gate = mpk.attach_input((mlp, HIDDEN), f"layer_{i}_gate_proj")
        w_up = mpk.attach_input((mlp, HIDDEN), f"layer_{i}_up_proj")
        w_both = mpk.shuffle_tensors([w_gate, w_up], 4, f"layer_{i}_gatedup_proj")
        mpk.rmsnorm_layer(x, w_norm, rmsnorm_out)
        mpk.linear_layer(rmsnorm_out, w_both, mlp_mid, tiles=8)
        mpk.silu_mul_layer(mlp_mid, silu_out, tiles=4)
        w = mpk.attach_input((HIDDEN, mlp), f"layer_{i}_down_proj")
        x = project(silu_out, w, mlp_out, mlp_sum)
    w_norm = mpk.attach_input((HIDDEN,), "model_norm_weight")
    lm_head = mpk.attach_input((VOCAB, HIDDEN), "lm_head")
    mpk.rmsnorm_layer(x, w_norm, rmsnorm_out)
    mpk.linear_layer(rmsnorm_out, lm_head, logits, tiles=4)
    mpk.argmax_layer(logits, value, index, out, tiles=4)
    return mpk


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--no-rope", type=int, default=-1, help="a layer without its tables")
    parser.add_argument("--no-norm", type=int, default=-1, help="a layer without its q norm")
    parser.add_argument("--wrong-ranks", type=int, nargs="*", default=[0])
    parser.add_argument("--mpi", action="store_true", help="of one process, too")
    parser.add_argument("--compiled", default="", help="a file that says what was compiled")
    return parser.parse_args()


if __name__ == "__main__":
    args = arguments()
    rank, ranks = 0, 1
    if args.mpi or "OMPI_COMM_WORLD_SIZE" in os.environ:  # to start it takes half a second
        from mpi4py import MPI

        rank, ranks = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    build(args, rank, ranks).compile(args.compiled)
    print("the kernel runs")
