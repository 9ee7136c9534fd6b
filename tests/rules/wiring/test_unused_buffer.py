"""MG103 unused-buffer."""

from __future__ import annotations

from mirage_gate.findings import Severity
from tests.emitter import Pair, qwen3, qwen3_ampere
from tests.rules import fires, silent


@fires("MG103", Severity.NOTE, cuda='all_tensors["spare"]')
def test_a_buffer_for_another_configuration() -> Pair:
    return qwen3(2).with_unused_scratch("spare").emit()


@silent("MG103")
def test_the_sentinel_without_a_user() -> Pair:
    return qwen3_ampere(1).emit()
