"""MG110: no declared tensor is critical: nothing was proven about position encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage_gate.artifacts.cuda import SENTINEL
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules.base import Rule

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts

RULE = Rule(
    "MG110",
    "nothing-critical",
    Severity.WARNING,
    "No declared tensor is critical: nothing was proven about position encoding.",
    why="""
        A check by name finds nothing when the names differ, and passes without having
        checked anything. The gate says so instead of passing in silence.
    """,
    example="The rotary tables are called `freqs`, which no built-in pattern matches.",
    fix="""
        Name the tables: `--critical +freqs` adds to the built-in list, and
        `critical = ["+freqs"]` in the configuration makes it last.
    """,
    limits="""
        A model without rotary tables can ignore the rule: `--ignore MG110`. Where a list given
        with `--critical` matches nothing at all, it is an error.
    """,
)


@RULE.checked_by
def nothing_critical(facts: RankFacts) -> Iterator[Finding]:
    critical = facts.options.critical
    names = list(facts.declared)
    none = not any(facts.is_critical(d) for d in facts.declared.values())
    # A list of the user's own that matches nothing is a mistake, not another model.
    severity = Severity.ERROR if none and not critical.built_in else Severity.WARNING
    for name in critical.asked:
        if name not in facts.declared:
            from difflib import get_close_matches  # slow to load

            close = get_close_matches(name, names, n=2)
            near = f" (there is {' and '.join(close)})" if close else ""
            yield RULE.finding(
                facts.rank,
                f"critical tensor {name} was asked for and is not declared{near}: not checked",
                Location(facts.cuda.path, 1, 1, 1, 1),
                hint=f"correct {name} in --critical, or attach the tensor under that name",
                severity=severity,
                tensor=name,
            )
    if not none or (critical.asked and not (critical.patterns or critical.built_in)):
        return
    at = next((d.location for d in facts.declared.values()), Location(facts.cuda.path, 1, 1, 1, 1))
    count = len(names) - (SENTINEL in names)
    yield RULE.finding(
        facts.rank,
        (
            f"none of the {count} declared tensors is critical: "
            "nothing was proven about position encoding"
        ),
        at,
        hint=(
            'name the rotary tables: --critical +NAME, or critical = ["+NAME"] in '
            "mirage-gate.toml; if the model has none, --ignore MG110"
        ),
        severity=severity,
    )
