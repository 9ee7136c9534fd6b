"""MG204 shuffle-gap."""

from __future__ import annotations

from typing import Any

from tests.emitter import Pair, qwen3, qwen3_ampere
from tests.rules import fires, silent


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


@silent("MG204")
def test_copies_that_interleave_rows() -> Pair:
    return qwen3(2).emit()
