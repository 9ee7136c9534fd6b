"""The worked example in `examples/`: a model of 78 layers, cut down to what positions go through.

    python -m tests.emitter.worked_example

writes `examples/rope_unwired` and `examples/rope_wired` again. Each layer has its projections,
the KV gather (278), decode and output projection, one task each; once wired, also the task that
applies RoPE to q (296), and the gather reads the tables too: 156 readers for 78 layers.
"""

from __future__ import annotations

from pathlib import Path

from .cuda import CURRENT
from .deepseek import DeepSeekSizes
from .graph import FLOAT32, INT64, Program
from .model import Model
from .operators import argmax, linear, split
from .tasks import KINDS

__all__ = ["EXAMPLES", "worked_example"]

EXAMPLES = Path(__file__).parents[2] / "examples"

_SIZES = DeepSeekSizes(
    hidden=256, heads=2, kv_lora=64, rope=64, vocab=256, batch=1, positions=64, splits=1
)


def worked_example(layers: int = 78) -> Model:
    """The wired model; `.without_rope()` is the defect."""
    return Model(_build, _SIZES, layers, dialect=CURRENT)


def _build(p: Program, m: Model) -> None:
    s: DeepSeekSizes = m.sizes
    width = s.kv_lora + s.rope
    token = p.host("input_token", s.batch, 1, dtype=INT64)
    embed_tokens = p.host("embed_tokens", s.vocab, s.hidden)
    stream = p.scratch("embed_out", s.batch, s.hidden)
    q = p.scratch("q_nope_pe", s.batch, s.heads * width)
    latent = p.scratch("c_latent_out", s.batch, s.kv_lora)
    k_pe = p.scratch("k_pe_out", s.batch, s.rope)
    contiguous = p.scratch("contiguous_kv", s.positions, width)
    partial_o = p.scratch("mla_partial_o", s.splits, s.heads * s.kv_lora)
    partial_lse = p.scratch("mla_partial_lse", s.splits, s.heads, dtype=FLOAT32)
    attn_out = p.scratch("attn_out", s.batch, s.heads * s.kv_lora)
    p.scratch("argmax_part_value", s.batch, 1)
    p.scratch("argmax_part_index", s.batch, 1, dtype=INT64)
    tables = [p.host(name, s.positions, s.rope) for name in m.rope_names]

    p.run("EMBEDDING", (1,), [token.whole, embed_tokens.whole], [stream.whole])
    gather = KINDS["MLA_KV_GATHER_SM100"].body
    for layer in range(m.layers):
        wired = [] if layer in m.no_rope else [table.whole for table in tables]
        for part, out in (("q_proj", q), ("kv_a_latent", latent), ("kv_a_rope", k_pe)):
            weight = p.host(m.weight(layer, part), out.shape[1], s.hidden)
            linear(p, "LINEAR_SM100", 1, stream, weight.whole, out)
        if wired:
            p.run("MLA_ROPE_Q_SM100", (1,), [q.whole, *wired], [q.whole])
        cache = p.host(m.weight(layer, "kv_cache"), 1, s.positions, width)
        operands = [latent.whole, k_pe.whole, cache.whole, contiguous.whole, *wired]
        body = gather + " i4 i5" * bool(wired)
        p.run("MLA_KV_GATHER_SM100", (1,), operands, body=body)
        partials = [partial_o.whole, partial_lse.whole]
        p.run("MLA_MTP_DECODE_SM100", (1,), [q.whole, contiguous.whole], partials, metadata=split)
        p.run("MLA_MTP_REDUCE_SM100", (1,), partials, [attn_out.whole], metadata=split)
        o_proj = p.host(m.weight(layer, "o_proj"), s.hidden, attn_out.shape[1])
        p.run(
            "LINEAR_WITH_RESIDUAL_SM100",
            (1,),
            [attn_out.whole, o_proj.whole, stream.whole],
            [stream.whole],
        )
    lm_head = p.host("lm_head", s.vocab, s.hidden)
    logits = p.scratch("lm_head_out", s.batch, s.vocab)
    output = p.host("output_token", s.batch, 1, dtype=INT64)
    linear(p, "LINEAR_SM100", 1, stream, lm_head.whole, logits)
    argmax(p, "ARGMAX_PARTIAL_SM100", "ARGMAX_REDUCE_SM100", 1, logits, output)


def write(folder: Path = EXAMPLES) -> None:
    """Write both examples into `folder`."""
    wired = worked_example()
    for name, model in (("rope_unwired", wired.without_rope()), ("rope_wired", wired)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        model.write(folder / name)


if __name__ == "__main__":
    write()
