"""MG510: a feature is compiled out while its slots carry tensors, or in while they hold none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import empty_in, untaken
from mirage_gate.rules._words import tasks
from mirage_gate.rules.base import Rule
from mirage_gate.rules.kernels._compiled import by_branch, slot

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.signatures.constants import Mismatch

RULE = Rule(
    "MG510",
    "compiled-out",
    Severity.ERROR,
    "A feature is compiled out while its slots carry tensors, or in while they hold none.",
    why="""
        Attention takes two booleans, `qk_norm` and `rope`, that switch the norms of queries and
        keys and the rotation off, whatever the slots carry. A body that passes `false` for `rope`
        beside the rotary tables names them, so every other check counts them as read, and the
        model has no position encoding. The other way round the kernel reads address 0.

        Linear operators have one for their residual. It is off on every rank but the first, where
        the sum over the ranks would count the residual once for each of them.
    """,
    example="""
        `multitoken_paged_attention_hopper_impl<…>(…, true, false, …)` in a model whose tasks carry
        `cos_position_embedding` and `sin_position_embedding`.
    """,
    fix="Pass the flag that belongs to the slots: the builder derives it from what is not None.",
    limits="""
        An error where a critical tensor is concerned or address 0 is read, a warning else. A flag
        that is decided at run time is not judged.
    """,
    repeats=True,
)


@RULE.checked_by
def compiled_out(facts: RankFacts) -> Iterator[Finding]:
    for mismatches in by_branch(facts, "on", "off"):
        for mismatch in mismatches:
            name = mismatch.operand.name if mismatch.operand else ""
            if name == "r" and mismatch.what == "off" and facts.rank:
                continue  # the sum over the ranks has it from the first one
            yield _finding(facts, mismatch)


def _finding(facts: RankFacts, mismatch: Mismatch) -> Finding:
    branch = mismatch.branch
    where = f"{branch.type_name} variant {branch.variant}"
    who = tasks(facts, mismatch.groups)
    tensor = ""
    if mismatch.operand is not None:
        tensor = facts.signatures.tensor(mismatch.groups[0], mismatch.operand).base_ptr
    if mismatch.what == "on":
        message = (
            f"{where} is compiled with {mismatch.parameter} = {mismatch.compiled}, and "
            f"{mismatch.carried} of {who} holds no tensor: the kernel reads address 0"
        )
        severity = Severity.ERROR
    else:
        message = (
            f"{where} is compiled with {mismatch.parameter} = {mismatch.compiled}, and {who} carry "
            f"{tensor} in {mismatch.carried}: the kernel never looks at it"
        )
        declaration = facts.declared.get(tensor)
        critical = declaration is not None and facts.is_critical(declaration)
        severity = Severity.ERROR if critical else Severity.WARNING
    return RULE.finding(
        facts.rank,
        message,
        mismatch.location,
        hint="compile the variant with the flag that its slots ask for",
        severity=severity,
        related=(*slot(facts, mismatch, "the slot"), branch.location),
        tensor="" if mismatch.what == "on" else tensor,
        follows=_follows(facts, mismatch),
    )


def _follows(facts: RankFacts, mismatch: Mismatch) -> Iterator[str]:
    """Say from what it follows that nothing is where a kernel looks: no layer passes it."""
    operand = mismatch.operand
    if mismatch.what != "on" or operand is None or not operand.is_input:
        return
    yield empty_in(facts, operand.index, mismatch.groups)
    lost = [
        name
        for name, declaration in facts.declared.items()
        if operand.name in name.lower().split("_")
        and facts.is_critical(declaration)
        and not facts.wiring.of(name)
    ]
    if len(lost) == 1:
        yield untaken(lost)
