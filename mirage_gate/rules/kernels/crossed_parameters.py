"""MG511: a body hands a slot to a parameter that is for another one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._compiled import by_branch, slot
from mirage_gate.rules.kernels._shared import selected_branches

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Branch, SlotName
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group

RULE = Rule(
    "MG511",
    "crossed-parameters",
    Severity.ERROR,
    "A body hands a slot to a parameter that is for another one.",
    why="""
        The graph says what is in which slot, the body which slot goes to which parameter. A body
        that hands the activation to the weight's parameter and the weight to the activation's
        names both slots, reads both, and computes nothing of use. So it is with a slot
        that goes to two parameters, and with a parameter that gets none.
    """,
    example="`linear_kernel<…>(input_ptrs[1], input_ptrs[0], …)`: weight and activation exchanged.",
    fix="Hand each slot to its own parameter; the task register generates the call.",
    limits="""
        Where no call of a known device function can be seen, as in a `.cu` of which only a part was
        kept, variants of one type are compared with each other: one that names the same slots in
        another order than all of its siblings is a warning.
    """,
    repeats=True,
)


@RULE.checked_by
def crossed_parameters(facts: RankFacts) -> Iterator[Finding]:
    for mismatches in by_branch(facts, "crossed"):
        first = mismatches[0]
        said = dict.fromkeys(
            f"{m.parameter} is given {m.compiled}, and is for {m.carried}" for m in mismatches
        )
        texts = list(said)
        more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
        yield RULE.finding(
            facts.rank,
            f"{first.branch.type_name} variant {first.branch.variant}, which "
            f"{tasks(facts, first.groups)} run, crosses the parameters of {first.function}: "
            f"{'; '.join(texts[:3])}{more}",
            first.location,
            hint="hand each slot to its own parameter",
            related=(*slot(facts, first, "the slot it is for"), first.branch.location),
        )
    yield from _unlike_siblings(facts)


def _unlike_siblings(facts: RankFacts) -> Iterator[Finding]:
    """Find variants without a known call that name their slots in an order of their own."""
    orders: dict[object, list[tuple[Branch, list[Group], tuple[SlotName, ...]]]]
    orders = defaultdict(list)
    for branch, groups in selected_branches(facts):
        body = branch.body
        if body is not None and facts.signatures.constants.call(body)[0] is None and body.named:
            named = body.named
            orders[branch.type_name, frozenset(named)].append((branch, groups, named))
    for variants in orders.values():
        counts = Counter(named for _, _, named in variants)
        usual, times = counts.most_common(1)[0]
        if len(counts) != 2 or times < 2 or times != len(variants) - 1:
            continue
        branch, groups, named = next(v for v in variants if v[2] != usual)
        other = next(b for b, _, order in variants if order == usual)
        yield RULE.finding(
            facts.rank,
            f"{branch.type_name} variant {branch.variant}, which {tasks(facts, groups)} run, hands "
            f"its slots on as {_list(named)}, and all other variants as {_list(usual)}",
            branch.location,
            hint="hand each slot to its own parameter",
            severity=Severity.WARNING,
            related=(other.location.saying("another variant"),),
        )


def _list(named: tuple[SlotName, ...]) -> str:
    return ", ".join(map(str, named))
