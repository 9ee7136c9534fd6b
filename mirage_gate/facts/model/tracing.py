"""Where the values of a program come from, through all that changes none of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from mirage_gate.facts.words import ADD, ALL_REDUCE, MERGE, PARTS, QUANTIZE

if TYPE_CHECKING:
    from mirage_gate.facts.model.operands import Operands
    from mirage_gate.facts.plan import Atom, Operand, Step

Value = tuple[int, int]
"""A step's number and its result's."""

COPY = "copy"
MOST_SUMMANDS = 64


class Tracing:
    """The steps of a program, followed back."""

    def __init__(self, steps: Sequence[Step], operands: Operands) -> None:
        self.steps = steps
        self.operands = operands

    def whole(self, number: int) -> Step:
        """A step; of one in two halves that others read between, what the first takes."""
        step = self.steps[number]
        if step.operator.endswith(MERGE) and step.operands:
            first = self.source(step.operands[0])
            if first is not None and self.steps[first].operator.endswith(PARTS):
                return self.steps[first]
        return step

    def same(self, operand: Operand) -> bool:
        """Whether values and scales are of two steps that quantize the same."""
        steps = {a.step if not a.before else -1 for a in (*operand.atoms, *operand.scales)}
        seen = {(self.steps[n].operator, self.steps[n].operands) for n in steps if n >= 0}
        return -1 not in steps and len(seen) == 1 and next(iter(seen))[0] == QUANTIZE

    def source(self, operand: Operand) -> int | None:
        """The step that an operand comes from first, if it is no tensor of the host's."""
        return next((a.step for a in operand.atoms if not a.name and a.step >= 0), None)

    def rotates(self, number: int) -> bool:
        """Whether a step rotates a value by tables: it is called so, or does nothing else."""
        step = self.steps[number]
        tables = sum(self.operands.is_table(operand) for operand in step.operands)
        values = sum(any(not a.name for a in operand.atoms) for operand in step.operands)
        named = "rope" in step.operator or "rotary" in step.operator
        return tables >= 1 and values >= 1 and (named or step.operator.startswith("task_type"))

    def peel(self, atom: Atom) -> tuple[Value, bool]:
        """Look through what changes no value; and whether a rotation was on the way."""
        value, rotated = (atom.step, atom.result), False
        for _ in range(MOST_SUMMANDS):
            step = self.steps[value[0]]
            if step.operator in (QUANTIZE, COPY) and not step.added:
                source = step.operands[0] if step.operands else None
            elif self.rotates(value[0]) and not step.added:
                source = next((o for o in step.operands if o.atoms and not o.atoms[0].name), None)
                rotated = True
            else:
                break
            if source is None or len(source.atoms) != 1 or source.atoms[0].name:
                break
            value = (source.atoms[0].step, source.atoms[0].result)
        return value, rotated

    def called(self, value: Value) -> str:
        """A value in words: what gives it."""
        step = self.steps[value[0]]
        weight = next((self.operands.shown(o) for o in step.operands if self._parameter(o)), "")
        where = "" if step.layer is None else f" of layer {step.layer}"
        return f"{step.operator}({weight or '…'}){where}"

    @staticmethod
    def _parameter(operand: Operand) -> bool:
        return bool(operand.atoms) and bool(operand.atoms[0].name)

    def maker(self, number: int) -> int:
        """The step behind a sum over the ranks: what a message should show."""
        for _ in range(MOST_SUMMANDS):
            step = self.steps[number]
            source = step.operands[0].atoms if step.operands else ()
            if step.operator not in (ALL_REDUCE, COPY) or len(source) != 1 or source[0].name:
                break
            number = source[0].step
        return number

    def flat(
        self, value: Value, streams: Collection[set[Value]], summed: int = 0, depth: int = 0
    ) -> Iterator[tuple[Value, int]]:
        """What a value is the sum of, each with how often it was summed over the ranks.

        A value of ``streams`` is not taken apart.
        """
        if depth and any(value in ids for ids in streams):
            yield value, summed
            return
        step = self.steps[value[0]]
        if depth > MOST_SUMMANDS:
            yield value, summed
            return
        inside: tuple[Operand, ...] = ()
        if step.operator == ADD:
            inside = step.operands
        elif step.operator == ALL_REDUCE:
            inside, summed = step.operands[:1], summed + 1
        elif step.operator in (COPY, QUANTIZE):
            inside = step.operands[:1]
        else:
            yield value, summed
        for operand in (*inside, *step.added):
            for atom in operand.atoms:
                if atom.name or atom.before:
                    yield (atom.step if atom.step >= 0 else value[0], -1), summed
                else:
                    yield from self.flat((atom.step, atom.result), streams, summed, depth + 1)
