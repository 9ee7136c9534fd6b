"""Two plans compared: not by their text, but by what each statement computes.

A statement is known by its operator, by what its operands are computed by, and by its layer.
So names do not matter, nor in which order statements stand that do not take one another's
results.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from mirage_gate.facts.plan.program import Atom, Operand, Program, Step
from mirage_gate.facts.words import ADD, ALL_REDUCE


class Planned(msgspec.Struct, frozen=True):
    """A plan to hold a model to: the file that it is in, and its statements one by one.

    ``lines`` are the plan's text, a step's ``first`` is the line of its statement in it, and
    ``before`` is how many lines of the file stand in front of it.
    """

    path: str
    program: Program
    lines: tuple[str, ...]
    before: int = 0

    def line_of(self, number: int) -> str:
        """Give one statement as it is written, with its layer."""
        step = self.program.steps[number]
        text = self.lines[step.first - 1].partition("#")[0].strip()
        return text if step.layer is None else f"layer {step.layer}: {text}"


class Difference(msgspec.Struct, frozen=True):
    """The first statement in which two programs differ, by its number in each; None: no such."""

    meant: int | None
    found: int | None


def difference(meant: Program, found: Program, *, partial: bool = False) -> Difference | None:
    """Compare a program with what was meant; None where they are the same.

    ``partial``: it is of another rank, and leaves to the first one what is added to a sum
    over the ranks.
    """
    ids: dict[object, int] = {}
    wanted, there = _known(meant, ids, partial), _known(found, ids, partial)
    left = Counter(wanted)
    odd = None
    for number, key in enumerate(there):
        if left[key]:
            left[key] -= 1
        elif odd is None:
            odd = number
    missing = Counter(+left)
    lost = None
    for number, key in enumerate(wanted):
        if missing[key]:
            # Of several alike the last ones are missing; the first that differs is meant here.
            lost = number
            break
    if odd is None and lost is None:
        return None
    return Difference(lost, odd)


def _known(program: Program, ids: dict[object, int], partial: bool) -> list[int]:
    """Give each statement a number, the same for the same computation."""
    summed = _only_summed(program) if partial else set()
    known: list[int] = []
    for number, step in enumerate(program.steps):

        def of(atom: Atom, step: Step = step) -> object:
            if atom.name:
                layer = None if atom.layer == step.layer else atom.layer
                return (atom.name, layer, atom.before)
            if atom.before or atom.step >= len(known):
                other = program.steps[atom.step]
                return (other.operator, other.layer, atom.result)
            return (known[atom.step], atom.result)

        def term(operand: Operand) -> object:
            return (frozenset(map(of, operand.atoms)), frozenset(map(of, operand.scales)))

        operands: object = tuple(term(operand) for operand in step.operands)
        added: object = frozenset(Counter(term(operand) for operand in step.added).items())
        if step.operator == ADD:
            operands = frozenset(Counter(term(operand) for operand in step.operands).items())
        if number in summed:
            added = frozenset()
        key = (step.operator, operands, added, step.layer)
        known.append(ids.setdefault(key, len(ids)))
    return known


def _only_summed(program: Program) -> set[int]:
    """The statements whose result only a sum over the ranks takes."""
    takers: dict[int, set[str]] = {}
    for step in program.steps:
        for operand in step.sees:
            for atom in operand.atoms:
                if atom.step >= 0:
                    takers.setdefault(atom.step, set()).add(step.operator)
    return {number for number, taken in takers.items() if taken == {ALL_REDUCE}}
