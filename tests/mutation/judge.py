"""What the gate says of a pair, and what of that is new."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from mirage_gate import Selection
from mirage_gate.artifacts import pairs
from mirage_gate.config import Config, task_types
from mirage_gate.facts import Options
from mirage_gate.findings import Finding, Severity
from mirage_gate.report import Report
from tests.audits import findings_of, findings_of_files

from .draft import Mutant
from .registry import Operator

__all__ = ["Verdict", "baseline", "judge_defect", "judge_harmless", "report_on"]

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Verdict:
    """`good`: stopped, or silent. `error`: stopped by an error. `line`: at the expected place.

    `line` is None where no place was expected. `said` are the new findings at warning or above.
    """

    good: bool
    error: bool = False
    line: bool | None = None
    said: tuple[str, ...] = ()


@cache
def options(header: bool) -> Options:
    """The defaults, and with a header the code of the one task that only the emitter knows."""
    codes = {"TASK_MLA_ROPE_Q_SM100": 296} if header else {}
    return Options(task_types=task_types(Config(), codes))


def report_on(mutant: Mutant, rank: int, selection: Selection | None = None) -> Report:
    """Audit a mutant: in memory, or as files where it consists of files."""
    if mutant.files is None:
        told = options(mutant.header) if mutant.model is None else _told(mutant)
        texts = mutant.cuda, mutant.graph
        return findings_of(*texts, rank=rank, options=told, selection=selection)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in mutant.files.items():
            data = content.encode() if isinstance(content, str) else content
            Path(folder, name).write_bytes(data)
        return findings_of_files(pairs.find([folder]), options(mutant.header), selection)


def _told(mutant: Mutant) -> Options:
    return msgspec.structs.replace(options(mutant.header), model=mutant.model)


def _key(finding: Finding) -> Key:
    """A finding without what a shift of lines or counts changes in it."""
    message = re.sub(r"\d+", "#", finding.message)
    return finding.rule, str(finding.severity), finding.tensor, message


def _nameless(key: Key) -> Key:
    """What is left of it under other names: whoever renames a weight renames it here too."""
    rule, severity, _, message = key
    return rule, severity, "", re.sub(r"layer_[N#]\w*", "layer", message)


def baseline(report: Report) -> Counter[Key]:
    return Counter(map(_key, _loud(report)))


def _loud(report: Report) -> list[Finding]:
    return [f for f in report.findings if f.severity is not Severity.NOTE]


def _new(report: Report, before: Counter[Key], renamed: bool = False) -> list[Finding]:
    left = Counter(map(_nameless, before.elements())) if renamed else Counter(before)
    new = []
    for finding in _loud(report):
        key = _nameless(_key(finding)) if renamed else _key(finding)
        if left[key]:
            left[key] -= 1
        else:
            new.append(finding)
    return new


def _text(finding: Finding) -> str:
    at = finding.location
    half = "cuda" if at.path.endswith(".cu") else "graph"
    return f"{finding.rule} {finding.severity} {half}:{at.line} {finding.message[:200]}"


def judge_defect(
    report: Report, mutant: Mutant, rules: tuple[str, ...], before: Counter[Key]
) -> Verdict:
    new = _new(report, before)
    said_too = [one for finding in new for one in (finding, *finding.folded)]
    right = [f for f in said_too if f.rule.startswith(rules)]
    failed = [f"not audited: {r.failure}" for r in report.failed_ranks if "internal" in r.failure]
    said = (*map(_text, new), *failed)
    line = None
    if mutant.places:
        line = any(
            (("cuda" if f.location.path.endswith(".cu") else "graph"), f.location.line)
            in mutant.places
            for f in right
        )
    error = any(f.severity is Severity.ERROR for f in right)
    return Verdict(bool(right) and not failed, error, line, said)


def judge_harmless(report: Report, before: Counter[Key], allowed: tuple[str, ...] = ()) -> Verdict:
    new = _new(report, before, renamed=True)
    said = [_text(f) for f in new if not any(w in f.message for w in allowed)]
    said += [f"not audited: {rank.failure}" for rank in report.failed_ranks]
    return Verdict(not said, said=tuple(said))


def judge(
    operator: Operator,
    mutant: Mutant,
    rank: int,
    before: Counter[Key],
    allowed: tuple[str, ...] = (),
    *,
    narrow: bool = False,
) -> Verdict:
    """Audit a mutant and say whether the gate did what it has to.

    With `narrow`, no rule is asked but those of the operator, of which one is to stop it.
    """
    selection = Selection(select=operator.rules) if narrow and operator.rules else None
    report = report_on(mutant, rank, selection)
    if operator.rules:
        return judge_defect(report, mutant, operator.rules, before)
    return judge_harmless(report, before, allowed)
