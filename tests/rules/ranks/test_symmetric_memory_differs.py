"""MG602 symmetric-memory-differs."""

from __future__ import annotations

from tests.emitter import Pair
from tests.rules import Expect, fires, silent

from ._shared import TP2, TP4


@fires(
    "MG602",
    rank=3,
    tensor="all_reduce_buf",
    cuda='all_tensors["all_reduce_buf"]',
    once=True,
)
def test_symmetric_memory_of_another_size() -> Expect:
    ranks = TP4.emit_all()
    size = ranks[0].declaration("all_reduce_buf").nbytes
    ranks[3].declaration("all_reduce_buf").nbytes *= 2
    says = f"all_reduce_buf ({2 * size} bytes), of rank 0 all_reduce_buf ({size} bytes)"
    return Expect(ranks, says=(says,))


def _exchanged(storage: str) -> tuple[list[Pair], str]:
    """The first two tensors of a kind of memory change places on rank 1; the first one then."""
    ranks = TP2.emit_all()
    declared = ranks[1].declarations
    one, other = [i for i, d in enumerate(declared) if d.storage == storage][:2]
    declared[one], declared[other] = declared[other], declared[one]
    return ranks, declared[one].name


@fires("MG602", rank=1, once=True)
def test_symmetric_memory_in_another_order() -> Expect:
    ranks, first = _exchanged("symmetric")
    return Expect(
        ranks,
        cuda=f'all_tensors["{first}"]',
        says=(f"symmetric allocation 0 of rank 1 is {first}",),
    )


@silent("MG602")
def test_memory_of_a_ranks_own_in_another_order() -> list[Pair]:
    return _exchanged("scratch")[0]


@silent("MG602")
def test_symmetric_memory_of_another_size_on_all_ranks() -> list[Pair]:
    ranks = TP4.emit_all()
    for pair in ranks:
        pair.declaration("all_reduce_buf").nbytes *= 2
    return ranks
