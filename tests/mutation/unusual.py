"""Correct graphs that no demo of MPK has: the gate has nothing to say about them either.

A note is allowed, a warning is not, save for the one that is true of every DeepSeek graph: its
identical QUANTIZE_FP8 tasks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.emitter import (
    CURRENT,
    LITERAL,
    OLD,
    Model,
    Pair,
    deepseek_v3,
    qwen3,
    qwen3_ampere,
    qwen3_moe,
    shared,
    with_step,
    without_block,
)
from tests.emitter.graph import Program, Slot, Tensor
from tests.emitter.operators import argmax, linear, rms_norm
from tests.emitter.tasks import KINDS, KINDS_BY_CODE, TaskKind

from .defects_patterns import gated, windowed, with_local_tables
from .defects_stacks import SHARES, drafted
from .draft import Mutant
from .registry import unusual

FAMILIES: dict[str, Callable[[int], Model]] = {
    "hopper": qwen3,
    "ampere": lambda n: qwen3(n, arch="ampere"),
    "blackwell": lambda n: qwen3(n, arch="blackwell"),
    "split-kv": lambda n: qwen3(n, split_kv=True),
    "fused": lambda n: qwen3_ampere(n, shuffled=(1,) if n > 1 else ()),
    "moe": qwen3_moe,
    "tp2": lambda n: qwen3(n, ranks=2),
    "tp4": lambda n: qwen3(n, ranks=4, collective="allgather"),
}


def _one(pair: Pair, what: str, **rest: Any) -> Mutant:
    return Mutant(pair.cuda_text(), pair.json_text(), what=what, **rest)


def _all(model: Model, what: str) -> Mutant:
    """All ranks' files."""
    files: dict[str, str | bytes] = {}
    for pair in model.emit_all():
        files[f"kernel_{pair.rank}.cu"] = pair.cuda_text()
        files[f"task_graph_{pair.rank}.json"] = pair.json_text()
    return Mutant("", "", what=what, files=files)


@unusual
def other_numbers_of_layers(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """From one layer on; a first layer has no layer before it, a last one no layer after."""
    for name, family in FAMILIES.items():
        for layers in (1, 2, 3, 4, 7, 16):
            yield _all(family(layers), f"{name}, {layers} layers")
    yield _all(qwen3(80), "hopper, 80 layers")


@unusual
def other_deepseeks(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Dense layers first, in any number, then a mixture of experts."""
    for layers, dense in ((1, 1), (1, 0), (2, 1), (2, 2), (4, 3), (5, 0), (5, 1), (8, 3), (20, 3)):
        yield _one(
            deepseek_v3(layers, dense_layers=dense).emit(), f"{layers} layers, {dense} dense"
        )
    yield _all(deepseek_v3(5, dense_layers=1, ranks=8), "8 ranks")


@unusual
def other_sizes(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """One task per operator, many tasks per operator, one row, many rows, one head."""
    for tiles in (1, 2, 4, 16):
        sizes = {
            "qkv_tiles": tiles,
            "o_tiles": tiles,
            "gateup_tiles": 2 * tiles,
            "silu_tiles": tiles,
            "down_tiles": tiles,
            "lm_tiles": tiles,
        }
        yield _one(qwen3(4).sized(**sizes).emit(), f"{tiles} tiles per operator")
        for batch in (1, 2, 16):
            yield _one(qwen3(4).sized(batch=batch, **sizes).emit(), f"{tiles} tiles, {batch} rows")
    for heads, kv_heads in ((1, 1), (2, 1), (8, 8), (16, 2), (32, 16)):
        sizes = {"heads": heads, "kv_heads": kv_heads, "qkv_tiles": kv_heads, "head_dim": 16}
        yield _one(qwen3(4).sized(**sizes).emit(), f"{heads} heads, {kv_heads} for k and v")
    for splits in (1, 2, 8):
        yield _one(qwen3(4, split_kv=True, kv_splits=splits).emit(), f"{splits} KV chunks")
    for experts, topk, batch in ((4, 1, 1), (8, 8, 1), (64, 2, 4), (128, 8, 8)):
        sizes = {"experts": experts, "topk": topk, "batch": batch}
        yield _one(qwen3_moe(4).sized(**sizes).emit(), f"{experts} experts, {topk} of them used")


@unusual
def other_tensor_parallel_splits(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """The same model on other numbers of ranks, all of them or one alone."""
    for ranks in (2, 4, 8, 16):
        for collective in ("tile", "allgather"):
            model = qwen3(4, ranks=ranks, collective=collective).sized(
                heads=32, kv_heads=16, intermediate=512 * 16, qkv_tiles=4, head_dim=16
            )
            yield _all(model, f"{ranks} ranks, {collective}")
            yield _alone(model, rng.randrange(ranks))


def _alone(model: Model, rank: int) -> Mutant:
    pair = model.emit(rank)
    files: dict[str, str | bytes] = {
        f"kernel_{rank}.cu": pair.cuda_text(),
        f"task_graph_{rank}.json": pair.json_text(),
    }
    return Mutant("", "", what=f"rank {rank} of {model.ranks} alone", files=files)


@unusual
def other_dialects(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Every dialect of the `.cu`, over every family."""
    for name, family in FAMILIES.items():
        for dialect in (OLD, LITERAL):
            yield _one(family(3).written(dialect).emit(), f"{name}, {dialect}")
        for change in (
            {"tabs": True},
            {"bom": True},
            {"newline": "\r\n"},
            {"arrow": False},
            {"checked": False},
        ):
            yield _one(family(3).written(**change).emit(), f"{name}, {change}")


@unusual
def other_names(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Weights and tables under the names that other builders give them."""
    for weights in (
        "model_layers_{layer}_{part}",
        "layers_{layer}_self_attn_{part}",
        "decoder_layers_{layer}_{part}_weight",
        "blk_{layer}_{part}",
        "h{layer}_{part}",
        "{part}_{layer}",
        "L{layer}_{part}",
        "transformer_h_{layer}_{part}",
    ):
        for family in ("hopper", "fused", "moe", "tp2"):
            yield _all(FAMILIES[family](5).named(weights=weights), f"{family}, {weights}")
    for tables in (
        ("rope_cos", "rope_sin"),
        ("cos_pos_embed", "sin_pos_embed"),
        ("cos", "sin"),
        ("cos_cache", "sin_cache"),
        ("rotary_cos", "rotary_sin"),
        ("model_rope_cos_table", "model_rope_sin_table"),
    ):
        yield _one(qwen3(4).named(rope=tables).emit(), f"{tables}")


@unusual
def features_switched_off(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """A model without q and k norms; buffers that nobody uses."""
    for name in ("hopper", "ampere", "blackwell", "fused", "moe", "split-kv"):
        for layers in (1, 4):
            yield _one(FAMILIES[name](layers).without_qk_norm().emit(), f"{name}, no q and k norm")
    yield _one(qwen3(3).with_unused_scratch("rope_tmp", "lse2").emit(), "unused buffers")


@unusual
def unknown_task_types(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """A fork's own task type, without a header that names its code: a note."""
    for layers in (1, 4, 6):
        yield _one(deepseek_v3(layers).emit(), f"{layers} layers", header=False)
    pair = qwen3(4).emit()
    for task in pair.tasks(118):
        task["task_type"] = 777
    branch = pair.branch("TASK_SILU_MUL")
    branch.task = "TASK_GELU_TANH_MUL"
    yield _one(pair, "a fork's own activation")


@unusual
def several_requests(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Attention over a grid of requests: one descriptor, and the body picks rows by request_id."""
    for requests in (2, 4):
        for name in ("hopper", "ampere", "blackwell"):
            model = FAMILIES[name](4)
            build = _over_requests(model.options["arch"].attention, requests)
            yield _one(replace(model, build=build).emit(), f"{name}, {requests} requests")


def _over_requests(kind: str, requests: int) -> Callable[[Program, Model], None]:
    """Build Qwen3 with an attention whose grid has the requests as its first axis."""

    def build(p: Program, m: Model) -> None:
        run = p.run

        def spread(name: str, grid: Any, *args: Any, **rest: Any) -> None:
            run(name, (requests, *tuple(grid)[1:]) if name == kind else grid, *args, **rest)

        p.run = spread  # type: ignore[method-assign]
        qwen3(1).build(p, m)

    return build


@unusual
def shared_and_tied_tensors(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """One table for the embedding and the head; one norm for all layers; tables per layer."""
    pair = qwen3(4).emit()
    _rename_in_graph(pair, "lm_head", "embed_tokens")
    pair.declarations.remove(pair.declaration("lm_head"))
    yield _one(pair, "the head is the embedding's table")
    pair = qwen3(4).emit()
    for layer in range(1, 4):
        _rename_in_graph(pair, f"layer_{layer}_q_norm", "q_norm")
        pair.declarations.remove(pair.declaration(f"layer_{layer}_q_norm"))
    _rename_in_graph(pair, "layer_0_q_norm", "q_norm")
    pair.declaration("layer_0_q_norm").name = "q_norm"
    yield _one(pair, "one q norm for all layers")


def _rename_in_graph(pair: Pair, old: str, new: str) -> None:
    for task in pair.tasks():
        for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ())):
            if tensor["base_ptr"] == old:
                tensor["base_ptr"] = new


@unusual
def narrow_types(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Weights of 4 bits, whose tiles start at half of the bytes that 8 bits would need.

    Their kernels are other ones, which the emitter does not write: no call can be seen.
    """
    for code in (920, 925, 926, 930, 936):
        pair = qwen3(4).written(CURRENT, reduced=True).emit()
        shrink = 4 if code < 930 else 2
        for task in pair.tasks():
            for tensor in task["inputs"] or ():
                if tensor["base_ptr"].endswith(("o_proj", "down_proj", "lm_head")):
                    tensor["data_type"] = code
                    tensor["offset"] //= shrink
        yield _one(pair, f"weights of type {code}")


@unusual
def reshaped_views(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """One operator sees a buffer under other dims than the one that wrote it."""
    pair = qwen3(4).emit()
    for task in pair.tasks(156):
        tensor = task["inputs"][0]
        rows, width = tensor["dims"]
        tensor["dims"], tensor["strides"] = [rows, width // 32, 32], [width, 32, 1]
    yield _one(pair, "rows as heads")
    pair = qwen3(4).emit()
    for task in pair.tasks():
        for tensor in (*(task["inputs"] or ()), *(task["outputs"] or ())):
            if len(tensor["dims"]) == 2:
                tensor["dims"] = [1, 1, *tensor["dims"]]
                tensor["strides"] = [tensor["strides"][0] * 7, 1, *tensor["strides"]]
    yield _one(pair, "all tiles in four dims")
    pair = qwen3(4).emit()
    for task in pair.tasks(155):
        tensor = task["inputs"][0]
        rows, width = tensor["dims"]
        tensor["dims"], tensor["strides"] = [rows * width], [1]
    yield _one(pair, "activations in one dim")


@unusual
def several_first_tasks(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """The embedding cut into rows: every one of its tasks is a first task."""

    def build(p: Program, m: Model) -> None:
        run = p.run

        def by_rows(name: str, grid: Any, inputs: Any, outputs: Any = (), **rest: Any) -> None:
            if name == "EMBEDDING":
                rows = outputs[0].tensor.shape[0]
                inputs = [inputs[0].tensor.cut(x=0), inputs[1]]
                outputs, grid = [outputs[0].tensor.cut(x=0)], (rows,)
            run(name, grid, inputs, outputs, **rest)

        p.run = by_rows  # type: ignore[method-assign]
        qwen3(1).build(p, m)

    for batch in (2, 8, 96):
        model = replace(qwen3(3), build=build).sized(batch=batch)
        yield _one(model.emit(), f"{batch} first tasks")


SPLIT_K = TaskKind("SPLITK_LINEAR_SM100", 251, "ti1 ti0 o0")


@unusual
def other_operators(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Split-K accumulation, in-place steps, two buffers used in turns."""

    def build(p: Program, m: Model) -> None:
        KINDS.setdefault(SPLIT_K.name, SPLIT_K)
        KINDS_BY_CODE.setdefault(SPLIT_K.code, SPLIT_K)
        hidden, wide, batch = 128, 256, 4
        token = p.host("input_token", batch, 1, dtype=965)
        cos = p.host("rope_cos", 64, 32)
        table = p.host("embed_tokens", 256, hidden)
        turns = [p.scratch(f"stream_{i}", batch, hidden) for i in (0, 1)]
        normed = p.scratch("normed", batch, hidden)
        mid, act = p.scratch("mid", batch, 2 * wide), p.scratch("act", batch, wide)
        p.scratch("argmax_part_value", batch, 4)
        p.scratch("argmax_part_index", batch, 4, dtype=965)
        logits = p.scratch("logits", batch, 256)
        p.run("EMBEDDING", (1,), [token.whole, table.whole], [turns[0].whole])
        for layer in range(m.layers):
            here, there = turns[layer % 2], turns[(layer + 1) % 2]
            norm = p.host(m.weight(layer, "norm"), hidden)
            up = p.host(m.weight(layer, "up"), 2 * wide, hidden)
            down = p.host(m.weight(layer, "down"), hidden, wide)
            rms_norm(p, "RMS_NORM_HOPPER", here, norm, normed)
            p.run("MLA_ROPE_Q_SM100", (1,), [normed.whole, cos.whole, cos.whole], [normed.whole])
            linear(p, "LINEAR_SM100", 8, normed, up.cut(x=0), mid)
            p.run("SILU_MUL", (4,), [mid.cut(x=1)], [act.cut(x=1)])
            _zeroed(p, there, act)
            _split_k(p, act, down, there)
            p.run(
                "ELEMENTWISE_ADD_SM100", (batch,), [there.cut(x=0), here.cut(x=0)], [there.cut(x=0)]
            )
        stream = turns[m.layers % 2]
        head = p.host("lm_head", 256, hidden)
        out = p.host("output_token", batch, 1, dtype=965)
        linear(p, "LINEAR_SM100", 4, stream, head.cut(x=0), logits)
        argmax(p, "ARGMAX_PARTIAL_SM100", "ARGMAX_REDUCE_SM100", 4, logits, out)

    for layers in (1, 2, 5):
        model = replace(qwen3(layers), build=build)
        yield _one(model.emit(), f"{layers} layers of split-K, in place, in turns")


@unusual
def one_kernel_for_many_ends(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Biases and residuals added by one kernel; image features added in place, to some rows.

    And a buffer of which one kernel fills a part, and after that part was read the other.
    """

    def build(p: Program, m: Model) -> None:
        hidden, wide, batch = 128, 256, 8
        token = p.host("input_token", batch, 1, dtype=965)
        cos = p.host("rope_cos", 64, 32)
        table = p.host("embed_tokens", 256, hidden)
        image = p.host("image_features", 2, hidden)
        stream, kept = p.scratch("stream", batch, hidden), p.scratch("kept", batch, hidden)
        normed, out = p.scratch("normed", batch, hidden), p.scratch("out", batch, hidden)
        both = p.scratch("both", batch, 2 * wide)
        first = replace(both, shape=(batch, wide))
        act = p.scratch("act", batch, wide)
        p.scratch("argmax_part_value", batch, 4)
        p.scratch("argmax_part_index", batch, 4, dtype=965)
        logits = p.scratch("logits", batch, 256)

        def add(one: Slot, other: Slot, into: Slot, tasks: int = batch) -> None:
            p.run("ELEMENTWISE_ADD_SM100", (tasks,), [one, other], [into])

        p.run("EMBEDDING", (1,), [token.whole, table.whole], [stream.whole])
        for layer in range(m.layers):
            norm = p.host(m.weight(layer, "norm"), hidden)
            gate = p.host(m.weight(layer, "gate"), wide, hidden)
            up = p.host(m.weight(layer, "up"), wide, hidden)
            gate_bias = p.host(m.weight(layer, "gate_bias"), 1, wide)
            down = p.host(m.weight(layer, "down"), hidden, wide)
            bias = p.host(m.weight(layer, "bias"), 1, hidden)
            rms_norm(p, "RMS_NORM_HOPPER", stream, norm, normed)
            p.run("MLA_ROPE_Q_SM100", (1,), [normed.whole, cos.whole, cos.whole], [normed.whole])
            linear(p, "LINEAR_SM100", 4, normed, gate.cut(x=0), first)
            add(first.cut(x=0), gate_bias.whole, first.cut(x=0))
            rows = Slot(first, (1, -1, -1), offset=2 * wide)
            p.run("LINEAR_SM100", (4,), [normed.whole, up.cut(x=0)], [rows])
            p.run("SILU_MUL", (4,), [both.cut(x=1)], [act.cut(x=1)])
            linear(p, "LINEAR_SM100", 4, act, down.cut(x=0), out)
            add(out.cut(x=0), bias.whole, out.cut(x=0))
            add(stream.cut(x=0), out.cut(x=0), stream.cut(x=0))
            if layer == 0:
                rms_norm(p, "RMS_NORM_HOPPER", stream, p.host("kept_norm", hidden), kept)
                some = replace(stream, shape=(2, hidden))
                add(some.cut(x=0), image.cut(x=0), some.cut(x=0), tasks=2)
        add(stream.cut(x=0), kept.cut(x=0), out.cut(x=0))
        head = p.host("lm_head", 256, hidden)
        last = p.host("output_token", batch, 1, dtype=965)
        linear(p, "LINEAR_SM100", 4, out, head.cut(x=0), logits)
        argmax(p, "ARGMAX_PARTIAL_SM100", "ARGMAX_REDUCE_SM100", 4, logits, last)

    for layers in (2, 4):
        model = replace(qwen3(layers), build=build)
        yield _one(model.emit(), f"{layers} layers with biases and image features")


def _zeroed(p: Program, out: Tensor, before: Tensor) -> None:
    """Fill a buffer with zeros; the operator before it is waited for by way of a dummy."""
    p.run("TENSOR_INIT", (4,), [out.cut(x=0), before.cut(x=0)], [before.cut(x=0)])


def _split_k(p: Program, x: Tensor, weight: Tensor, out: Tensor) -> None:
    """Each y adds its share of the inner dimension to the same output tile."""
    p.run(SPLIT_K.name, (4, 2), [x.cut(y=1), weight.cut(x=0, y=1)], [out.cut(x=1)])


@unusual
def layers_that_alternate(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Every n-th layer has other tables, or none, or reads another layer's cache, by design."""
    for every in (2, 4):
        model = qwen3(12)
        for layer in range(every - 1, 12, every):
            model = model.without_rope(layer)
        yield _one(model.emit(), f"no positions in every {every}. layer")
        pair = qwen3(12).emit()
        table = pair.declaration("cos_position_embedding")
        pair.declarations.insert(0, replace(table, name="cos_position_embedding_local"))
        for layer in range(every - 1, 12, every):
            for task in pair.tasks(tensor=f"layer_{layer}_k_cache"):
                task["inputs"][5]["base_ptr"] = "cos_position_embedding_local"
        yield _one(pair, f"a local table in every {every}. layer")


@unusual
def tables_per_layer(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Each layer has rotary tables of its own."""
    for names in (("layer_{}_rope_cos", "layer_{}_rope_sin"), ("rope_cos_{}", "rope_sin_{}")):
        pair = qwen3(5).emit()
        for slot, (old, new) in enumerate(
            zip(("cos_position_embedding", "sin_position_embedding"), names, strict=True)
        ):
            table = pair.declaration(old)
            pair.declarations.remove(table)
            for layer in range(5):
                pair.declarations.insert(0, replace(table, name=new.format(layer)))
                for task in pair.tasks(tensor=f"layer_{layer}_k_cache"):
                    task["inputs"][5 + slot]["base_ptr"] = new.format(layer)
        yield _one(pair, f"{names}")


def _dumped(p: Program, layer: int, stream: Tensor) -> None:
    """A copy for the host."""
    dump = p.host(f"aux_hidden_{layer}", *stream.shape)
    p.run("IDENTITY", (stream.shape[0],), [stream.cut(x=0)], [dump.cut(x=0)])


def _features_added(p: Program, layer: int, stream: Tensor) -> None:
    """Image features, in place."""
    image = p.host(f"visual_features_{layer}", *stream.shape)
    whole = stream.cut(x=0)
    p.run("ELEMENTWISE_ADD_SM100", (stream.shape[0],), [whole, image.cut(x=0)], [whole])


def _of_the_first(p: Program, layer: int, stream: Tensor) -> None:
    """The first layer keeps what it computed, the others add it."""
    kept, whole = shared(p, "kept", *stream.shape), stream.cut(x=0)
    rows = (stream.shape[0],)
    if layer:
        p.run("ELEMENTWISE_ADD_SM100", rows, [whole, kept.cut(x=0)], [whole])
    else:
        p.run("IDENTITY", rows, [whole], [kept.cut(x=0)])


def _repeated(p: Program, layer: int, stream: Tensor) -> None:
    """One KV head is copied for four query heads."""
    one = shared(p, "kv_one", stream.shape[0], 32)
    four = shared(p, "kv_four", stream.shape[0], 128)
    whole = stream.cut(x=0)
    p.run("IDENTITY", (1,), [replace(stream, shape=one.shape).whole], [one.whole])
    p.run("IDENTITY", (4,), [one.whole], [four.cut(x=1)])
    p.run("ELEMENTWISE_ADD_SM100", (4,), [whole, four.cut(x=0)], [whole])


@unusual
def steps_to_the_side(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Copies of the stream, features added to it, in one layer, in some, or in all."""
    for layers in (4, 9, 16):
        for step in (_dumped, _features_added):
            for some in ([1], [0, 1, 2], [0, layers // 2, layers - 1], range(layers)):
                model = with_step(qwen3(layers), step, some)
                yield _one(model.emit(), f"{step.__doc__} layers {list(some)} of {layers}")
        for step in (_of_the_first, _repeated):
            model = with_step(qwen3(layers), step, range(layers))
            yield _one(model.emit(), f"{step.__doc__} {layers} layers")


@unusual
def patterns_of_layers(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """A window, or tables, in layers as published models choose them; the ends may differ."""
    for layers in (8, 12, 26, 36):
        fifths = [n for n in range(layers) if n % 6 == 5]
        choices = {
            "every second": range(0, layers, 2),
            "every sixth": fifths,
            "every sixth, first and last": [0, *fifths, layers - 1],
            "every fifth and the last": [*range(4, layers - 1, 5), layers - 1],
            "the lower half": range(layers // 2),
            "first, middle, last": [0, layers // 2, layers - 1],
            "the last": [layers - 1],
            "three in no pattern": rng.sample(range(layers), 3),
        }
        for what, some in choices.items():
            yield _one(windowed(qwen3(layers).emit(), some), f"a window in {what}, {layers} layers")
            yield _one(with_step(qwen3(layers), gated, some).emit(), f"a step in {what}, {layers}")
            norm = rng.choice(("input_layernorm", "post_attn_layernorm"))
            pair = without_block(qwen3(layers), some, norm).emit()
            yield _one(pair, f"no block of {norm} in {what}, {layers} layers")
            if len(some) > layers // 8:
                pair = with_local_tables(qwen3(layers).emit(), some)
                yield _one(pair, f"local tables in {what}, {layers} layers")


@unusual
def two_models_in_one_graph(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """A draft model and its target, in either order, of one width or two, also run again."""
    for first, second in ((1, 4), (1, 8), (2, 8), (3, 3), (4, 2), (8, 1), (8, 12)):
        for share in SHARES:
            model = drafted(qwen3(first), qwen3(second), share)
            yield _one(model.emit(), f"{first} and {second} layers, shared: {share}")
        narrow = qwen3(first, arch="ampere").sized(hidden=64, intermediate=192)
        for target in (qwen3(second), qwen3_moe(second), deepseek_v3(second + 2)):
            model = drafted(narrow, target, prefix="vision_tower_")
            yield _one(model.emit(), f"{first} narrow layers, then {second} of another kind")
        again = drafted(qwen3(first), drafted(qwen3(first), qwen3(second)))
        yield _one(again.emit(), f"{first} layers run twice, then {second}")


@unusual
def blocks_left_out(_: Any, rng: random.Random) -> Iterator[Mutant]:
    """Searched architectures: layers without attention, or without a feed-forward network."""
    for name in ("hopper", "ampere", "split-kv", "moe", "tp2", "fused"):
        for layers in (4, 16):
            for some in ([0], [layers // 2], [layers - 1], rng.sample(range(layers), 3)):
                for norm in ("input_layernorm", "post_attn_layernorm"):
                    model = without_block(FAMILIES[name](layers), some, norm)
                    yield _one(model.emit(), f"{name}, {norm} left out in {some} of {layers}")
