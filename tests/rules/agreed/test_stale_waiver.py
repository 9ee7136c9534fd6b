"""MG803 stale-waiver."""

from __future__ import annotations

import pytest

from mirage_gate import Severity
from tests.emitter import qwen3
from tests.rules import At, Expect, Waived, fires, silent
from tests.rules.cases import CONFIG

WAIVER = """
[[waivers]]
rule = "{rule}"
tensor = "*_position_embedding"
reason = "positions come with the next release"
{expires}
"""


def waiver(rule: str = "MG101", expires: str = "") -> str:
    return WAIVER.format(rule=rule, expires=f"expires = {expires}" if expires else "")


@fires(
    "MG803",
    Severity.WARNING,
    at=At(CONFIG, 2),
    says=("the waiver of MG101", "expired on 2020-01-31"),
    once=True,
)
def test_a_waiver_that_is_expired() -> Waived:
    return Waived(qwen3(3).without_rope().emit(), waiver(expires="2020-01-31"))


@pytest.mark.parametrize(("rule", "line"), [("MG101", 2), ("MG503", 8)])
@fires("MG803", Severity.WARNING)
def test_a_waiver_that_nothing_needs(rule: str, line: int) -> Expect:
    return Expect(
        Waived(qwen3(3).emit(), waiver() + waiver("MG503")),
        at=At(CONFIG, line),
        says=(f"the waiver of {rule} for *_position_embedding matches no finding",),
    )


@pytest.mark.parametrize("expires", ["", "2999-12-31"])
@silent("MG803", alone=("MG101",))
def test_a_waiver_in_force_that_finds_what_it_waives(expires: str) -> Waived:
    return Waived(qwen3(3).without_rope().emit(), waiver(expires=expires))
