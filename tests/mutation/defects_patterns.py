"""One layer against the pattern of all the others. Models of their own: a pattern needs layers."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from mirage_gate.artifacts import model
from tests.emitter import (
    Model,
    Pair,
    qwen3,
    qwen3_ampere,
    qwen3_moe,
    shared,
    with_step,
    without_block,
)
from tests.emitter.graph import Program, Tensor
from tests.emitter.operators import rms_norm
from tests.model_of import config_of

from .draft import Mutant
from .registry import defect, mixed
from .subject import Subject

_COS, _SIN = "cos_position_embedding", "sin_position_embedding"
_PATTERNS = ((16, 2, 1), (24, 4, 3), (36, 6, 5))
"""How many layers, and every how many of them, from which one, is of the other kind."""


def windowed(pair: Pair, layers: Collection[int]) -> Pair:
    """Some layers run another variant of attention."""
    branch = copy.copy(pair.branch("TASK_PAGED_ATTENTION_HOPPER"))
    branch.variant = 1
    pair.branches.append(branch)
    for layer in layers:
        for task in pair.tasks(tensor=f"layer_{layer}_k_cache"):
            task["variant_id"] = 1
    return pair


def with_local_tables(pair: Pair, layers: Collection[int]) -> Pair:
    """Some layers read rotary tables of their own."""
    for table in (_COS, _SIN):
        pair.declarations.insert(0, replace(pair.declaration(table), name=f"{table}_local"))
    for layer in set(layers):
        for task in pair.tasks(tensor=f"layer_{layer}_k_cache"):
            for tensor in task["inputs"][5:7]:
                tensor["base_ptr"] += "_local"
    return pair


def _holes(rng: random.Random) -> Iterator[tuple[int, list[int], int]]:
    """How many layers, those of the other kind with one hole, and the one that is wrong."""
    for layers, every, first in mixed(rng, _PATTERNS):
        other = list(range(first, layers, every))
        for layer in mixed(rng, range(1, layers - 1)):
            if layer not in other:
                yield layers, sorted([*other, layer]), layer
            elif len(other) > 4:
                yield layers, [n for n in other if n != layer], layer


@defect("MG706")
def variant_against_the_pattern(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A window in every n-th layer, but in one more, or in one less; or in one layer alone."""
    if subject.name != "qwen3":
        return
    for layers, other, layer in _holes(rng):
        yield Mutant.of(
            windowed(qwen3(layers).emit(), other), f"layer {layer} of {layers}: {other}"
        )
        yield Mutant.of(windowed(qwen3(layers).emit(), [layer]), f"layer {layer} of {layers} alone")


@defect("MG702")
def tables_against_the_pattern(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """Local tables in every n-th layer, but in one more, or in one less."""
    if subject.name != "qwen3":
        return
    for layers, other, layer in _holes(rng):
        pair = with_local_tables(qwen3(layers).emit(), other)
        yield Mutant.of(pair, f"layer {layer} of {layers}: {other}")


@defect("MG702")
def tables_of_two_pairs(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """One layer takes cos of one pair and sin of the other; in no pattern are layers local."""
    if subject.name != "qwen3":
        return
    for layers in (8, 12, 20):
        local = sorted(rng.sample(range(layers), layers // 2))
        for layer in mixed(rng, range(layers)):
            pair = with_local_tables(qwen3(layers).emit(), local)
            for task in pair.tasks(tensor=f"layer_{layer}_k_cache"):
                name = _COS if layer in local else f"{_COS}_local"
                task["inputs"][5]["base_ptr"] = name
            yield Mutant.of(pair, f"layer {layer} of {layers}, local: {local}")


@defect("MG701")
def positions_against_the_pattern(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """No positions in every n-th layer, but in one more, or in one less."""
    if subject.name != "qwen3":
        return
    for layers, other, layer in _holes(rng):
        pair = qwen3(layers).without_rope(other).emit()
        yield Mutant.of(pair, f"layer {layer} of {layers}: {other}")


@defect("MG701")
def class_against_the_pattern(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """No attention, or no feed-forward network, in every n-th layer, but in one more, or less."""
    if subject.name != "qwen3":
        return
    for layers, other, layer in _holes(rng):
        norm = rng.choice(_NORMS)
        pair = without_block(qwen3(layers), other, norm).emit()
        yield Mutant.of(pair, f"layer {layer} of {layers}: {other} without the block of {norm}")


@defect("MG701")
def step_against_the_pattern(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A step of its own in every n-th layer, but in one more, or in one less."""
    if subject.name != "qwen3":
        return
    for layers, other, layer in _holes(rng):
        pair = with_step(qwen3(layers), gated, other).emit()
        yield Mutant.of(pair, f"layer {layer} of {layers}: {other}")


def gated(p: Program, layer: int, stream: Tensor) -> None:
    """Two operators, one with a weight of the layer's own."""
    weight, scale = (
        p.host(f"layer_{layer}_gate", stream.shape[1]),
        shared(p, "gated", *stream.shape),
    )
    rms_norm(p, "RMS_NORM_HOPPER", stream, weight, scale)
    rows = (stream.shape[0],)
    p.run("ELEMENTWISE_ADD_SM100", rows, [stream.cut(x=0), scale.cut(x=0)], [stream.cut(x=0)])


_NORMS = ("input_layernorm", "post_attn_layernorm")


@defect("MG005")
def block_lost_that_the_model_has(subject: Subject, rng: random.Random) -> Iterator[Mutant]:
    """A layer has no attention, or no feed-forward network, and no weights for it."""
    families: dict[str, tuple[str, Callable[[int], Model]]] = {
        "qwen3": ("qwen3", qwen3),
        "qwen3-moe": ("qwen3_moe", qwen3_moe),
        "qwen3-fused": ("qwen3", lambda n: qwen3_ampere(n, shuffled=())),
    }
    if subject.name not in families:
        return
    kind, family = families[subject.name]
    for layers, norm in mixed(rng, [(n, norm) for n in (4, 16, 36) for norm in _NORMS]):
        layer = rng.randrange(layers)
        pair = without_block(family(layers), [layer], norm).emit()
        what = f"layer {layer} of {layers} without the block of {norm}"
        told = _meant(family(layers), kind)
        yield Mutant(pair.cuda_text(), pair.json_text(), what=what, model=told)


def _meant(emitted: Model, kind: str) -> model.ModelConfig:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.json")
        file.write_text(json.dumps(config_of(emitted, kind)))
        return model.read(str(file))
