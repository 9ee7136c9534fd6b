"""MG111: two inputs of attention carry each other's tensor, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import exchanged
from mirage_gate.rules._words import declared, tasks
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

RULE = Rule(
    "MG111",
    "exchanged-operands",
    Severity.WARNING,
    "Two inputs of attention carry each other's tensor, by their names.",
    why="""
        Cosine and sine tables have one shape, and so have the caches of keys and values and
        the norms of queries and keys. Exchanged, each is read by the right tasks in every
        layer, all bytes are covered, and the positions are wrong.
    """,
    example="Input 5 of attention is `sin_pos_embed`, and input 6 is `cos_pos_embed`.",
    fix="Exchange the two arguments of the attention layer in the builder.",
    limits="""
        Names decide: `cos` and `sin`, `k` and `v`, `q` and `k`, as words of their own. Only
        for the attention kernels of MPK, whose inputs are known.
    """,
    repeats=True,
)


@RULE.checked_by
def exchanged_operands(facts: RankFacts) -> Iterator[Finding]:
    found: dict[tuple[int, int, int], list[Group]] = {}
    for group in facts.wiring.groups:
        words = facts.task_type(group.task_type).words
        if not words:
            continue
        names = facts.wiring.names(group)[0][: len(words)]
        for one, other in combinations(range(len(names)), 2):
            own, its = words[one], words[other]
            if own and its and own != its:
                here, there = _words_in(names[one]), _words_in(names[other])
                if {own, its} & here == {its} and {own, its} & there == {own}:
                    found.setdefault((group.task_type, one, other), []).append(group)
    for (task_type, one, other), groups in sorted(found.items()):
        names = facts.wiring.names(groups[0])[0]
        words = facts.task_type(task_type).words
        layers = {facts.layers.of_group[group.number] for group in groups}
        yield RULE.finding(
            facts.rank,
            (
                f"{names[one]} is input {one} of {tasks(facts, groups)} and {names[other]} input "
                f"{other}: by their names they are each other's ({words[one]}, {words[other]})"
            ),
            facts.in_graph("all_tasks", groups[0].first, "inputs", one, "base_ptr"),
            hint=f"exchange {names[one]} and {names[other]}",
            related=(
                facts.in_graph(
                    "all_tasks", groups[0].first, "inputs", other, "base_ptr", note="the other"
                ),
                *declared(facts, names[one]),
                *declared(facts, names[other]),
            ),
            tensor=names[one],
            others=(names[other],),
            causes=[exchanged(task_type, (one, other), n) for n in layers if len(layers) == 1],
        )


def _words_in(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name.lower()))
