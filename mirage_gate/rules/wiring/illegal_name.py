"""MG109: a declared name is no C++ identifier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.findings import Finding, Severity
from mirage_gate.rules._claims import ill
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG109",
    "illegal-name",
    Severity.ERROR,
    "A declared name is no C++ identifier.",
    why="""
        The emitter writes the name as a C++ variable. With a dot or a dash in it the file
        does not compile, which nvcc says ten minutes later and a thousand lines further on.
    """,
    example='`char *model.layers.0.x = …; all_tensors["model.layers.0.x"] = model.layers.0.x;`',
    fix="Attach the tensor under a name of letters, digits and underscores.",
)


@RULE.checked_by
def illegal_name(facts: RankFacts) -> Iterator[Finding]:
    for name, declaration in facts.declared.items():
        if declaration.kind == "sentinel" or (name.isascii() and name.isidentifier()):
            continue
        legal = re.sub(r"\W", "_", name, flags=re.ASCII)
        yield RULE.finding(
            facts.rank,
            f"{name or 'the empty name'} is no C++ identifier: the kernel cannot compile",
            declaration.location,
            hint=f"attach it as {legal}" if legal and not legal[0].isdigit() else "rename it",
            tensor=name,
            causes=[ill(name)],
        )
