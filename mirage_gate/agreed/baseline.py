"""The baseline: an earlier report, whose findings are known. Only new ones are left.

A finding is the same as before if its rule, its tensor, its rank and its words are, but for
the numbers that move when anything in the graph does: task and event numbers, counts, bytes.
Numbers of layers and ranks stay, and so do names. A finding that the baseline has once is
known once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.findings import INPUT, Finding
from mirage_gate.patterns import later

Fingerprint = tuple[str, str, int | None, str]

_NUMBER = later(r"(?<![\w.])0[xX][0-9a-fA-F]+\b|(?<![\w.])\d+(?:,\d{3})*(?!\w)")
_KEPT = later(r"(?i)\b(?:layer|rank|input|output)s? (?:\d+(?:-\d+)?(?:, | and )?)+")


def normal(message: str) -> str:
    """Give a message without the numbers that move."""
    parts = []
    at = 0
    for kept in _KEPT.finditer(message):
        parts += [_NUMBER.sub("#", message[at : kept.start()]), kept[0]]
        at = kept.end()
    return "".join([*parts, _NUMBER.sub("#", message[at:])])


def fingerprint(finding: Finding) -> Fingerprint:
    """Say which finding it is, in this run and the next."""
    return finding.rule, finding.tensor, finding.rank, normal(finding.message)


class NotAReport(Exception):
    """A file that is neither report; the message says why."""


class Baseline(msgspec.Struct, frozen=True):
    """What is known: findings of a JSON report, and results of a SARIF log.

    A SARIF result says the messages of all its findings in one text, each a sentence. What
    follows from a known finding is known if it did so before.
    """

    findings: dict[Fingerprint, int]
    results: tuple[tuple[str, frozenset[int], str], ...] = ()

    def new(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """Give (findings that are not known, those that are)."""
        left = Counter(self.findings)
        texts = list(self.results)
        new = []
        known = []
        for finding in findings:
            # What could not be read is never known.
            if finding.rule.startswith(INPUT) or not self._knows(finding, left, texts):
                new.append(finding)
                continue
            known.append(msgspec.structs.replace(finding, hidden="known from the baseline"))
            new += [one for one in finding.folded if not self._knows(one, left, texts)]
        return new, known

    def _knows(
        self,
        finding: Finding,
        left: Counter[Fingerprint],
        texts: list[tuple[str, frozenset[int], str]],
    ) -> bool:
        mark = fingerprint(finding)
        if left[mark] > 0:
            left[mark] -= 1
            return True
        return self._in_results(finding, texts)

    @staticmethod
    def _in_results(finding: Finding, texts: list[tuple[str, frozenset[int], str]]) -> bool:
        if not texts:
            return False
        from mirage_gate.escaping import sarif_message

        wanted = normal(sarif_message(finding.message)).rstrip(".")
        # A whole sentence: a name may end like another one.
        first, rest = re.escape(wanted[:1]), re.escape(wanted[1:])
        sentence = re.compile(rf"(?<!\S)(?i:{first}){rest}(?![^\s.])")
        for i, (rule, ranks, text) in enumerate(texts):
            if rule != finding.rule or (ranks and finding.rank not in ranks):
                continue
            if found := sentence.search(text):
                texts[i] = (rule, ranks, text[: found.start()] + text[found.end() :])
                return True
        return False


def read(path: str) -> Baseline:
    """Read one file. Raises :class:`NotAReport` and :class:`OSError`."""
    return decode(files.read_bytes(path))


def decode(data: bytes) -> Baseline:
    """Read a report's bytes. Raises :class:`NotAReport`."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAReport(f"is no JSON: {error}") from error
    try:
        if isinstance(document, dict) and "runs" in document:
            return _of_sarif(document)
        if isinstance(document, dict) and "findings" in document:
            return _of_json(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotAReport(f"is no report: {type(error).__name__}: {error}") from error
    raise NotAReport("is neither a JSON report of mirage-gate nor a SARIF log")


def _of_json(document: dict[str, Any]) -> Baseline:
    known: Counter[Fingerprint] = Counter()
    every = [
        one for finding in document["findings"] for one in (finding, *finding.get("folded", ()))
    ]
    for finding in every:
        message = str(finding["message"])
        tensor = str(finding.get("tensor") or "")
        known[str(finding["rule"]), tensor, int(finding["rank"]), normal(message)] += 1
    return Baseline(dict(known))


def _of_sarif(document: dict[str, Any]) -> Baseline:
    results = []
    for run in document["runs"]:
        for result in run.get("results") or ():
            properties = result.get("properties") or {}
            ranks = frozenset(map(int, properties.get("ranks") or ()))
            text = normal(str(result["message"]["text"]))
            results.append((str(result["ruleId"]), ranks, text))
            for one in properties.get("folded") or ():
                # As many times as there are ranks that may say it.
                text = normal(str(one["message"]))
                results += [(str(one["rule"]), ranks, text)] * max(1, len(ranks))
    return Baseline({}, tuple(results))
