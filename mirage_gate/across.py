"""The end of a run: compare the ranks, then hold them to what is remembered.

Everything here looks at summaries. That is why ``merge``, which has nothing else, finds what
one run over all ranks finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mirage_gate import waivers
from mirage_gate.findings import Finding, in_order
from mirage_gate.memory import Memory, Run
from mirage_gate.report import RankReport, Report
from mirage_gate.rules.base import Scope, all_rules
from mirage_gate.selection import Selection
from mirage_gate.summary import Ranks, Summary, runs


class _Broken(Exception):
    """A rule of the gate itself broke: what it was to prove is not proven."""


def conclude(
    ranks: Sequence[RankReport],
    summaries: Sequence[Summary],
    selection: Selection,
    memory: Memory,
    *,
    chosen: bool = False,
    one_run: bool = False,
) -> Report:
    """Make the report of a run from what is known of each rank.

    ``chosen`` says that the user asked for these ranks and no others; ``one_run`` that all of
    them are of one, whatever folders they came from.
    """
    findings = [finding for summary in summaries for finding in summary.findings]
    groups = [Ranks(tuple(sorted(summaries, key=lambda s: s.rank)), chosen)] if one_run else []
    known = 0
    waived = 0
    try:
        for group in groups or runs(summaries, chosen):
            findings += _ask("ranks", group, selection)
        findings += _ask("memory", Run(tuple(summaries), memory), selection)
        findings, waived, stale = waivers.apply(findings, memory.waivers, memory.today)
        if all(rank.audited for rank in ranks) and not chosen:
            # A finding of a rank or a rule that was left out is not missed.
            stale = [one for one in stale if one.expired or selection.wants(one.waiver.rule)]
        else:
            stale = [one for one in stale if one.expired]
        findings += _ask("memory", Run((), memory, tuple(stale)), selection)
        if memory.baseline is not None:
            findings, known = memory.baseline.new(in_order(findings))
    except _Broken as broken:
        ranks = [
            msgspec.structs.replace(rank, audited=False, failure=rank.failure or str(broken))
            for rank in ranks
        ]
    return Report(
        ranks=tuple(ranks),
        findings=in_order(findings),
        waived=waived,
        known=known,
        summaries=tuple(summaries),
    )


def _ask(scope: Scope, subject: Any, selection: Selection) -> Iterable[Finding]:
    found: list[Finding] = []
    for rule in all_rules():
        if rule.check is None or rule.scope != scope or not selection.wants(rule.id):
            continue
        try:
            found.extend(selection.weigh(finding) for finding in rule.check(subject))
        except Exception as error:
            raise _Broken(
                f"internal error in {rule.id}: {type(error).__name__}: {error}"
            ) from error
    return found
