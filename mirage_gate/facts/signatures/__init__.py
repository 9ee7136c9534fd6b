"""Kernels as typed operators: what the slots of each task are to each other.

:class:`Signatures` reads a group's slots as its type's operator says
(:mod:`mirage_gate.facts.signatures.table`). Which tiles belong together is
:mod:`mirage_gate.facts.signatures.tiles`, what a variant was compiled for
:mod:`mirage_gate.facts.signatures.constants`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mirage_gate.facts.signatures.notation import Operand, Signature, signatures
from mirage_gate.facts.signatures.table import OPERATORS

if TYPE_CHECKING:
    from mirage_gate.artifacts.graph import Tensor
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.signatures.constants import Constants
    from mirage_gate.facts.signatures.tiles import Difference
    from mirage_gate.facts.wiring import Group

__all__ = ["Operand", "Signature", "Signatures"]


class Signatures:
    """The signature of each group of tasks."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self._readings: dict[int, tuple[Signature, ...]] = {}
        self._known: dict[tuple[int, int, tuple[int, ...]], Signature | None] = {}

    def readings(self, task_type: int) -> tuple[Signature, ...]:
        """Give every way to read a type's slots; none if nothing is known of it."""
        found = self._readings.get(task_type)
        if found is None:
            kind = self._facts.task_type(task_type)
            text = kind.operator or OPERATORS.get(kind.name, "")
            found = self._readings[task_type] = signatures(text) if text else ()
        return found

    def of(self, group: Group) -> Signature | None:
        """Give the reading that a group's slots fit, by their number and their dims.

        None fits a group with a ragged tile: MG504 says it.
        """
        if not self.ragged.isdisjoint(group.inputs + group.outputs):
            return None
        tensors = self._facts.graph.tensors
        ranks = tuple([len(tensors[n].dims) for n in group.inputs + group.outputs])
        key = (group.task_type, len(group.inputs), ranks)
        if key not in self._known:
            self._known[key] = next(
                (s for s in self.readings(group.task_type) if s.fits(ranks, len(group.inputs))),
                None,
            )
        return self._known[key]

    @cached_property
    def ragged(self) -> frozenset[int]:
        """The tiles that have not as many strides as dims."""
        tensors = self._facts.graph.tensors
        return frozenset(n for n, t in enumerate(tensors) if len(t.dims) != len(t.strides))

    def tensor(self, group: Group, operand: Operand) -> Tensor:
        """Give the tile that a group carries in a slot."""
        side = group.inputs if operand.is_input else group.outputs
        return self._facts.graph.tensors[side[operand.index]]

    def used(self, group: Group, operand: Operand) -> bool:
        """Whether the kernel of a group reads or writes a slot."""
        _, reads, writes = self._facts.wiring.use(group, operand.is_input, operand.index)
        return reads or writes

    @cached_property
    def differences(self) -> list[Difference]:
        """Every task whose slots carry tiles that do not belong together."""
        from mirage_gate.facts.signatures.tiles import Tiles

        return list(Tiles(self._facts).differences())

    @cached_property
    def constants(self) -> Constants:
        """What each variant was compiled for, against what its tasks carry."""
        from mirage_gate.facts.signatures.constants import Constants

        return Constants(self._facts)
