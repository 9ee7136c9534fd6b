"""The graph's program against an architecture: statement by statement, value by value.

A statement of the architecture is looked for in its layer by the weights that it takes; then every
operand has to be the very value that the statements before it give. So what matches is proven
for all that follows, whatever else the layer computes beside it. Quantizing, copying and summing
over the ranks are looked through, and a sum of several values has no order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.facts.model.architecture import Architecture, Rule, Term, Wanted, architecture_of
from mirage_gate.facts.model.operands import Operands
from mirage_gate.facts.model.tracing import COPY, MOST_SUMMANDS, Tracing, Value
from mirage_gate.facts.words import ADD, ALL_REDUCE, MERGE, PARTS, QUANTIZE

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.plan import Operand


class Mismatch(msgspec.Struct, frozen=True):
    """Where a layer leaves its architecture first.

    ``should`` is the statement as it should be, ``step`` the number of the one that is there,
    None if there is none like it. ``why`` says in words what is another. ``certain``: no operator
    that has no word here is a part of it. ``instead``: what stands for a value all the same, so
    that the comparison can go on. ``absent``: no operator of the layer takes the statement's
    weight, so that there is nothing to compare.
    """

    layer: int | None
    should: str
    step: int | None
    why: str
    certain: bool = True
    instead: tuple[str, Value] | None = None
    absent: bool = False


class _Known(msgspec.Struct):
    """A value of the architecture: the graph's values that are it, or what it is the sum of.

    ``share`` is how many of its weight's columns this rank has, and of how many; None if that is
    not known. ``text`` is the statement that gives it.
    """

    ids: set[Value]
    terms: tuple[Term, ...] = ()
    share: tuple[int, int] | None = None
    stream: bool = False
    text: str = ""


class _Fault(msgspec.Struct, frozen=True):
    """What is another about an operand.

    ``culprit`` is the step whose value it takes instead. ``sum_of`` is the text of a sum that is
    another, where the statement itself takes the right value: ``instead`` names it.
    """

    why: str
    culprit: int | None = None
    sum_of: str = ""
    unclear: bool = False
    instead: tuple[str, Value] | None = None


class Dataflow:
    """The program of a rank, compared with the architecture of the model that it is meant to be."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts
        self.steps = facts.program.steps
        self._operands = Operands(facts)
        self._trace = Tracing(self.steps, self._operands)
        self._env: dict[str, _Known] = {}

    @cached_property
    def architecture(self) -> Architecture | None:
        """The architecture of the model's type, if it is known here."""
        model = self._facts.options.model
        return None if model is None else architecture_of(model.model_type)

    @cached_property
    def _by_layer(self) -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = {}
        for number in range(len(self.steps)):
            found.setdefault(self._layer(number), []).append(number)
        return found

    def _layer(self, number: int) -> int | None:
        """The layer of a step, numbered from 0 also where names count from 1."""
        layer = self.steps[number].layer
        return None if layer is None else layer - self._facts.features.base

    @cached_property
    def foreign(self) -> dict[int | None, tuple[str, ...]]:
        """The operators of each layer that no architecture has a word for."""
        known = {"any", ADD, ALL_REDUCE, QUANTIZE, COPY, "zeros", "put", "silu_mul", "gelu_mul"}
        if self.architecture is not None:
            for rules in self.architecture.sections.values():
                known |= {rule.operator for rule in rules}
        known |= {f"{word}{half}" for word in known for half in (PARTS, MERGE)}
        return {
            layer: tuple(
                sorted(
                    {
                        self.steps[n].operator
                        for n in numbers
                        if self.steps[n].operator not in known and not self._trace.rotates(n)
                    }
                )
            )
            for layer, numbers in self._by_layer.items()
        }

    @cached_property
    def mismatches(self) -> list[Mismatch]:
        """The first statement of each layer that is another, layers in order."""
        architecture = self.architecture
        model = self._facts.options.model
        if architecture is None or model is None:
            return []
        found: list[Mismatch] = []
        if not self._section(architecture.sections.get("start", ()), None, found):
            return found
        for layer in sorted(self._facts.features.layers):
            mixes = layer in model.mixture.having or (
                layer not in model.mixture.lacking and bool(self._facts.features.mixes(layer))
            )
            if not self._section(architecture.layer(mixes), layer, found):
                self._recover(layer)
        self._section(architecture.sections.get("end", ()), None, found)
        return found

    def _recover(self, layer: int) -> None:
        """Go on behind a layer that is another: what its last operator gives starts the next."""
        for number in reversed(self._by_layer[layer]):
            if self.steps[number].operator not in ("zeros", "put"):
                self._env["x"] = _Known({(number, 0)}, stream=True)
                return

    def _section(self, rules: Iterable[Rule], layer: int | None, found: list[Mismatch]) -> bool:
        """Compare some statements up to the first that differs; whether all are there."""
        for rule in rules:
            if rule.terms:
                known = _Known(set(), rule.terms, stream=True, text=rule.text)
                self._env[rule.results[0]] = known
            elif rule.operator == "any":
                if not self._taken(rule):
                    found.append(Mismatch(layer, rule.text, None, "nothing takes it"))
                    return False
            else:
                # A sum that is another is said once; whoever takes it is right to.
                for _ in rule.operands:
                    other = self._call(rule, layer)
                    if other is None:
                        break
                    found.append(other)
                    if other.instead is None:
                        return False
                    name, value = other.instead
                    self._env[name].ids.add(value)
        return True

    def _taken(self, rule: Rule) -> bool:
        """Whether any operator reads a value."""
        known = self._env[rule.operands[0].names[0]]
        return any(
            self._trace.peel(atom)[0] in known.ids
            for step in self.steps
            for operand in step.operands
            for atom in operand.atoms
            if not atom.name
        )

    # -- one statement -----------------------------------------------------------------------

    def _call(self, rule: Rule, layer: int | None) -> Mismatch | None:
        operator = self._operator(rule.operator)
        operators = (operator, f"{operator}{MERGE}")
        alike = [n for n in self._by_layer.get(layer, ()) if self.steps[n].operator in operators]
        verdicts = {n: self._faults(n, rule, layer) for n in alike}
        right = [n for n, faults in verdicts.items() if not faults]
        complete = bool(right) and self._complete(right, rule)
        if not complete:
            return self._nearest(rule, layer, verdicts)
        for place, name in enumerate(rule.results):
            self._env[name] = _Known(
                {(n, place) for n in right},
                share=self._share(right),
                stream=rule.operator == "embedding",
            )
        return None

    def _operator(self, word: str) -> str:
        if word != "act_mul":
            return word
        model = self._facts.options.model
        named = model.sizes.activation.lower() if model else ""
        return "gelu_mul" if named.startswith("gelu") else "silu_mul"

    def _complete(self, right: list[int], rule: Rule) -> bool:
        """Whether several operators together take all the weights that are fused in one name."""
        wanted = next((w for w in rule.operands if len(w.names) > 1), None)
        if wanted is None or rule.operator != "linear":
            return True
        at = rule.operands.index(wanted)
        roles = [self._operands.roles(self.steps[n].operands[at]) for n in right]
        if any(role.startswith("?") for found in roles for role in found):
            return True
        return set().union(*roles) >= set(wanted.names)

    def _nearest(
        self, rule: Rule, layer: int | None, verdicts: dict[int, list[tuple[int, _Fault]]]
    ) -> Mismatch:
        """Say what stands where the statement should: what has the fewest faults."""
        should = self._should(rule, layer)
        missing = Mismatch(
            layer, should, None, "no such operator is there", not self.foreign.get(layer)
        )
        if not verdicts:
            return msgspec.structs.replace(missing, absent=True)

        def worth(number: int) -> tuple[int, int, int]:
            faults = verdicts[number]
            by_weight = self._weight_fits(number, rule, layer)
            return (not by_weight, len(faults), number)

        number = min(verdicts, key=worth)
        faults = verdicts[number]
        absent = not self._weight_fits(number, rule, layer)
        if absent:
            missing = msgspec.structs.replace(missing, absent=True)
            reads = [n for n, found in verdicts.items() if not any(at == 0 for at, _ in found)]
            if not reads:
                return missing
            number = min(reads, key=lambda n: (len(verdicts[n]), n))
            faults = verdicts[number]
        if not faults:
            return Mismatch(layer, should, number, "a part of it is missing")
        fault = faults[0][1]
        foreign = self.foreign.get(layer, ())
        culprit = None if fault.culprit is None else self.steps[fault.culprit].operator
        certain = not fault.unclear and culprit not in foreign
        if fault.sum_of and fault.culprit is not None:
            maker = self._layer(fault.culprit)
            return Mismatch(maker, fault.sum_of, fault.culprit, fault.why, certain, fault.instead)
        return Mismatch(layer, should, number, fault.why, certain, absent=absent)

    def _should(self, rule: Rule, layer: int | None) -> str:
        """The statement as it should be in one layer, as the configuration has it."""
        text = rule.text.replace("act_mul", self._operator("act_mul"))
        if rule.operator and rule.operands and "'" not in rule.results[0]:
            terms = [
                "none"
                if self._meant(w, layer) is False
                else (str(w) if w.rotated != 2 or self._rotary(layer) is not False else w.names[0])
                for w in rule.operands
            ]
            operator = self._operator(rule.operator)
            return f"{', '.join(rule.results)} = {operator}({', '.join(terms)})"
        return text

    def _weight_fits(self, number: int, rule: Rule, layer: int | None) -> bool:
        """Whether a step takes one of the statement's own weights, known by its name."""
        step = self.steps[number]
        weights = [w for w in rule.operands if self._is_weight(w) and not w.optional]
        if not weights:
            return True
        at = rule.operands.index(weights[0])
        if at >= len(step.operands):
            return False
        return self._operands.fits(step.operands[at], weights[0], layer, surely=True)

    def _is_weight(self, wanted: Wanted) -> bool:
        return wanted.names[0] not in self._env and wanted.names[0] not in ("any", "none")

    def _faults(self, number: int, rule: Rule, layer: int | None) -> list[tuple[int, _Fault]]:
        """What of a step is not as the statement has it: the operand's number, and why."""
        step = self._trace.whole(number)
        faults: list[tuple[int, _Fault]] = []
        for at, wanted in enumerate(rule.operands):
            operand = step.operands[at] if at < len(step.operands) else None
            fault = self._fault(operand, wanted, layer)
            if fault is not None:
                faults.append((at, fault))
        return faults

    def _meant(self, wanted: Wanted, layer: int | None) -> bool | None:
        """Whether an optional operand is meant to be there; None if that is not known."""
        if not wanted.optional:
            return wanted.names[0] != "none"
        model = self._facts.options.model
        if model is None or layer is None:
            return None
        promise = model.rotary if wanted.names[0] in ("cos", "sin") else model.qk_norm
        if layer in promise.having:
            return True
        return False if layer in promise.lacking else None

    def _rotary(self, layer: int | None) -> bool | None:
        model = self._facts.options.model
        if model is None or layer is None:
            return None
        if layer in model.rotary.having:
            return True
        return False if layer in model.rotary.lacking else None

    def _fault(self, operand: Operand | None, wanted: Wanted, layer: int | None) -> _Fault | None:
        name = wanted.names[0]
        if name == "any":
            return None
        there = operand is not None and bool(operand.atoms)
        meant = self._meant(wanted, layer)
        if not there:
            # A value that is not there is one that the facts cannot tell.
            return _Fault(f"{name} is not given", unclear=name in self._env) if meant else None
        if operand is None or meant is None:
            return None
        if operand.scales and not (self._operands.scaled(operand) or self._trace.same(operand)):
            return _Fault(f"{name} has the scales of another value", self._trace.source(operand))
        if meant is False:
            return _Fault(f"it takes {self._operands.shown(operand)}, which the model has not")
        if name in self._env:
            return self._value_fault(operand, wanted, layer)
        if self._operands.fits(operand, wanted, layer):
            return None
        taken = self._taken_for(operand)
        return _Fault(
            f"it takes {taken} for {str(wanted).strip('{}')}", self._trace.source(operand)
        )

    def _taken_for(self, operand: Operand) -> str:
        source = self._trace.source(operand)
        return self._operands.shown(operand) if source is None else self._trace.called((source, 0))

    # -- values ------------------------------------------------------------------------------

    def _value_fault(self, operand: Operand, wanted: Wanted, layer: int | None) -> _Fault | None:
        name = wanted.names[0]
        known = self._env[name]
        own = name.partition("'")[0]
        for atom in operand.atoms:
            if atom.name:
                return _Fault(f"it takes {self._operands.shown(operand)} for {own}")
            if atom.before:
                return _Fault(f"it takes for {own} what the iteration before has left")
            value, rotated = self._trace.peel(atom)
            if wanted.rotated == 2 and not rotated and self._rotary(layer):
                return _Fault(f"{own} is not rotated on its way")
            if rotated and not wanted.rotated:
                return _Fault(f"{own} is rotated on its way")
            if value in known.ids:
                if self.steps[value[0]].added and not known.stream:
                    return _Fault(f"{own} has something added to it", value[0])
                continue
            if not known.terms:
                return _Fault(f"it takes {self._trace.called(value)} for {own}", value[0])
            if fault := self._sum_fault(value, known, own):
                return fault
            known.ids.add(value)
        return None

    def _sum_fault(self, value: Value, known: _Known, own: str) -> _Fault | None:
        """Compare what a value is the sum of with what it should be."""
        streams = [known.ids for known in self._env.values() if known.stream]
        leaves = list(islice(self._trace.flat(value, streams), MOST_SUMMANDS + 1))
        made = {leaf for leaf, _ in leaves}
        if not any(made & self._env[term.name].ids for term in known.terms if term.summed):
            # Not this sum at all: whoever takes it takes another value.
            return _Fault(f"it takes {self._trace.called(value)} for {own}", value[0])

        def fault(why: str) -> _Fault:
            return _Fault(why, self._trace.maker(value[0]), known.text, instead=(own, value))

        if len(leaves) > MOST_SUMMANDS:
            return fault("it is a sum of too many values to compare")
        for term in known.terms:
            part = self._env[term.name]
            found = [leaf for leaf in leaves if leaf[0] in part.ids]
            if not found and not term.summed and self._left_out(known):
                continue
            named = self._term(term, part)
            if len(found) != 1:
                return fault(
                    f"{named} is added {len(found)} times" if found else f"{named} is not added"
                )
            leaves.remove(found[0])
            if term.summed and (self._facts.cuda.world_size or 1) > 1:
                times = found[0][1]
                mine, whole = part.share or (0, 0)
                if mine < whole and not times:
                    return fault(
                        f"{named} is not summed over the ranks, and this one has {mine:,} of the "
                        f"{whole:,} columns"
                    )
                if times > 1:
                    return fault(f"{named} is summed over the ranks {times} times")
                if whole and mine == whole and times:
                    return fault(f"{named} is summed though no rank has a share of it")
        if leaves:
            return fault(f"{self._trace.called(leaves[0][0])} is added as well")
        return None

    def _left_out(self, known: _Known) -> bool:
        """Whether another rank may add the residual: this one is not the first of several."""
        several = (self._facts.cuda.world_size or 1) > 1
        return several and self._facts.rank > 0 and any(term.summed for term in known.terms)

    def _term(self, term: Term, part: _Known) -> str:
        if term.name.endswith("'") or not part.stream:
            return self._trace.called(next(iter(part.ids))) if part.ids else term.name
        return term.name

    def _share(self, numbers: list[int]) -> tuple[int, int] | None:
        """How many columns of a row-parallel projection's weight this rank has, and of how many."""
        answers = {self._operands.share(self.steps[n], self.steps) for n in numbers}
        return answers.pop() if len(answers) == 1 else None


__all__ = ["Dataflow", "Mismatch"]
