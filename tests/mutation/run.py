"""Make the mutants, ask the gate, count."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from . import (
    defects_bytes,
    defects_events,
    defects_files,
    defects_kernels,
    defects_layers,
    defects_loader,
    defects_model,
    defects_order,
    defects_patterns,
    defects_ranks,
    defects_signatures,
    defects_stacks,
    defects_values,
    defects_wiring,
    harmless,
    unusual,
)
from .defects_ranks import untouched
from .draft import Draft, Mutant
from .judge import Verdict, baseline, judge, report_on
from .registry import DEFECTS, HARMLESS, Operator
from .subjects import subject

__all__ = ["Outcome", "Tally", "operators", "run"]

MODULES = (
    defects_bytes,
    defects_events,
    defects_files,
    defects_kernels,
    defects_layers,
    defects_loader,
    defects_model,
    defects_order,
    defects_patterns,
    defects_ranks,
    defects_signatures,
    defects_stacks,
    defects_values,
    defects_wiring,
    harmless,
    unusual,
)
UNUSUAL = "unusual"
"""The name that stands for no subject: operators that make models of their own."""
BIG = 5_000
"""Tasks. A bigger graph takes a second for each mutant."""
ALWAYS = (
    "tasks of TASK_QUANTIZE_FP8_SM100 (first: task",
    "is a part of a sum over 8 ranks that is not summed before",
)
"""What is true of every DeepSeek graph."""


@dataclass(frozen=True)
class Outcome:
    """One mutant and what came of it."""

    operator: str
    subject: str
    rank: int
    seed: int
    number: int
    what: str
    verdict: Verdict


@dataclass
class Tally:
    """The counts of one operator."""

    made: int = 0
    good: int = 0
    error: int = 0
    line: int = 0
    lined: int = 0
    bad: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        verdict = outcome.verdict
        self.made += 1
        self.good += verdict.good
        self.error += verdict.error
        if verdict.line is not None:
            self.lined += 1
            self.line += verdict.line
        if not verdict.good:
            self.bad.append(outcome)


def operators(wanted: Iterable[str] = ()) -> list[Operator]:
    """All operators, or those whose names begin with one of `wanted`."""
    every = [*DEFECTS.values(), *HARMLESS.values()]
    prefixes = tuple(wanted)
    return [op for op in every if not prefixes or op.name.startswith(prefixes)]


def mutants(operator: Operator, name: str, rank: int, seed: int) -> Iterator[Mutant]:
    """The mutants that an operator makes of one subject."""
    rng = random.Random(f"{operator.name} {name} {rank} {seed}")  # noqa: S311 - to be repeated
    whole: Any = name if operator.whole or operator.model else subject(name, rank)
    return operator.make(whole, rng)


def run(
    name: str,
    rank: int,
    wanted: Iterable[Operator],
    most: int,
    seed: int = 0,
    *,
    narrow: bool = False,
) -> Iterator[Outcome]:
    """Try up to `most` mutants of each operator on one subject; fewer on a big one.

    `narrow` is as for `judge`.
    On `UNUSUAL`, those of the operators that make models of their own; all of them if `most` is 0.
    """
    if name == UNUSUAL:
        for operator in wanted:
            if operator.model:
                made = islice(mutants(operator, name, 0, seed), most or None)
                for number, mutant in enumerate(made):
                    verdict = judge(operator, mutant, 0, Counter(), allowed=ALWAYS)
                    yield Outcome(operator.name, name, 0, seed, number, mutant.what, verdict)
        return
    alone = baseline(report_on(Draft(subject(name, rank)).mutant(), rank))
    together = baseline(report_on(untouched(name), rank)) if not rank else alone
    if len(subject(name, rank).tasks) > BIG:
        most = -(-most // 4)
    for operator in wanted:
        if operator.model or (operator.whole and rank):
            continue
        before = together if operator.whole else alone
        for number, mutant in enumerate(islice(mutants(operator, name, rank, seed), most)):
            verdict = judge(operator, mutant, rank, before, narrow=narrow)
            yield Outcome(operator.name, name, rank, seed, number, mutant.what, verdict)
