"""MG606: an event gets more or fewer triggers from the other ranks than it waits for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from mirage_gate.agreed.joining import Ranks
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.rules._words import plural
from mirage_gate.rules.base import Rule

RULE = Rule(
    "MG606",
    "remote-triggers",
    Severity.ERROR,
    "An event gets more or fewer triggers from the other ranks than it waits for.",
    why="""
        An event that other ranks trigger counts what arrives from all of them. Too few, and
        the tasks behind it never start: every rank hangs. Too many, and they start early,
        earlier in each iteration.
    """,
    example="Event 40 of rank 2 waits for 12 triggers; ranks 0, 1 and 3 send 8.",
    fix="Emit all ranks again with one builder; the triggers follow from the number of ranks.",
    limits="Only where all ranks of the kernel are audited together, or merged.",
    scope="ranks",
)


@RULE.checked_by
def remote_triggers(ranks: Ranks) -> Iterator[Finding]:
    if not ranks.complete or len(ranks.audited) < 2:
        return
    arriving: dict[int, Counter[int]] = defaultdict(Counter)
    for summary in ranks.audited:
        for sent in summary.sent:
            for position in range(sent.first, sent.last + 1):
                arriving[sent.gpu][position] += sent.count
    for summary in ranks.audited:
        arrived = arriving[summary.rank]
        wrong: list[tuple[int, int, int, Location]] = []
        for awaited in summary.awaited:
            for position in range(awaited.first, awaited.last + 1):
                got = arrived.pop(position, 0) + awaited.local
                if got != awaited.triggers:
                    wrong.append((position, awaited.triggers, got, awaited.at))
        if wrong:
            position, triggers, got, at = wrong[0]
            more = f" ({plural(len(wrong), 'event')} in all)" if len(wrong) > 1 else ""
            yield RULE.finding(
                summary.rank,
                (
                    f"event {position} of rank {summary.rank} waits for "
                    f"{plural(triggers, 'trigger')} and gets {got} from all ranks{more}"
                ),
                at,
                hint="emit all ranks again with one builder",
            )
        astray = sorted(arrived)
        if astray and summary.events_at is not None:
            yield RULE.finding(
                summary.rank,
                (
                    f"other ranks trigger event {astray[0]} of rank {summary.rank}"
                    f"{f' and {len(astray) - 1} more' if len(astray) > 1 else ''}, which waits "
                    "for no other rank"
                ),
                summary.events_at,
                hint="emit all ranks again with one builder",
            )
