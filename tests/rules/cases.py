"""What the cases of rules are made of: what is audited, and what a rule must say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, ParamSpec

from mirage_gate import Finding, Location, Options, Report, Selection, Severity, config
from mirage_gate.agreed.lock import Lock, Locked
from mirage_gate.agreed.lock import decode as decode_lock
from mirage_gate.agreed.memory import Memory
from mirage_gate.agreed.waivers import Waiver
from mirage_gate.artifacts import pairs
from tests.audits import findings_of, findings_of_files
from tests.emitter import Model, Pair

Path = tuple[str | int, ...]
"""Where a value of the graph stands: ``("all_tasks", 5, "inputs", 0, "offset")``."""

CONFIG = "mirage-gate.toml"
LOCK = "wiring.lock.json"


class At(NamedTuple):
    """A line of a file that ends so."""

    file: str
    line: int


# -- Subjects: what is audited --------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """The two files of rank 0 as they are, whatever is in them."""

    cuda: str
    graph: str


@dataclass(frozen=True)
class Ranks:
    """Several ranks of one run, of which the user asked for some."""

    pairs: list[Pair]
    chosen: set[int]


@dataclass(frozen=True)
class Held:
    """A model, held to the lock of another; of all its ranks or of some."""

    now: Model
    before: Model
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Waived:
    """A rank, and a configuration with waivers."""

    pair: Pair
    config: str


Subject = Pair | Texts | list[Pair] | Ranks | Held | Waived | FilePath
"""A list of pairs is a run of several ranks; a path is a folder of files."""


def report_of(
    subject: Subject, options: Options | None = None, selection: Selection | None = None
) -> Report:
    """Audit a subject, from its texts or from files in a folder of its own."""
    if isinstance(subject, Pair):
        texts = subject.cuda_text(), subject.json_text()
        return findings_of(*texts, rank=subject.rank, options=options, selection=selection)
    if isinstance(subject, Texts):
        return findings_of(subject.cuda, subject.graph, options=options, selection=selection)
    if isinstance(subject, FilePath):
        return findings_of_files(pairs.find([str(subject)]), options, selection)
    with TemporaryDirectory() as name:
        folder = FilePath(name)
        memory, chosen = None, set[int]()
        if isinstance(subject, Held):
            memory = Memory(lock=lock_of(subject.before))
            subject.now.write(folder, ranks=subject.ranks)
        elif isinstance(subject, Waived):
            memory = Memory(waivers=_waivers(folder / CONFIG, subject.config))
            subject.pair.write(folder)
        else:
            chosen = subject.chosen if isinstance(subject, Ranks) else set()
            for pair in subject.pairs if isinstance(subject, Ranks) else subject:
                pair.write(folder)
        found = pairs.find([name], chosen)
        return findings_of_files(found, options, selection, memory=memory, chosen=bool(chosen))


def lock_of(model: Model) -> Locked:
    """The lock of a model, read from its file's text."""
    with TemporaryDirectory() as folder:
        model.write(folder)
        report = findings_of_files(pairs.find([folder]), summarize=True)
    return decode_lock(Lock.of(report.summaries).text().encode(), LOCK)


def _waivers(file: FilePath, text: str) -> tuple[Waiver, ...]:
    file.write_text(text)
    settings = config.load(file)
    rules = [waiver.rule for waiver in settings.waivers]
    return tuple(config.waivers(settings, str(file), rules))


# -- What is expected -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Expect:
    """A subject, and what the rule must say of it.

    A builder returns one where the place or the words come out only while it builds. What it
    leaves open is as the decorator says:

    - ``cuda``: a text; the finding is on the first line of the ``.cu`` with it. ``graph``: the
      path of a JSON value, or a function of the pair that gives it. ``at``: a line of any file.
      ``column``: the column there. None of them: line 1, as what is said of a whole file;
    - ``says``: words of the message; ``whole``: the message; ``hints``: words of the hint;
    - ``rank``, ``tensor``: whom it speaks of;
    - ``related``, ``trace``: places among its related ones; the steps of its trace, all of them;
      ``leads_to``: how the note of its last step starts;
    - ``once``: the rule says nothing else. ``alone``: no rule of these families (or ids) says
      anything, those in ``beside`` apart;
    - ``refuses``: the rank is not audited for it, and nothing else is said. ``passes``: nothing
      that is more than a note is said at all;
    - ``options``: what the user set; ``notes``: a silent rule may say what is a note.
    """

    subject: Subject
    severity: Severity | None = None
    cuda: str = ""
    graph: Path | Callable[[Pair], Path] = ()
    at: At | None = None
    column: int = 0
    says: tuple[str, ...] = ()
    whole: str = ""
    hints: str = ""
    rank: int | None = None
    tensor: str | None = None
    related: Sequence[Path | At] = ()
    trace: Sequence[Path | At] = ()
    leads_to: str = ""
    once: bool = False
    alone: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    refuses: bool = False
    passes: bool = False
    options: Options | None = None
    notes: bool = False


class Case(NamedTuple):
    """What is known of a case without running it."""

    rule: str
    fires: bool
    module: str


CASES: list[Case] = []
_P = ParamSpec("_P")


def fires(
    rule: str, severity: Severity = Severity.ERROR, **expected: Any
) -> Callable[[Callable[_P, Subject | Expect]], Callable[_P, None]]:
    """The rule must fire on what the function returns; see :class:`Expect`."""

    def decorate(build: Callable[_P, Subject | Expect]) -> Callable[_P, None]:
        return _test(Case(rule, True, build.__module__), build, {"severity": severity, **expected})

    return decorate


def silent(
    rule: str, **expected: Any
) -> Callable[[Callable[_P, Subject | Expect]], Callable[_P, None]]:
    """The rule must say nothing of what the function returns; see :class:`Expect`."""

    def decorate(build: Callable[_P, Subject | Expect]) -> Callable[_P, None]:
        return _test(Case(rule, False, build.__module__), build, expected)

    return decorate


def _test(
    case: Case, build: Callable[_P, Subject | Expect], expected: dict[str, Any]
) -> Callable[_P, None]:
    """A builder as a test of its own name, with its parameters and fixtures."""
    if not build.__name__.startswith("test_"):
        raise ValueError(f"{build.__name__}: a case is a test, and its name must start with test_")
    CASES.append(case)

    @wraps(build)
    def test(*args: _P.args, **kwargs: _P.kwargs) -> None:
        made = build(*args, **kwargs)
        made = made if isinstance(made, Expect) else Expect(made)
        filled = replace(made, **{k: v for k, v in expected.items() if not getattr(made, k)})
        report = report_of(filled.subject, filled.options, _asked(case.rule, filled))
        if case.fires:
            it_fires(case.rule, report, filled)
        else:
            it_is_silent(case.rule, report, filled)

    return test


def _asked(rule: str, case: Expect) -> Selection | None:
    """The rules that need to run for a case: all of them, where what the others say matters."""
    if case.passes or case.refuses or isinstance(case.subject, Waived):
        return None
    return Selection(select=(rule, *case.alone))


def it_fires(rule: str, report: Report, case: Expect) -> None:
    """Hold a report to what one rule must say in it."""
    _audited(rule, report, case)
    mine = _said_by(rule, report)
    assert mine, "the rule said nothing"
    assert not case.once or sum(one.rule == rule for one in report.findings) == 1, mine
    finding = _the_one(mine, case)
    assert finding.severity is case.severity
    assert case.column in (0, finding.location.column)
    assert not case.whole or finding.message == case.whole
    for words in case.says:
        assert words in finding.message
    assert finding.hint
    assert case.hints in finding.hint
    assert case.rank in (None, finding.rank)
    assert case.tensor in (None, finding.tensor)
    assert all(location.placed for location in (*finding.related, *finding.trace))
    for place in case.related:
        line = _line(place, case)
        assert any(_is_at(location, line) for location in finding.related), place
    if case.trace:
        assert len(finding.trace) == len(case.trace)
        for location, place in zip(finding.trace, case.trace, strict=True):
            assert _is_at(location, _line(place, case)), place
    if case.leads_to:
        assert finding.trace[-1].note.startswith(case.leads_to)
    if case.refuses:
        assert report.findings == (finding,)
        assert [rank.audited for rank in report.ranks] == [False]
        assert report.ranks[0].failure
        assert report.exit_status() == report.exit_status("never") == 2
    _alone(rule, report, case)


def it_is_silent(rule: str, report: Report, case: Expect) -> None:
    """Hold a report to one rule's silence."""
    _audited(rule, report, case)
    said = _said_by(rule, report)
    assert [f for f in said if not (case.notes and f.severity is Severity.NOTE)] == []
    assert not case.passes or report.exit_status("warning") == 0, report.findings
    _alone(rule, report, case)


def _said_by(rule: str, report: Report) -> list[Finding]:
    """What one rule says: for itself, or as something that follows from another finding."""
    every = (one for finding in report.findings for one in (finding, *finding.folded))
    return [one for one in every if one.rule == rule]


def _the_one(mine: list[Finding], case: Expect) -> Finding:
    """The rule's finding on the line where it must be, in the file where it must be."""
    place = _place(case)
    line = _line(place, case)
    there = [finding for finding in mine if _is_at(finding.location, line)]
    assert there, (place, [(f.location.path, f.location.line, f.message) for f in mine])
    wanted = [f for f in there if all(words in f.message for words in case.says)]
    return (wanted or there)[0]


def _place(case: Expect) -> Path | At:
    if case.at:
        return case.at
    if case.cuda:
        subject = case.subject
        text = subject.cuda if isinstance(subject, Texts) else _pair(case).cuda_text()
        return At(_end(case, ".cu"), line_of(text, case.cuda))
    if case.graph:
        return case.graph(_pair(case)) if callable(case.graph) else case.graph
    return At("", 1)


def _line(place: Path | At, case: Expect) -> At:
    return (
        place if isinstance(place, At) else At(_end(case, ".json"), graph_line(_pair(case), place))
    )


def _is_at(location: Location, line: At) -> bool:
    return location.path.endswith(line.file) and location.line == line.line


def _end(case: Expect, half: str) -> str:
    """How the name of the file ends that the finding is in."""
    several = isinstance(case.subject, (list, Ranks))
    return f"_{case.rank or 0}{half}" if several else half


def _pair(case: Expect) -> Pair:
    """The pair of the rank that the finding is on."""
    subject = case.subject
    if isinstance(subject, Ranks):
        subject = subject.pairs
    if isinstance(subject, list):
        return next(pair for pair in subject if pair.rank == (case.rank or 0))
    if isinstance(subject, Held):
        return subject.now.emit(case.rank or 0)
    if isinstance(subject, Waived):
        return subject.pair
    assert isinstance(subject, Pair), "give the place as a line: at=At(file, line)"
    return subject


def _audited(rule: str, report: Report, case: Expect) -> None:
    """The audit must have come to its end, but for files that cannot be taken in."""
    if not rule.startswith("MG9") and not case.refuses:
        assert not report.failed_ranks, report.failed_ranks[0].failure


def _alone(rule: str, report: Report, case: Expect) -> None:
    others = [f for f in report.findings if f.rule.startswith(case.alone or ("none",))]
    assert [f for f in others if f.rule not in (rule, *case.beside)] == []


# -- Places ---------------------------------------------------------------------------------------


def line_of(text: str, part: str) -> int:
    """The 1-based number of the first line that contains ``part``."""
    return next(n for n, line in enumerate(text.split("\n"), 1) if part in line)


def graph_line(pair: Pair, path: Path) -> int:
    """The line of a JSON value: where a marker in its place would stand."""
    marker = 987_654_321_012
    node: Any = pair.graph
    for part in path[:-1]:
        node = node[part]
    kept = node[path[-1]]
    node[path[-1]] = marker
    try:
        return line_of(pair.json_text(), str(marker))
    finally:
        node[path[-1]] = kept


def where(pair: Pair, task_type: int, *path: str | int, nth: int = 0) -> Path:
    """The path of something in the nth task of a type."""
    tasks = [i for i, t in enumerate(pair.graph["all_tasks"]) if t["task_type"] == task_type]
    return ("all_tasks", tasks[nth], *path)


def with_text(pair: Pair, text: str) -> Pair:
    """A pair whose .cu is this text."""

    class Texted(Pair):
        def cuda_text(self) -> str:
            return text

    pair.__class__ = Texted
    return pair
