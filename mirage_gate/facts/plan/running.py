"""A plan that was read, run: every name resolved to the statement that gave it.

As the text says it: statement by statement, and layers in ascending order where their blocks
are those of classes, else block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mirage_gate.facts.plan.notation import NONE, Block, Plan, Statement
from mirage_gate.facts.plan.program import Atom, Operand, Program, Result, Step
from mirage_gate.facts.words import QUANTIZE

MOST_STEPS = 1_000_000


class TooLong(Exception):
    """A plan whose layers are too many to run."""


def program_in(plan: Plan) -> Program:
    """Run a plan. Raises :class:`TooLong`."""
    if sum(max(1, len(block.layers)) * len(block.statements) for block in plan.blocks) > MOST_STEPS:
        raise TooLong(f"its layers have more than {MOST_STEPS:,} statements")
    return _Runner().run(plan)


class _Runner:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.holder: dict[str, tuple[int, int]] = {}
        # What each name was last given in each place: a layer, or a word such as `start`.
        self.given: dict[tuple[str, str], tuple[int, int]] = {}
        self.late: list[tuple[int, bool, int]] = []

    def run(self, plan: Plan) -> Program:
        last = ""
        for layer, statements in _in_order(plan.blocks):
            address = str(layer) if layer is not None else f"after{last}" if last else "start"
            last = address if layer is not None else last
            for statement in statements:
                self._step(statement, layer, address)
        return Program(tuple(self._with_the_end()))

    def _step(self, statement: Statement, layer: int | None, address: str) -> None:
        number = len(self.steps)
        names = [_bare(name) for name in statement.results]
        own = statement.operator == QUANTIZE and len(names) == 1
        self.steps.append(
            Step(
                operator=statement.operator,
                operands=tuple(self._operand(term, layer) for term in statement.operands),
                added=tuple(self._operand(term, layer) for term in statement.added),
                results=tuple(Result() for _ in range(len(names) + own)),
                own=frozenset({1}) if own else frozenset(),
                layer=layer,
                first=statement.line,
            )
        )
        for result, name in enumerate(names):
            self.holder[name] = self.given[name, address] = (number, result)

    def _operand(self, term: str, layer: int | None) -> Operand:
        if term == NONE:
            return Operand()
        parts = term[1:-1].split(", ") if term.startswith("{") else [term]
        atoms: list[Atom] = []
        scales: list[Atom] = []
        for part in parts:
            value, scale = _pair(part)
            atoms.append(self._atom(value, layer))
            if scale:
                scales.append(self._scale(self._atom(scale, layer)))
        return Operand(tuple(sorted(atoms, key=_key)), tuple(sorted(scales, key=_key)))

    def _atom(self, text: str, layer: int | None) -> Atom:
        quoted, _, where = text.rpartition("@") if _has_place(text) else (text, "", "")
        name = _bare(quoted)
        if not where:
            at = self.holder.get(name)
            return Atom(name=name) if at is None else Atom(*at)
        if where == "before":
            return Atom(name=name, before=True)
        if where[0] in "+-":
            where = str((layer or 0) + int(where))
        at = self.given.get((name, where))
        if at is not None:
            return Atom(*at)
        return Atom(name=name, layer=int(where) if where.isdigit() else None)

    def _scale(self, atom: Atom) -> Atom:
        if atom.step >= 0 and atom.result + 1 in self.steps[atom.step].own:
            return Atom(atom.step, atom.result + 1)
        return atom

    def _with_the_end(self) -> Iterator[Step]:
        """Say of what the iteration before has left which step leaves it."""
        from msgspec.structs import replace

        def end(atom: Atom) -> Atom:
            at = self.holder.get(atom.name) if atom.before else None
            return atom if at is None else Atom(*at, before=True)

        def ended(operand: Operand) -> Operand:
            return Operand(tuple(map(end, operand.atoms)), tuple(map(end, operand.scales)))

        for step in self.steps:
            if any(atom.before for operand in step.sees for atom in operand.atoms):
                yield replace(
                    step,
                    operands=tuple(map(ended, step.operands)),
                    added=tuple(map(ended, step.added)),
                )
            else:
                yield step


def _in_order(blocks: Sequence[Block]) -> Iterator[tuple[int | None, tuple[Statement, ...]]]:
    at = 0
    while at < len(blocks):
        if not blocks[at].layers:
            yield None, blocks[at].statements
            at += 1
            continue
        end = at
        while end < len(blocks) and blocks[end].layers:
            end += 1
        region = blocks[at:end]
        runs = [(layer, block.statements) for block in region for layer in block.layers]
        if are_classes([block.layers for block in region]):
            runs.sort(key=lambda run: run[0])
        yield from runs
        at = end


def are_classes(layers: Sequence[Sequence[int]]) -> bool:
    """Whether blocks are classes of layers that run in ascending order."""
    every = [n for numbers in layers for n in numbers]
    return (
        len(set(every)) == len(every)
        and all(a < b for numbers in layers for a, b in pairwise(numbers))
        and all(a[0] < b[0] for a, b in pairwise(layers))
    )


def _key(atom: Atom) -> tuple[int, int, str, int]:
    return atom.step, atom.result, atom.name, -1 if atom.layer is None else atom.layer


def _bare(text: str) -> str:
    if not text.startswith('"'):
        return text
    return text[1:-1].replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def _has_place(text: str) -> bool:
    return "@" in text.rpartition('"')[2]


def _pair(text: str) -> tuple[str, str]:
    """Divide a value from its scales, at a colon outside of quotes."""
    quoted = False
    for at, mark in enumerate(text):
        if mark == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif mark == ":" and not quoted:
            return text[:at], text[at + 1 :]
    return text, ""
