"""The audit of one rank: read it, derive its facts, ask every enabled rule, place what they say.

What a rank is compared with (other ranks, a lock) needs its summary only:
:mod:`mirage_gate.auditing.ranks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import msgspec

from mirage_gate import steps
from mirage_gate.agreed import summarizing
from mirage_gate.agreed.summary import Summary
from mirage_gate.artifacts import loader
from mirage_gate.artifacts.graph_text import GraphText
from mirage_gate.artifacts.pairs import Pair
from mirage_gate.auditing import counting
from mirage_gate.auditing.asking import Answer, ask_of_rank
from mirage_gate.auditing.folding import fold
from mirage_gate.auditing.reading import Half, Refused, halves, opened
from mirage_gate.auditing.selection import Selection
from mirage_gate.facts import Options, RankFacts
from mirage_gate.findings import Finding
from mirage_gate.report import RankReport


class Job(msgspec.Struct, frozen=True):
    """How to audit a rank.

    ``summarize``: sum it up whole, for something to compare it with. ``by_layer``: say of
    each tensor what each layer does with it. ``beside``: a second process may help.
    """

    options: Options
    selection: Selection
    summarize: bool = False
    by_layer: bool = True
    beside: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """What the audit of one rank gives: small, whatever the size of its graph."""

    report: RankReport
    summary: Summary


def audit_pair(pair: Pair, job: Job) -> Outcome:
    """Audit one pair of files."""
    try:
        cuda, graph = halves(pair)
    except Refused as refused:
        return not_audited(pair, refused.failure, refused.findings)
    return audit_halves(pair.rank, cuda, graph, job)


@loader.without_collector
def audit_halves(rank: int, cuda: Half, graph: Half, job: Job) -> Outcome:
    """Audit two files or texts; whatever they hold, and whatever breaks, that is said."""
    steps.begin(rank)
    try:
        with opened(rank, cuda, graph, job.options) as (facts, text):
            found, failure = ask_of_rank(facts, job.selection, job.beside)
            return _outcome(facts, text, (fold(found), failure), job)
    except Refused as refused:
        findings = [job.selection.weigh(finding) for finding in refused.findings]
        return _failed(rank, cuda.path, graph.path, refused.failure, findings)
    except Exception as error:  # a mistake of ours must not pass a rank
        failure = f"internal error: {type(error).__name__}: {error}"
        return _failed(rank, cuda.path, graph.path, failure)


def not_audited(pair: Pair, failure: str, findings: Iterable[Finding] = ()) -> Outcome:
    """Say of one pair that its audit came to nothing, and why."""
    return _failed(pair.rank, pair.cuda, pair.graph, failure, findings)


def _failed(
    rank: int, cuda: str, graph: str, failure: str, findings: Iterable[Finding] = ()
) -> Outcome:
    report = RankReport(rank, cuda, graph, audited=False, failure=failure)
    summary = Summary(rank, cuda, graph, audited=False, failure=failure, findings=tuple(findings))
    return Outcome(report, summary)


def _outcome(facts: RankFacts, text: GraphText, answer: Answer, job: Job) -> Outcome:
    """Count what there is, sum it up, and place what was said. Raises what placing raises."""
    found, failure = answer
    steps.say("counting")
    report = counting.of_facts(facts, failure, job.by_layer)
    summary = summarizing.summarize(facts) if job.summarize else summarizing.outline(facts)
    steps.say("placing")
    said = chain.from_iterable(finding.places for finding in found)
    place = text.placer(chain(said, summarizing.places(summary)))
    summary = msgspec.structs.replace(
        summarizing.placed(summary, place),
        audited=not failure,
        failure=failure,
        findings=tuple(finding.placed(place) for finding in found),
    )
    return Outcome(msgspec.structs.replace(report, marks=text.marks), summary)
