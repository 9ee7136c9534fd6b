"""DeepSeek-V3: latent attention, FP8 linears, dense layers first and a mixture of experts after.

Tensor names, declaration order, slots and grids are those of MPK's deepseek_v3 demo as it was
before pull request 665, when every operator waited for the one before it. That demo attaches its
rotary tables and passes them to nobody; here they are wired by default, to the KV gather (which
rotates k as it stores it) and to a task that rotates q in place. `.without_rope()` is the demo as
it was: with the sizes in `DEEPSEEK_V3`, its JSON byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .cuda import LITERAL
from .graph import BF16, FLOAT32, FP8, INT32, INT64, UINT32, Program, Tensor
from .model import Model
from .operators import argmax, expert_group, linear, rms_norm, without_residual
from .tasks import KINDS

__all__ = ["DEEPSEEK_V3", "DeepSeekSizes", "deepseek_v3"]

PACKED = 512  # one UINT32 of scales covers four groups of 128 values
GROUP = 128


@dataclass(frozen=True)
class DeepSeekSizes:
    """Sizes of the whole model (ranks divide heads and intermediates), and of its tiles.

    No two widths that are quantized are equal, on 1 rank or on 8, so that none share a buffer that
    the real ones do not share.
    """

    hidden: int = 512
    heads: int = 16
    q_lora: int = 384
    kv_lora: int = 128
    rope: int = 64
    rope_padded: int = 128  # rows of the weight that makes k_pe, padded to one tile
    value: int = 64
    intermediate: int = 1536
    moe_intermediate: int = 1024
    experts: int = 8
    topk: int = 2
    vocab: int = 512
    batch: int = 8
    pages: int = 4
    page_size: int = 16
    positions: int = 64
    tile: int = 128  # weight rows per FP8 task
    gateup_tile: int = 128
    q_b_tiles: int = 4
    silu_tiles: int = 1
    splits: int = 8  # KV chunks of the decode, in all: rows of the partial results
    partial_width: int = 2048
    partial_heads: int = 16
    reduce_chunks: int = 2
    reduce_requests: int = 2
    gate_tiles: int = 1
    experts_groups: int = 8
    experts_tiles: int = 2
    lm_tiles: int = 4
    argmax_tiles: int = 2


_COMMON = {
    "hidden": 7168,
    "heads": 128,
    "q_lora": 1536,
    "kv_lora": 512,
    "value": 128,
    "intermediate": 18432,
    "moe_intermediate": 2048,
    "experts": 256,
    "topk": 8,
    "vocab": 129280,
    "batch": 8,
    "pages": 64,
    "page_size": 128,
    "positions": 4096,
    "partial_width": 65536,
    "partial_heads": 128,
    "reduce_chunks": 256,
    "gate_tiles": 32,
    "experts_groups": 256,
    "lm_tiles": 505,
    "argmax_tiles": 128,
}

# Sizes of the real model, as `deepseek_v3(4).sized(**DEEPSEEK_V3["TP1"])` takes them. A graph of
# 61 layers on 8 ranks has 164k tasks and 243 MB; with `reduce_requests=42`, 757k and 859 MB.
DEEPSEEK_V3: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "TP1": {
            **_COMMON,
            "gateup_tile": 288,
            "q_b_tiles": 288,
            "silu_tiles": 48,
            "splits": 256,
            "reduce_requests": 8,
        },
        "TP8": {
            **_COMMON,
            "q_b_tiles": 96,
            "silu_tiles": 6,
            "splits": 128,
            "reduce_requests": 4,
        },
    }
)


def deepseek_v3(layers: int = 4, *, dense_layers: int = 3, ranks: int = 1, **sizes: int) -> Model:
    """DeepSeek-V3 on Blackwell, on 1 rank or 8, position encoding wired in every layer."""
    if ranks not in (1, 8):
        raise ValueError("MPK has latent-attention kernels for 1 rank and for 8")
    options = {"dense_layers": dense_layers}
    return Model(_deepseek, DeepSeekSizes(**sizes), layers, ranks, dialect=LITERAL, options=options)


def _decode(x: int, y: int, z: int) -> tuple[int, int, int]:
    """The union of MLA decode and reduce: the chunk is x, the request y."""
    return y, x, z


def _decode_tp8(x: int, y: int, z: int) -> tuple[int, int, int]:
    """The union of MLA decode on 8 ranks: it leaves the merge offset alone."""
    return y, x, -1


class _DeepSeek:
    def __init__(self, p: Program, m: Model) -> None:
        self.p, self.m = p, m
        self.s: DeepSeekSizes = m.sizes
        s = self.s
        self.heads = s.heads // m.ranks
        self.kv_width = s.kv_lora + s.rope

    # -- declarations ------------------------------------------------------------------------

    def fp8_weight(self, layer: int, part: str, rows: int, width: int) -> tuple[Tensor, Tensor]:
        """A weight and its packed scales, which are column-major."""
        name = self.m.weight(layer, part)
        weight = self.p.host(name, rows, width, dtype=FP8)
        scales = (rows, -(-width // PACKED))
        scale = self.p.host(f"{name}_scale", *scales, dtype=UINT32, strides=(1, rows))
        return weight, scale

    def norm_weight(self, layer: int, part: str, width: int) -> Tensor:
        return self.p.host(self.m.weight(layer, part), width)

    def layer_scratch(self, layer: int, part: str, *shape: int, dtype: int = BF16) -> Tensor:
        return self.p.scratch(self.m.weight(layer, part), *shape, dtype=dtype)

    def buffers(self) -> None:
        p, s = self.p, self.s
        self.token = p.host("input_token", s.batch, 1, dtype=INT64)
        self.embed_tokens = p.host("embed_tokens", s.vocab, s.hidden)
        self.embed_out = p.scratch("embed_out", s.batch, s.hidden)
        self.rmsnorm_out = p.scratch("rmsnorm_out", s.batch, s.hidden)
        self.q_a_out = p.scratch("q_a_out", s.batch, s.q_lora)
        self.q_nope_pe = p.scratch("q_nope_pe", s.batch, self.heads * self.kv_width)
        self.c_latent_out = p.scratch("c_latent_out", s.batch, s.kv_lora)
        self.k_pe_out = p.scratch("k_pe_out", s.batch, s.rope_padded)
        p.scratch("kv_combined", s.batch, self.kv_width)
        self.contiguous_kv = p.scratch("contiguous_kv", s.positions, self.kv_width)
        self.partial_o = p.scratch("mla_partial_o", s.splits, s.partial_width)
        self.partial_lse = p.scratch("mla_partial_lse", s.splits, s.partial_heads, dtype=FLOAT32)
        self.attn_out = p.scratch("attn_out", s.batch, self.heads * s.kv_lora)
        p.scratch("attn_unabsorbed", s.batch, self.heads * s.value)
        p.symmetric("attn_proj_out", s.batch, s.hidden)
        self.intermediate = s.intermediate // p.ranks
        self.mlp_mid = p.scratch("mlp_mid", s.batch, 2 * self.intermediate)
        self.silu_mul_out = p.scratch("silu_mul_out", s.batch, self.intermediate)
        p.symmetric("mlp_out", s.batch, s.hidden)
        if p.ranks > 1:
            p.symmetric("allreduce_buf", p.ranks, s.batch, s.hidden)
            self.allreduce_out = p.symmetric("allreduce_out", s.batch, s.hidden)
        p.scratch("argmax_part_value", s.batch, s.argmax_tiles)
        p.scratch("argmax_part_index", s.batch, s.argmax_tiles, dtype=INT64)
        cos, sin = self.m.rope_names
        self.tables = [p.host(name, s.positions, s.rope) for name in (cos, sin)]

    # -- operators ---------------------------------------------------------------------------

    def quantize(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`x` in FP8, in the buffers that all operands of its width share.

        The emitter cuts nothing, so `batch` identical tasks each do the whole tensor.
        """
        p, width = self.p, x.shape[1]
        packed = (-(-width // PACKED), x.shape[0])
        value = p.shared(f"fp8_input_{width}_shared", *x.shape, dtype=FP8)
        scale = p.shared(f"fp8_scale_{width}_shared", *packed, dtype=UINT32)
        p.run("QUANTIZE_FP8_SM100", (x.shape[0],), [x.whole], [value.whole, scale.whole])
        return value, scale

    def fp8_linear(
        self,
        x: Tensor,
        weights: tuple[Tensor, Tensor],
        out: Tensor,
        tile: int = 0,
        residual: Tensor | None = None,
    ) -> None:
        """Quantize, then one task per tile of output columns."""
        p = self.p
        weight, scale = weights
        tiles = weight.shape[0] // (tile or self.s.tile)
        inputs = [t.whole for t in self.quantize(x)] + [weight.cut(x=0), scale.cut(x=0)]
        kind, body = "LINEAR_FP8_SM100", ""
        if residual is not None:
            kind = "LINEAR_FP8_WITH_RESIDUAL_SM100"
            inputs.append(residual.cut(x=1))
            body = without_residual(kind, 4) if p.rank > 0 else ""
        p.run(kind, (tiles,), inputs, [out.cut(x=1)], body=body)

    def attention(self, layer: int, stream: Tensor) -> Tensor:
        p, s, m = self.p, self.s, self.m
        norm = "RMS_NORM_HOPPER"
        input_norm = self.norm_weight(layer, "input_layernorm", s.hidden)
        rms_norm(p, norm, stream, input_norm, self.rmsnorm_out)
        q_a = self.fp8_weight(layer, "q_a_proj", s.q_lora, s.hidden)
        self.fp8_linear(self.rmsnorm_out, q_a, self.q_a_out)
        q_a_norm = self.norm_weight(layer, "q_a_layernorm", s.q_lora)
        rms_norm(p, norm, self.q_a_out, q_a_norm, self.q_a_out)
        q_b = p.host(m.weight(layer, "q_b_proj"), self.heads * self.kv_width, s.q_lora)
        linear(p, "LINEAR_SM100", s.q_b_tiles, self.q_a_out, q_b.cut(x=0), self.q_nope_pe)
        tables = [] if layer in m.no_rope else [table.whole for table in self.tables]
        if tables:
            q = self.q_nope_pe.whole
            p.run("MLA_ROPE_Q_SM100", (1,), [q, *tables], [q])
        latent = self.fp8_weight(layer, "kv_a_latent", s.kv_lora, s.hidden)
        self.fp8_linear(self.rmsnorm_out, latent, self.c_latent_out, min(s.tile, s.kv_lora))
        rope = self.fp8_weight(layer, "kv_a_rope", s.rope_padded, s.hidden)
        self.fp8_linear(self.rmsnorm_out, rope, self.k_pe_out)
        kv_norm = self.norm_weight(layer, "kv_a_layernorm", s.kv_lora)
        rms_norm(p, norm, self.c_latent_out, kv_norm, self.c_latent_out)
        shape = (s.pages, s.page_size, self.kv_width)
        cache = p.host(m.weight(layer, "kv_cache"), *shape)
        gathered = [self.c_latent_out, self.k_pe_out, cache, self.contiguous_kv]
        gather = "MLA_KV_GATHER_SM100"
        body = f"{KINDS[gather].body} i4 i5" if tables else ""
        p.run(gather, (1,), [*(t.whole for t in gathered), *tables], body=body)
        self.decode()
        o_proj = self.fp8_weight(layer, "o_proj", s.hidden, self.heads * s.kv_lora)
        out = self.layer_scratch(layer, "attn_proj_fused", s.batch, s.hidden)
        residual = m.residual(layer, stream, self.embed_out)
        self.fp8_linear(self.attn_out, o_proj, out, residual=residual)
        post_norm = self.norm_weight(layer, "post_attn_layernorm", s.hidden)
        rms_norm(p, norm, out, post_norm, self.rmsnorm_out)
        return out

    def decode(self) -> None:
        """Attention over KV chunks into partial results, and their reduction.

        Every slot is the whole tensor; the bodies pick rows by the union.
        """
        p, s = self.p, self.s
        inputs = [self.q_nope_pe.whole, self.contiguous_kv.whole]
        partials = [self.partial_o.whole, self.partial_lse.whole]
        outputs = [self.attn_out.whole]
        grid = (s.reduce_chunks, s.reduce_requests)
        if p.ranks == 1:
            chunks = (s.splits // s.batch, s.batch)
            p.run("MLA_MTP_DECODE_SM100", chunks, inputs, partials, metadata=_decode)
            p.run("MLA_MTP_REDUCE_SM100", grid, partials, outputs, metadata=_decode)
            return
        kind = "MLA_MTP_DECODE_TP8_SM100"
        p.run(kind, (s.splits,), inputs, partials, metadata=_decode_tp8)
        p.run("MLA_MTP_DECODE_TP8_REDUCE_SM100", grid, partials, outputs, metadata=_decode)

    def dense(self, layer: int, stream: Tensor) -> Tensor:
        p, s = self.p, self.s
        gate_up = self.fp8_weight(layer, "gate_up_proj", 2 * self.intermediate, s.hidden)
        down = self.fp8_weight(layer, "down_proj", s.hidden, self.intermediate)
        out = self.layer_scratch(layer, "mlp_fused", s.batch, s.hidden)
        self.fp8_linear(self.rmsnorm_out, gate_up, self.mlp_mid, s.gateup_tile)
        p.run("SILU_MUL", (s.silu_tiles,), [self.mlp_mid.cut(x=1)], [self.silu_mul_out.cut(x=1)])
        self.fp8_linear(self.silu_mul_out, down, out, residual=stream)
        return out

    def mixture(self, layer: int, stream: Tensor) -> Tensor:
        p, s, m = self.p, self.s, self.m
        batch, hidden, width = s.batch, s.hidden, s.moe_intermediate // p.ranks
        token_slots = (batch, s.topk)

        def scratch(part: str, *shape: int, dtype: int = BF16) -> Tensor:
            return self.layer_scratch(layer, part, *shape, dtype=dtype)

        def host(part: str, *shape: int, dtype: int = BF16) -> Tensor:
            return p.host(m.weight(layer, part), *shape, dtype=dtype)

        gate = host("moe_gate", s.experts, hidden)
        weights = scratch("moe_topk_weights", batch, s.topk, dtype=FLOAT32)
        routing = scratch("moe_routing_indices", s.experts, batch, dtype=INT32)
        mask = scratch("moe_mask", s.experts + 1, dtype=INT32)
        logits = scratch("router_logits", batch, s.experts)
        output = p.symmetric(m.weight(layer, "moe_output"), batch, hidden)
        bias = host("moe_gate_bias", s.experts, dtype=FLOAT32)
        w13 = host("experts_w13", s.experts, 2 * width, hidden, dtype=FP8)
        w13_scale = host("experts_w13_scale", s.experts, 2 * width, hidden // GROUP, dtype=FLOAT32)
        x_fp8 = scratch("moe_input_fp8", batch, hidden, dtype=FP8)
        x_scale = scratch("moe_input_scale", batch, hidden // GROUP, dtype=FLOAT32)
        mid = scratch("moe_mid", *token_slots, 2 * width)
        silu = scratch("moe_silu", *token_slots, width)
        w2 = host("experts_w2", s.experts, hidden, width, dtype=FP8)
        w2_scale = host("experts_w2_scale", s.experts, hidden, width // GROUP, dtype=FLOAT32)
        silu_fp8 = scratch("moe_silu_fp8", *token_slots, width, dtype=FP8)
        silu_scale = scratch("moe_silu_scale", *token_slots, width // GROUP, dtype=FLOAT32)
        down = scratch("moe_down", *token_slots, hidden)

        linear(p, "LINEAR_SM100", s.gate_tiles, self.rmsnorm_out, gate.cut(x=0), logits)
        # Zeroes input 0; its other two slots are dummies that the body does not name.
        dummy = self.rmsnorm_out.cut(x=0)
        p.run("TENSOR_INIT", (batch,), [output.cut(x=0), dummy], [dummy])
        route = [routing.whole, mask.whole]
        inputs = [logits.whole, bias.whole]
        p.run("MOE_TOPK_SIGMOID_SM100", (1,), inputs, [weights.whole, *route])
        grid = (s.experts_groups, s.experts_tiles)
        outputs = [x_fp8.whole, x_scale.whole]
        p.run("QUANTIZE_FP8_SM100", (batch,), [self.rmsnorm_out.whole], outputs)
        inputs = [x_fp8.whole, x_scale.whole, w13.cut(y=1), w13_scale.cut(y=1), *route]
        p.run("MOE_W13_FP8_SM100", grid, inputs, [mid.cut(y=2)], metadata=expert_group)
        cells = [mid.cut(x=0, y=1)], [silu.cut(x=0, y=1)]
        p.run("SILU_MUL", token_slots, *cells, body="i0 o0")
        outputs = [silu_fp8.whole, silu_scale.whole]
        p.run("QUANTIZE_FP8_SM100", (batch * s.topk,), [silu.whole], outputs)
        inputs = [silu_fp8.whole, silu_scale.whole, w2.cut(y=1), w2_scale.cut(y=1), *route]
        p.run("MOE_W2_FP8_SM100", grid, inputs, [down.cut(y=2)], metadata=expert_group)

        shared = self.shared_expert(layer, width)
        inputs = [down.cut(x=0), weights.cut(x=0), shared.cut(x=0)]
        p.run("MOE_MUL_SUM_ADD_SM100", (batch,), inputs, [output.cut(x=0)])
        total = output
        if p.ranks > 1:
            kind, total = "NVSHMEM_TILE_ALLREDUCE", self.allreduce_out
            grid_of_sum = (hidden // s.tile,)
            p.run(kind, grid_of_sum, [output.cut(x=1)], [total.cut(x=1)], metadata=expert_group)
        out = scratch("moe_residual", batch, hidden)
        inputs = [stream.cut(x=0), total.cut(x=0)]
        p.run("ELEMENTWISE_ADD_SM100", (batch,), inputs, [out.cut(x=0)])
        return out

    def shared_expert(self, layer: int, width: int) -> Tensor:
        p, s = self.p, self.s
        gate_up = self.fp8_weight(layer, "shared_expert_gate_up", 2 * width, s.hidden)
        mid = self.layer_scratch(layer, "shared_mid", s.batch, 2 * width)
        silu = self.layer_scratch(layer, "shared_silu", s.batch, width)
        down = self.fp8_weight(layer, "shared_expert_down", s.hidden, width)
        out = self.layer_scratch(layer, "shared_residual", s.batch, s.hidden)
        self.fp8_linear(self.rmsnorm_out, gate_up, mid)
        # A tile of gate beside its tile of up.
        tiles = 2 * width // (2 * s.tile)
        p.run("SILU_MUL", (tiles,), [mid.cut(x=1)], [silu.cut(x=1)])
        self.fp8_linear(silu, down, out)
        return out


def _deepseek(p: Program, m: Model) -> None:
    d = _DeepSeek(p, m)
    s = d.s
    d.buffers()
    p.run("EMBEDDING", (1,), [d.token.whole, d.embed_tokens.whole], [d.embed_out.whole])
    stream = d.embed_out
    for layer in range(m.layers):
        attended = d.attention(layer, stream)
        block = d.dense if layer < m.options["dense_layers"] else d.mixture
        stream = block(layer, attended)
    norm = p.host("model_norm_weight", s.hidden)
    lm_head = p.host("lm_head", s.vocab, s.hidden)
    logits = p.scratch("lm_head_out", s.batch, s.vocab)
    token = p.host("output_token", s.batch, 1, dtype=INT64)
    rms_norm(p, "RMS_NORM_HOPPER", stream, norm, d.rmsnorm_out)
    linear(p, "LINEAR_SM100", s.lm_tiles, d.rmsnorm_out, lm_head.cut(x=0), logits)
    argmax(p, "ARGMAX_PARTIAL_SM100", "ARGMAX_REDUCE_SM100", s.argmax_tiles, logits, token)
