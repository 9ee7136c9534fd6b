"""Qwen3: dense on three architectures, fused, split-KV, tensor parallel, mixture of experts.

Tensor names, declaration order, slots and grids are those of the demos that ship with MPK. With
the sizes in `QWEN3` the emitted JSON equals the demos' own, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from .graph import FLOAT32, INT32, INT64, AnySlot, Fused, Program, Slot, Tensor
from .model import Model
from .operators import (
    argmax,
    expert_group,
    linear,
    optional,
    rms_norm,
    split,
    without_residual,
)

__all__ = ["QWEN3", "Qwen3Sizes", "qwen3", "qwen3_ampere", "qwen3_moe"]


@dataclass(frozen=True)
class Qwen3Sizes:
    """Sizes of the whole model (ranks divide them), and the tiles that operators are cut into.

    Defaults make a few dozen tasks a layer, every tile a multiple of 16 bytes.
    """

    hidden: int = 128
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 32
    intermediate: int = 384
    vocab: int = 256
    lm_rows: int = 256  # the vocabulary padded to whole tiles
    batch: int = 4
    pages: int = 4
    page_size: int = 64
    positions: int = 64
    kv_splits: int = 2
    qkv_tiles: int = 8
    o_tiles: int = 4
    gateup_tiles: int = 8
    silu_tiles: int = 4
    down_tiles: int = 4
    lm_tiles: int = 4
    # mixture of experts
    experts: int = 8
    topk: int = 2
    moe_intermediate: int = 64
    w13_groups: int = 2
    w13_tiles: int = 4
    w2_groups: int = 2
    w2_tiles: int = 4
    sum_tiles: int = 2


_VOCAB = {"vocab": 151936, "lm_rows": 153600, "positions": 4096, "page_size": 4096, "pages": 16}
_8B = {**_VOCAB, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "batch": 8}
_8B |= {"intermediate": 12288, "qkv_tiles": 96, "o_tiles": 64, "gateup_tiles": 96}
_8B |= {"silu_tiles": 48, "down_tiles": 64}

# Sizes of the real models, as `qwen3(4).sized(**QWEN3["0.6B"])` takes them.
QWEN3: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "0.6B": {
            **_8B,
            "hidden": 1024,
            "heads": 16,
            "intermediate": 3072,
            "qkv_tiles": 64,
            "o_tiles": 16,
            "down_tiles": 16,
            "lm_tiles": 128,
        },
        "1.7B": {
            **_8B,
            "hidden": 2048,
            "heads": 16,
            "intermediate": 6144,
            "qkv_tiles": 64,
            "o_tiles": 32,
            "down_tiles": 32,
            "lm_tiles": 128,
        },
        "8B": {**_8B, "lm_tiles": 128},
        "8B-ampere": {**_8B, "lm_tiles": 96},
        "8B-fused": {**_8B, "lm_tiles": 96, "batch": 1, "pages": 1, "qkv_tiles": 48},
        "30B-A3B": {
            **_8B,
            "hidden": 2048,
            "kv_heads": 4,
            "batch": 1,
            "qkv_tiles": 64,
            "o_tiles": 16,
            "lm_tiles": 128,
            "experts": 128,
            "topk": 8,
            "moe_intermediate": 768,
            "w13_groups": 10,
            "w13_tiles": 12,
            "w2_groups": 8,
            "w2_tiles": 16,
            "sum_tiles": 8,
        },
    }
)


@dataclass(frozen=True)
class Architecture:
    """The task types one GPU generation uses for the same operators.

    `ranked`: a residual is compiled out on ranks above 0, so that the sum over ranks adds it once.
    Without it the body asks `runtime_config.my_gpu_id` at run time.
    """

    norm: str
    linear: str
    residual: str
    attention: str
    argmax_partial: str
    argmax_reduce: str
    ranked: bool = True


ARCHITECTURES = {
    "ampere": Architecture(
        "RMS_NORM",
        "LINEAR",
        "LINEAR_WITH_RESIDUAL",
        "PAGED_ATTENTION_1",
        "ARGMAX_PARTIAL",
        "ARGMAX_REDUCE",
        ranked=False,
    ),
    "hopper": Architecture(
        "RMS_NORM_HOPPER",
        "LINEAR_SWAPAB_HOPPER",
        "LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER",
        "PAGED_ATTENTION_HOPPER",
        "ARGMAX_PARTIAL_SM100",
        "ARGMAX_REDUCE",
    ),
    "blackwell": Architecture(
        "RMS_NORM_HOPPER",
        "LINEAR_SM100",
        "LINEAR_WITH_RESIDUAL_SM100",
        "ATTN_SM100",
        "ARGMAX_PARTIAL_SM100",
        "ARGMAX_REDUCE_SM100",
    ),
}


def qwen3(
    layers: int = 4,
    *,
    ranks: int = 1,
    collective: Literal["allgather", "tile"] = "tile",
    split_kv: bool = False,
    arch: Literal["ampere", "hopper", "blackwell", ""] = "",
    **sizes: int,
) -> Model:
    """Dense Qwen3. `allgather` is the Ampere way to sum over ranks, `tile` the Hopper one."""
    arch = arch or ("ampere" if ranks > 1 and collective == "allgather" else "hopper")
    if split_kv:
        sizes = {"kv_splits": 4, **sizes}
    options = {"collective": collective, "split_kv": split_kv, "arch": ARCHITECTURES[arch]}
    return _model(_dense, layers, ranks, options, sizes)


def qwen3_ampere(layers: int = 3, *, shuffled: tuple[int, ...] = (1,), **sizes: int) -> Model:
    """Dense Qwen3 with the norm fused into the linear, and q, k, v (and gate, up) into one weight.

    In the layers of `shuffled`, gate and up are copied into one tensor instead.
    """
    defaults = {"batch": 1, "pages": 1, "qkv_tiles": 16}
    return _model(_fused, layers, 1, {"shuffled": shuffled}, {**defaults, **sizes})


def qwen3_moe(layers: int = 6, **sizes: int) -> Model:
    """Qwen3 with a mixture of experts, on Blackwell."""
    options = {"arch": ARCHITECTURES["blackwell"], "split_kv": False, "collective": "tile"}
    return _model(_mixture, layers, 1, options, {"batch": 1, **sizes})


def _model(
    build: Any, layers: int, ranks: int, options: dict[str, Any], sizes: dict[str, int]
) -> Model:
    tables = ("cos_position_embedding", "sin_position_embedding")
    return Model(build, Qwen3Sizes(**sizes), layers, ranks, tables, options=options)


class _Qwen3:
    """The parts of one Qwen3 program that do not differ between its families."""

    def __init__(self, p: Program, m: Model) -> None:
        self.p, self.m = p, m
        self.s: Qwen3Sizes = m.sizes
        self.arch: Architecture = m.options.get("arch", ARCHITECTURES["ampere"])
        self.heads = self.s.heads // m.ranks
        self.kv_heads = self.s.kv_heads // m.ranks
        self.q_width = self.heads * self.s.head_dim
        self.kv_width = self.kv_heads * self.s.head_dim
        self.qkv_width = self.q_width + 2 * self.kv_width

    def tokens_and_tables(self) -> None:
        s = self.s
        self.token = self.p.host("input_token", s.batch, 1, dtype=INT64)
        cos, sin = self.m.rope_names
        tables = tuple(self.p.host(name, s.positions, s.head_dim) for name in (cos, sin))
        self.tables = tables

    def argmax_buffers(self) -> None:
        s = self.s
        self.argmax_in = self.p.scratch("argmax_in", s.batch, s.lm_rows)
        self.p.scratch("argmax_part_value", s.batch, s.lm_tiles)
        self.p.scratch("argmax_part_index", s.batch, s.lm_tiles, dtype=INT64)

    def embed(self, out: Tensor, body: str = "") -> None:
        table = self.p.host("embed_tokens", self.s.vocab, self.s.hidden)
        self.p.run("EMBEDDING", (1,), [self.token.whole, table.whole], [out.whole], body=body)

    def qkv_parts(self, layer: int) -> list[tuple[str, int]]:
        rows = (self.q_width, self.kv_width, self.kv_width)
        return [
            (self.m.weight(layer, f"{part}_proj"), n) for part, n in zip("qkv", rows, strict=True)
        ]

    def norms(self, layer: int) -> tuple[Tensor, ...]:
        if layer in self.m.no_qk_norm:
            return ()
        return tuple(self.layer_host(layer, f"{c}_norm", self.s.head_dim) for c in "qk")

    def layer_host(self, layer: int, part: str, *shape: int) -> Tensor:
        return self.p.host(self.m.weight(layer, part), *shape)

    def caches(self, layer: int) -> tuple[Tensor, Tensor]:
        s = self.s
        shape = (s.pages, s.page_size, self.kv_heads, s.head_dim)
        k, v = (self.layer_host(layer, f"{c}_cache", *shape) for c in "kv")
        return k, v

    def optional_inputs(self, layer: int, norms: tuple[Tensor, ...]) -> list[AnySlot]:
        tables = () if layer in self.m.no_rope else self.tables
        return [*optional(norms), *optional(tables)]

    # The attention block of the dense and the mixture family.

    def attention_buffers(self, split_buffers: bool) -> None:
        p, s = self.p, self.s
        self.embed_out = p.scratch("embed_out", s.batch, s.hidden)
        self.rmsnorm_out = p.scratch("rmsnorm_out", s.batch, s.hidden)
        self.attn_in = p.scratch("attn_in", s.batch, self.qkv_width)
        if split_buffers:
            # Row strides are MPK's, too small in attn_out_tmp: the kernel does not use them.
            group = self.heads // self.kv_heads * s.kv_splits
            width = group * self.kv_heads
            shape = (s.batch, group, self.kv_heads)
            self.lse = p.scratch("lse", *shape, dtype=FLOAT32, strides=(width, 1, group))
            group *= s.head_dim
            shape = (s.batch, group, self.kv_heads)
            self.attn_out_tmp = p.scratch("attn_out_tmp", *shape, strides=(width, 1, group))
        self.attn_out = p.scratch("attn_out", s.batch, self.q_width)
        self.attn_proj_out = p.symmetric("attn_proj_out", s.batch, s.hidden)
        self.all_reduce_buf = p.symmetric("all_reduce_buf", self.m.ranks, s.batch, s.hidden)
        self.attn_allreduce_out = p.symmetric("attn_allreduce_out", s.batch, s.hidden)

    def attention(self, layer: int, stream: Tensor) -> Tensor:
        """Norm, qkv, attention, o_proj, sum over ranks; returns the new residual stream."""
        p, s, arch = self.p, self.s, self.arch
        weight = self.layer_host(layer, "input_layernorm", s.hidden)
        qkv = p.shuffled(
            self.m.weight(layer, "qkv_proj"), self.kv_heads, self.qkv_parts(layer), s.hidden
        )
        norms = self.norms(layer)
        k, v = self.caches(layer)
        o_proj = self.layer_host(layer, "o_proj", s.hidden, self.q_width)

        rms_norm(p, arch.norm, stream, weight, self.rmsnorm_out)
        linear(p, arch.linear, s.qkv_tiles, self.rmsnorm_out, qkv.cut(x=0), self.attn_in)
        inputs: list[AnySlot] = [self.attn_in.cut(y=1), k.cut(y=2), v.cut(y=2)]
        inputs += self.optional_inputs(layer, norms)
        if self.m.options["split_kv"]:
            partials = [self.lse, self.attn_out_tmp]
            chunks = (1, self.kv_heads, s.kv_splits)
            outputs = [partial.cut(y=2, z=1) for partial in partials]
            p.run("PAGED_ATTENTION_SPLIT_KV_HOPPER", chunks, inputs, outputs, metadata=split)
            inputs = [partial.cut(y=2) for partial in partials]
            kind, outputs = "PAGED_ATTENTION_SPLIT_KV_MERGE_SM100", [self.attn_out.cut(y=1)]
            p.run(kind, (1, self.kv_heads), inputs, outputs, metadata=split)
        else:
            p.run(arch.attention, (1, self.kv_heads), inputs, [self.attn_out.cut(y=1)])
        residual = self.m.residual(layer, stream, self.embed_out)
        self.project(s.o_tiles, self.attn_out, o_proj, residual, self.attn_proj_out)
        return self.reduce(s.o_tiles, self.attn_proj_out, self.attn_allreduce_out)

    def project(self, tiles: int, x: Tensor, weight: Tensor, residual: Tensor, out: Tensor) -> None:
        """A linear operator that adds the residual stream, on rank 0 only."""
        kind = self.arch.residual
        ranked = self.arch.ranked and self.p.rank > 0
        body = without_residual(kind, 2) if ranked else ""
        inputs = [x.whole, weight.cut(x=0), residual.cut(x=1)]
        self.p.run(kind, (tiles,), inputs, [out.cut(x=1)], body=body)

    def reduce(self, tiles: int, x: Tensor, out: Tensor) -> Tensor:
        """The sum of `x` over the ranks; `x` itself when there is one."""
        p, buf = self.p, self.all_reduce_buf
        if p.ranks == 1:
            return x
        if self.m.options["collective"] == "tile":
            kind, grid = "NVSHMEM_TILE_ALLREDUCE", (tiles,)
            p.run(kind, grid, [x.cut(x=1)], [out.cut(x=1)], metadata=expert_group)
            return out
        # My slice of every other rank's buffer, though the tile spans all slices.
        slice_of_mine = Slot(buf, (2, -1, -1), offset=p.rank * x.nbytes)
        kind, others = "NVSHMEM_ALLGATHER_STRIDED_PUT", p.ranks - 1
        p.run(kind, (tiles,), [x.cut(x=1)], [slice_of_mine], fanout=others)
        p.run("REDUCE", (tiles,), [x.cut(x=1), buf.cut(x=2)], [out.cut(x=1)])
        return out

    def head(self, stream: Tensor, token: Tensor) -> None:
        """Final norm, logits, argmax."""
        p, s, arch = self.p, self.s, self.arch
        weight = p.host("model_norm_weight", s.hidden)
        lm_head = p.host("lm_head", s.lm_rows, s.hidden)
        rms_norm(p, arch.norm, stream, weight, self.rmsnorm_out)
        linear(p, arch.linear, s.lm_tiles, self.rmsnorm_out, lm_head.cut(x=0), self.argmax_in)
        argmax(p, arch.argmax_partial, arch.argmax_reduce, s.lm_tiles, self.argmax_in, token)


def _dense(p: Program, m: Model) -> None:
    q = _Qwen3(p, m)
    s, arch = q.s, q.arch
    intermediate = s.intermediate // m.ranks
    q.tokens_and_tables()
    q.attention_buffers(split_buffers=True)
    mlp_mid = p.scratch("mlp_mid", s.batch, 2 * intermediate)
    silu_mul_out = p.scratch("silu_mul_out", s.batch, intermediate)
    mlp_out = p.symmetric("mlp_out", s.batch, s.hidden)
    mlp_final = p.symmetric("mlp_final", s.batch, s.hidden)
    q.argmax_buffers()
    token = p.host("output_token", s.batch, 1, dtype=INT64)
    q.embed(q.embed_out)
    stream = q.embed_out
    for layer in range(m.layers):
        stream = q.attention(layer, stream)
        weight = q.layer_host(layer, "post_attn_layernorm", s.hidden)
        parts = [(m.weight(layer, f"{part}_proj"), intermediate) for part in ("gate", "up")]
        gateup = p.shuffled(m.weight(layer, "gatedup_proj"), s.silu_tiles, parts, s.hidden)
        down = q.layer_host(layer, "down_proj", s.hidden, intermediate)
        rms_norm(p, arch.norm, stream, weight, q.rmsnorm_out)
        linear(p, arch.linear, s.gateup_tiles, q.rmsnorm_out, gateup.cut(x=0), mlp_mid)
        p.run("SILU_MUL", (s.silu_tiles,), [mlp_mid.cut(x=1)], [silu_mul_out.cut(x=1)])
        q.project(s.down_tiles, silu_mul_out, down, stream, mlp_out)
        stream = q.reduce(s.down_tiles, mlp_out, mlp_final)
    q.head(stream, token)


def _fused(p: Program, m: Model) -> None:
    q = _Qwen3(p, m)
    s = q.s
    q.tokens_and_tables()
    embed_out = p.scratch("embed_out", s.batch, s.hidden)
    attn_in = p.scratch("attn_in", s.batch, q.qkv_width)
    attn_out = p.scratch("attn_out", s.batch, q.q_width)
    attn_proj_out = p.scratch("attn_proj_out", s.batch, s.hidden)
    mlp_mid = p.scratch("mlp_mid", s.batch, 2 * s.intermediate)
    mlp_out = p.scratch("mlp_out", s.batch, s.hidden)
    q.argmax_buffers()
    token = p.scratch("argmax_out", s.batch, 1, dtype=INT64)
    q.embed(embed_out, body="r.tokens r.step i1 o0")  # reads the runtime's own token buffer

    def norm_linear(tiles: int, x: Tensor, norm: Tensor, weight: AnySlot, out: Tensor) -> None:
        p.run("RMS_NORM_LINEAR", (tiles,), [x.whole, norm.whole, weight], [out.cut(x=1)])

    stream = embed_out
    for layer in range(m.layers):
        input_norm = q.layer_host(layer, "input_layernorm", s.hidden)
        parts = [p.host(name, rows, s.hidden) for name, rows in q.qkv_parts(layer)]
        norms = q.norms(layer)
        k, v = q.caches(layer)
        o_proj = q.layer_host(layer, "o_proj", s.hidden, q.q_width)
        post_norm = q.layer_host(layer, "post_attn_layernorm", s.hidden)
        names = [m.weight(layer, f"{part}_proj") for part in ("gate", "up")]
        gateup: AnySlot
        if layer in m.options["shuffled"]:
            rows = [(name, s.intermediate) for name in names]
            gateup = p.shuffled(m.weight(layer, "gatedup_proj"), 1, rows, s.hidden).cut(x=0)
        else:
            tensors = [p.host(name, s.intermediate, s.hidden) for name in names]
            gateup = Fused(tuple((tensor, s.gateup_tiles // 2) for tensor in tensors))
        down = q.layer_host(layer, "down_proj", s.hidden, s.intermediate)

        # Per head group: its q tiles, then one tile of k and one of v.
        per_group = s.qkv_tiles // q.kv_heads - 2
        qkv = Fused(tuple(zip(parts, (per_group, 1, 1), strict=True)))
        norm_linear(s.qkv_tiles, stream, input_norm, qkv, attn_in)
        inputs: list[AnySlot] = [attn_in.cut(x=0, y=1), k.cut(x=0, y=2), v.cut(x=0, y=2)]
        inputs += q.optional_inputs(layer, norms)
        p.run("ATTENTION_1", (s.batch, q.kv_heads), inputs, [attn_out.cut(x=0, y=1)])
        residual = m.residual(layer, stream, embed_out)
        q.project(s.o_tiles, attn_out, o_proj, residual, attn_proj_out)
        norm_linear(s.gateup_tiles, attn_proj_out, post_norm, gateup, mlp_mid)
        inputs = [mlp_mid.whole, down.cut(x=0), attn_proj_out.cut(x=1)]
        p.run("SILU_MUL_LINEAR_WITH_RESIDUAL", (s.down_tiles,), inputs, [mlp_out.cut(x=1)])
        stream = mlp_out
    norm = p.host("model_norm_weight", s.hidden)
    lm_head = p.host("lm_head", s.lm_rows, s.hidden)
    norm_linear(s.lm_tiles, stream, norm, lm_head.cut(x=0), q.argmax_in)
    argmax(p, "ARGMAX_PARTIAL", "ARGMAX_REDUCE", s.lm_tiles, q.argmax_in, token)


def _mixture(p: Program, m: Model) -> None:
    q = _Qwen3(p, m)
    s, arch = q.s, q.arch
    q.tokens_and_tables()
    q.attention_buffers(split_buffers=False)
    moe_gate_out = p.scratch("moe_gate_out", s.batch, s.experts)
    routing = p.scratch("moe_routing_indices", s.experts, s.batch, dtype=INT32)
    mask = p.scratch("moe_mask", s.experts + 1, dtype=INT32)
    topk_weight = p.scratch("moe_topk_weight", s.batch, s.topk, dtype=FLOAT32)
    mlp_mid = p.scratch("mlp_mid", s.batch, s.topk, 2 * s.moe_intermediate)
    silu_mul_out = p.scratch("silu_mul_out", s.batch, s.topk, s.moe_intermediate)
    mlp_out = p.scratch("mlp_out", s.batch, s.topk, s.hidden)
    weighted_sum = p.scratch("mlp_weighted_sum_out", s.batch, s.hidden)
    p.symmetric("mlp_final", s.batch, s.hidden)
    q.argmax_buffers()
    token = p.host("output_token", s.batch, 1, dtype=INT64)
    q.embed(q.embed_out)
    stream = q.embed_out
    for layer in range(m.layers):
        stream = q.attention(layer, stream)
        post_norm = q.layer_host(layer, "post_attn_layernorm", s.hidden)
        gate = q.layer_host(layer, "moe_gate", s.experts, s.hidden)
        w13 = q.layer_host(layer, "gateup_proj", s.experts, 2 * s.moe_intermediate, s.hidden)
        w2 = q.layer_host(layer, "down_proj", s.experts, s.hidden, s.moe_intermediate)
        route = [routing.whole, mask.whole]
        rms_norm(p, arch.norm, stream, post_norm, q.rmsnorm_out)
        linear(p, arch.linear, 1, q.rmsnorm_out, gate.cut(x=0), moe_gate_out)
        outputs = [topk_weight.whole, *route]
        p.run("MOE_TOPK_SOFTMAX_SM100", (1,), [moe_gate_out.whole], outputs)
        for kind, grid, x, weight, out in (
            ("MOE_W13_LINEAR_SM100", (s.w13_groups, s.w13_tiles), q.rmsnorm_out, w13, mlp_mid),
            ("MOE_W2_LINEAR_SM100", (s.w2_groups, s.w2_tiles), silu_mul_out, w2, mlp_out),
        ):
            inputs = [x.whole, weight.cut(y=1), *route]
            p.run(kind, grid, inputs, [out.cut(y=2)], metadata=expert_group)
            if out is mlp_mid:
                cells = [mlp_mid.cut(x=0, y=1)], [silu_mul_out.cut(x=0, y=1)]
                p.run("SILU_MUL", (s.batch, s.topk), *cells, body="i0 o0")
        inputs = [mlp_out.cut(x=0, y=2), topk_weight.cut(x=0), stream.cut(x=0, y=1)]
        outputs = [weighted_sum.cut(x=0, y=1)]
        p.run("MOE_MUL_SUM_ADD_SM100", (s.batch, s.sum_tiles), inputs, outputs)
        stream = weighted_sum
    q.head(stream, token)
