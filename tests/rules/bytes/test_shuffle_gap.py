"""MG204 shuffle-gap."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emitter import CURRENT, LITERAL, Dialect, Pair, qwen3, qwen3_ampere
from tests.emitter.graph import Copy
from tests.rules import fires, silent, with_text


def _shuffled(change: str) -> Pair:
    pair = qwen3_ampere(2, shuffled=(1,)).emit()
    copies = pair.declaration("layer_1_gatedup_proj").copies
    changed = copies[1]
    for field, value in _COPY[change](changed).items():
        object.__setattr__(changed, field, value)
    return pair


_COPY: dict[str, Any] = {
    "short": lambda copy: {"width": copy.width - 256},
    "moved": lambda copy: {"offset": copy.offset - 256},
}


@fires("MG204", cuda='all_tensors["layer_1_gatedup_proj"]', says=("filled by no copy",))
def test_a_copy_that_is_too_short() -> Pair:
    return _shuffled("short")


@fires("MG204", cuda='all_tensors["layer_1_gatedup_proj"]', says=("filled twice",))
def test_a_copy_over_the_one_before() -> Pair:
    return _shuffled("moved")


def _relaid(pair: Pair, part: str, order: tuple[int, ...], turns: int = 0) -> Pair:
    """A pair whose shuffled weights of one part have their copies in another order or turns."""
    for declaration in pair.declarations:
        if not declaration.name.endswith(part):
            continue
        at, copies = 0, []
        for number in order:
            copy = declaration.copies[number]
            height = turns or copy.height
            whole = copy.width * copy.height
            pitch = declaration.nbytes // height
            copies.append(Copy(copy.name, at, pitch, whole // height, height))
            at += whole // height
        declaration.copies = copies
    return pair


@pytest.mark.parametrize("dialect", [CURRENT, LITERAL])
@fires("MG204", cuda='all_tensors["layer_1_qkv_proj"]', says=("take turns of", "one KV head"))
def test_q_k_v_one_behind_the_other(dialect: Dialect) -> Pair:
    return _relaid(qwen3(2).written(dialect).emit(), "qkv_proj", (0, 1, 2), turns=1)


@fires("MG204", cuda='all_tensors["layer_0_gatedup_proj"]', says=("take turns of", "one tile"))
def test_gate_and_up_in_two_halves() -> Pair:
    return _relaid(qwen3(2).emit(), "gatedup_proj", (0, 1), turns=1)


@fires("MG204", cuda='all_tensors["layer_0_gatedup_proj"]', says=("take turns of",))
def test_gate_and_up_in_finer_turns() -> Pair:
    return _relaid(qwen3(2).emit(), "gatedup_proj", (0, 1), turns=8)


@fires("MG204", cuda='all_tensors["layer_1_gatedup_proj"]', says=("lie as up, gate",))
def test_up_before_gate_in_every_layer() -> Pair:
    return _relaid(qwen3(2).emit(), "gatedup_proj", (1, 0))


@fires("MG204", cuda='all_tensors["layer_0_qkv_proj"]', says=("lie as q, v, k",))
def test_v_before_k_in_every_layer() -> Pair:
    return _relaid(qwen3(2, split_kv=True).emit(), "qkv_proj", (0, 2, 1))


@fires("MG204", cuda='all_tensors["layer_0_qkv_proj"]', says=("bytes a turn",))
def test_k_before_q() -> Pair:
    return _relaid(qwen3(2).emit(), "qkv_proj", (1, 0, 2))


@fires("MG204", cuda='all_tensors["layer_1_gatedup_proj"]', says=("lie as up, gate",))
def test_up_before_gate_in_a_fused_kernels_weight() -> Pair:
    return _relaid(qwen3_ampere(2, shuffled=(1,)).emit(), "gatedup_proj", (1, 0))


@fires("MG204", cuda='all_tensors["layer_0_gatedup_proj"]', says=("is copied 2 times",), once=True)
def test_one_source_twice() -> Pair:
    pair = qwen3(2).emit()
    gate, up = pair.declaration("layer_0_gatedup_proj").copies
    object.__setattr__(up, "name", gate.name)
    return pair


@fires("MG204", cuda='all_tensors["layer_2_gatedup_proj"]', says=("lie otherwise",), once=True)
def test_one_layer_unlike_its_siblings() -> Pair:
    pair = qwen3(4).emit()
    for declaration in pair.declarations:
        for copy in declaration.copies:
            if "gatedup" in declaration.name:
                name = copy.name.replace("gate", "a").replace("up", "b")
                object.__setattr__(copy, "name", name)
    one, other = pair.declaration("layer_2_gatedup_proj").copies
    names = one.name, other.name
    for copy, name in zip((other, one), names, strict=True):
        object.__setattr__(copy, "name", name)
    return pair


@fires("MG204", cuda='all_tensors["layer_1_qkv_proj"]', says=("leaves out 64 bytes",))
def test_rows_of_a_source_that_are_longer_than_what_is_taken() -> Pair:
    pair = qwen3(2).emit()
    copy = pair.declaration("layer_1_qkv_proj").copies[0]
    there = f'at("{copy.name}"), '
    text = pair.cuda_text()
    longer = text.replace(f"{there}{copy.width}, ", f"{there}{copy.width + 64}, ")
    return with_text(pair, longer)


@silent("MG204")
def test_copies_that_interleave_rows() -> Pair:
    return qwen3(2).emit()


@silent("MG204")
def test_parts_of_unknown_names_as_they_are_read() -> Pair:
    pair = qwen3(3).emit()
    for declaration in pair.declarations:
        for number, copy in enumerate(declaration.copies):
            object.__setattr__(copy, "name", f"{declaration.name}_part_{number}")
    return pair


@silent("MG204")
def test_one_kv_head_alone_has_no_turns() -> Pair:
    return _relaid(qwen3(2, kv_heads=1, heads=2, qkv_tiles=8).emit(), "qkv_proj", (0, 1, 2), 1)


@silent("MG204")
def test_halves_where_one_task_takes_them_all() -> Pair:
    return qwen3_ampere(3, shuffled=(0, 1, 2)).emit()
