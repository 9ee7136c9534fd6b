"""The engine: read a rank, derive its facts, ask every enabled rule, place what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import PurePath

import msgspec

from mirage_gate.artifacts import cuda as cuda_files
from mirage_gate.artifacts import files, graph
from mirage_gate.artifacts.pairs import Pair
from mirage_gate.facts import Options, RankFacts
from mirage_gate.facts.wiring import tasks_in, types_of
from mirage_gate.findings import Finding, Location, Severity, in_order
from mirage_gate.report import Coverage, RankReport, Report
from mirage_gate.rules.base import Rule, all_rules

SHOWN_SCHEMA_ERRORS = 50
_BOM = b"\xef\xbb\xbf"


class Selection(msgspec.Struct, frozen=True):
    """Which rules speak, and how loud.

    ``select`` and ``ignore`` are rule ids, families (``MG1``) or globs (``MG10?``); an empty
    ``select`` means all. ``severities`` maps a rule id to the severity its findings get.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: dict[str, Severity] = msgspec.field(default_factory=dict)

    def wants(self, rule: str) -> bool:
        """Whether the rule's findings are to be reported."""
        if rule.startswith("MG9"):
            return True  # what could not be read can be neither selected nor ignored away
        if any(names(word, rule) for word in self.ignore):
            return False
        return not self.select or any(names(word, rule) for word in self.select)

    def weigh(self, finding: Finding) -> Finding:
        """Give a finding the severity that the user set for its rule."""
        severity = self.severities.get(finding.rule, finding.severity)
        if severity is finding.severity:
            return finding
        return msgspec.structs.replace(finding, severity=severity)


def names(word: str, rule: str) -> bool:
    return rule == word or rule.startswith(word) or fnmatchcase(rule, word)


class _Stop(Exception):
    """The audit of a rank ends here: what to report, and why in a sentence."""

    def __init__(self, failure: str, findings: Iterable[Finding]) -> None:
        super().__init__(failure)
        self.failure = failure
        self.findings = tuple(findings)


class _Half(msgspec.Struct):
    """One file of a pair: its path as shown, and how to get its bytes."""

    path: str
    read: Callable[[], bytes]


def check(
    pairs: Iterable[Pair],
    options: Options | None = None,
    selection: Selection | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Audit pairs of files on disk.

    ``progress`` is called with a short text before each rank. Never raises for what the
    files contain: a rank that cannot be audited says so in its :class:`RankReport`.
    """
    started = time.perf_counter()
    options, selection = options or Options(), selection or Selection()
    ranks: list[RankReport] = []
    findings: list[Finding] = []
    for pair in pairs:
        progress(f"auditing rank {pair.rank}")
        rank, found = _audit_pair(pair, options, selection)
        ranks.append(rank)
        findings.extend(found)
    return Report(tuple(ranks), in_order(findings), time.perf_counter() - started)


def audit(
    cuda_code: str | bytes,
    task_graph: str | bytes,
    *,
    rank: int = 0,
    options: Options | None = None,
    selection: Selection | None = None,
    cuda_path: str = "",
    graph_path: str = "",
) -> Report:
    """Audit one rank's two texts, before they are files: for a builder to call.

    The paths are only shown, never opened; their defaults are the demos' names for the rank.
    """
    started = time.perf_counter()
    cuda_half = _Half(cuda_path or f"kernel_{rank}.cu", lambda: _as_bytes(cuda_code))
    graph_half = _Half(graph_path or f"task_graph_{rank}.json", lambda: _as_bytes(task_graph))
    report, findings = _audit_halves(
        rank, cuda_half, graph_half, options or Options(), selection or Selection()
    )
    return Report((report,), in_order(findings), time.perf_counter() - started)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", errors="replace") if isinstance(text, str) else text


def _audit_pair(
    pair: Pair, options: Options, selection: Selection
) -> tuple[RankReport, list[Finding]]:
    if not pair.whole:
        return _no_partner(pair)
    return _audit_halves(
        pair.rank,
        _Half(pair.cuda, lambda: files.read(pair.cuda)),
        _Half(pair.graph, lambda: files.read(pair.graph)),
        options,
        selection,
    )


def open_pair(pair: Pair, options: Options) -> RankFacts | str:
    """Read one pair and give its facts, or say in a sentence why that cannot be."""
    if not pair.whole:
        return _no_partner(pair)[0].failure
    try:
        cuda = _read_cuda(pair.rank, _Half(pair.cuda, lambda: files.read(pair.cuda)))
        graph_half = _Half(pair.graph, lambda: files.read(pair.graph))
        return _read_graph(pair.rank, cuda, graph_half, options)[0]
    except _Stop as stop:
        return stop.failure


def _no_partner(pair: Pair) -> tuple[RankReport, list[Finding]]:
    here = pair.cuda or pair.graph
    name = PurePath(pair.expected).name
    if here:
        message = f"{PurePath(here).name} has no partner: {name} is not beside it"
    else:
        message = f"rank {pair.rank} has neither file: {name} and its partner are not there"
    finding = Finding(
        rule="MG903",
        severity=Severity.ERROR,
        message=message,
        location=Location(here or pair.expected, 1, 1, 1, 1),
        hint="put both files of the rank into one folder, from one build",
        rank=pair.rank,
    )
    return RankReport(pair.rank, pair.cuda, pair.graph, audited=False, failure=message), [finding]


def _audit_halves(
    rank: int, cuda_half: _Half, graph_half: _Half, options: Options, selection: Selection
) -> tuple[RankReport, list[Finding]]:
    try:
        cuda = _read_cuda(rank, cuda_half)
        facts, data = _read_graph(rank, cuda, graph_half, options)
    except _Stop as stop:
        report = RankReport(
            rank, cuda_half.path, graph_half.path, audited=False, failure=stop.failure
        )
        return report, [selection.weigh(finding) for finding in stop.findings]
    found: list[Finding] = []
    failure = ""
    for rule in all_rules():
        if rule.check is None or not selection.wants(rule.id):
            continue
        try:
            found.extend(selection.weigh(finding) for finding in rule.check(facts))
        except Exception as error:
            failure = f"internal error in {rule.id}: {type(error).__name__}: {error}"
            break
    report = RankReport(
        rank=rank,
        cuda_path=cuda_half.path,
        graph_path=graph_half.path,
        audited=not failure,
        failure=failure,
        tasks=len(facts.graph.tasks),
        events=len(facts.graph.events),
        tensors=len(facts.declared),
        coverage=tuple(_coverage(facts)),
    )
    return report, _placed(found, graph_half.path, data)


def _read_cuda(rank: int, half: _Half) -> cuda_files.CudaSource:
    try:
        cuda = cuda_files.parse(half.path, half.read())
    except files.Unreadable as error:
        raise _unreadable(rank, half.path, str(error), error.location) from error
    if cuda.declarations:
        return cuda
    if cuda.embedded:
        message = "carries its tasks itself and declares no tensor: there is no graph to audit"
        rule, location = "MG905", cuda.embedded
    else:
        message = "declares no tensor: it has no all_tensors statement"
        rule, location = "MG902", Location(half.path, 1, 1, 1, 1)
    text = f"{PurePath(half.path).name} {message}"
    finding = Finding(
        rule=rule,
        severity=Severity.ERROR,
        message=text,
        location=location,
        hint="audit the kernel that MPK emitted with the JSON format on",
        rank=rank,
    )
    raise _Stop(text, [finding])


def _unreadable(rank: int, path: str, reason: str, location: Location) -> _Stop:
    text = f"{PurePath(path).name} {reason}"
    finding = Finding(
        rule="MG902",
        severity=Severity.ERROR,
        message=text,
        location=location,
        hint="emit the artifacts again and let the build finish",
        rank=rank,
    )
    return _Stop(text, [finding])


def _read_graph(
    rank: int, cuda: cuda_files.CudaSource, half: _Half, options: Options
) -> tuple[RankFacts, bytes]:
    from mirage_gate.artifacts import positions

    try:
        data = half.read().removeprefix(_BOM)
        loaded = graph.load(data)
    except files.Unreadable as error:
        raise _unreadable(rank, half.path, str(error), error.location) from error
    except graph.Malformed as error:
        at = positions.Lines(half.path, data).location(error.offset, error.offset)
        raise _unreadable(rank, half.path, f"is not JSON: {error}", at) from error
    if isinstance(loaded, graph.Refusal):
        findings = list(_schema_findings(rank, half.path, data, loaded))
        count = len(loaded.errors)
        errors = f"{'at least ' * bool(loaded.more)}{count} error{'s' * (count != 1)}"
        raise _Stop(f"{PurePath(half.path).name} breaks the schema ({errors})", findings)
    asked = set(cuda.loader_fields)
    fields = asked if asked - graph.KNOWN_FIELDS or loaded.lacks_metadata else set()
    absent = graph.absent(data, sorted(fields)) if fields else {}
    return RankFacts(rank, cuda, loaded, half.path, options, absent), data


def _schema_findings(
    rank: int, path: str, data: bytes, refusal: graph.Refusal
) -> Iterator[Finding]:
    from mirage_gate.artifacts import positions

    shown = refusal.errors[:SHOWN_SCHEMA_ERRORS]
    pointers = [positions.pointer_text(error.pointer) for error in shown]
    places = positions.place(path, data, pointers)
    hint = "emit the graph again; `mirage-gate schema task-graph` prints the contract"
    for error, pointer in zip(shown, pointers, strict=True):
        limit = error.keyword == "maxItems"
        yield Finding(
            rule="MG504" if limit else "MG901",
            severity=Severity.ERROR,
            message=f"{pointer or '/'}: expected {error.expected}, found {error.found}",
            location=places[pointer],
            hint="split the operator: the runtime has no room for more" if limit else hint,
            rank=rank,
        )
    left = len(refusal.errors) - len(shown)
    if left or refusal.more:
        more = f" and {refusal.more} more tasks, events or first tasks" if refusal.more else ""
        last = places[pointers[-1]]
        yield Finding(
            rule="MG901",
            severity=Severity.ERROR,
            message=(
                f"{left} more schema errors{more} are not listed "
                f"({len(refusal.errors)} were explained)"
            ),
            location=last,
            hint=hint,
            rank=rank,
        )


def _placed(findings: list[Finding], graph_path: str, data: bytes) -> list[Finding]:
    """Turn every JSON pointer that a finding carries into a line, in one scan."""
    wanted = {
        location.pointer
        for finding in findings
        for location in (finding.location, *finding.related, *finding.trace)
        if not location.placed
    }
    if not wanted:
        return findings
    from mirage_gate.artifacts import positions

    places = positions.place(graph_path, data, wanted)

    def place(location: Location) -> Location:
        return location if location.placed else places[location.pointer].saying(location.note)

    return [
        msgspec.structs.replace(
            finding,
            location=place(finding.location),
            related=tuple(map(place, finding.related)),
            trace=tuple(map(place, finding.trace)),
        )
        for finding in findings
    ]


def _coverage(facts: RankFacts) -> Iterator[Coverage]:
    wiring = facts.wiring
    for name, declaration in facts.declared.items():
        consumers, producers = wiring.consumers(name), wiring.producers(name)
        yield Coverage(
            tensor=name,
            kind=declaration.kind,
            nbytes=declaration.nbytes,
            location=declaration.location,
            critical=facts.is_critical(declaration),
            input_refs=wiring.input_refs(name),
            output_refs=wiring.output_refs(name),
            consumers=tasks_in(consumers),
            producers=tasks_in(producers),
            consumer_task_types=types_of(consumers),
            producer_task_types=types_of(producers),
        )


def rules_in(selection: Selection) -> tuple[Rule, ...]:
    """List the rules that a selection leaves on."""
    return tuple(rule for rule in all_rules() if selection.wants(rule.id))
