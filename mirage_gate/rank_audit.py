"""The audit of one rank: read it, derive its facts, ask every enabled rule, place what they say.

What a rank is compared with (other ranks, a lock) needs its summary only:
:mod:`mirage_gate.across`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

import msgspec

from mirage_gate.artifacts import cuda as cuda_files
from mirage_gate.artifacts import files, graph, loader
from mirage_gate.artifacts.graph_text import GraphText
from mirage_gate.artifacts.pairs import Pair
from mirage_gate.facts import Options, RankFacts
from mirage_gate.facts.regions import size_of
from mirage_gate.facts.wiring import Group, tasks_in, types_of
from mirage_gate.findings import Finding, Location, Severity
from mirage_gate.report import Coverage, LayerUse, RankReport
from mirage_gate.rules.base import Rule, all_rules
from mirage_gate.selection import Selection
from mirage_gate.summary import Summary

SHOWN_SCHEMA_ERRORS = 50

MANY = 50_000
"""From so many tasks on a second process saves more than it costs."""

_ASIDE = frozenset({"MG3", "MG4", "MG5"})
"""About half of the work, and little of what the other rules need."""


class _Stop(Exception):
    """The audit of a rank ends here: what to report, and why in a sentence."""

    def __init__(self, failure: str, findings: Iterable[Finding]) -> None:
        super().__init__(failure)
        self.failure = failure
        self.findings = tuple(findings)


class Half(msgspec.Struct):
    """One file of a pair: its path as shown, and its text where it is not to be read there."""

    path: str
    text: bytes | None = None

    def read(self) -> bytes:
        return files.read(self.path) if self.text is None else self.text

    def open(self) -> GraphText:
        if self.text is None:
            return GraphText.open(self.path)
        return GraphText.of(self.path, self.text)


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
    if not pair.whole:
        failure, findings = _no_partner(pair)
        return _failed(pair.rank, pair.cuda, pair.graph, failure, findings)
    return audit_halves(pair.rank, Half(pair.cuda), Half(pair.graph), job)


def not_audited(pair: Pair, failure: str) -> Outcome:
    """Say of one pair that its audit came to nothing, and why."""
    return _failed(pair.rank, pair.cuda, pair.graph, failure, [])


def _failed(
    rank: int, cuda_path: str, graph_path: str, failure: str, findings: Iterable[Finding]
) -> Outcome:
    report = RankReport(rank, cuda_path, graph_path, audited=False, failure=failure)
    summary = Summary(
        rank, cuda_path, graph_path, audited=False, failure=failure, findings=tuple(findings)
    )
    return Outcome(report, summary)


def open_pair(pair: Pair, options: Options) -> RankFacts | str:
    """Read one pair and give its facts, or say in a sentence why that cannot be."""
    if not pair.whole:
        return _no_partner(pair)[0]
    try:
        cuda = _read_cuda(pair.rank, Half(pair.cuda))
        with _opened(pair.rank, Half(pair.graph)) as text:
            return _read_graph(pair.rank, cuda, text, options)
    except _Stop as stop:
        return stop.failure


def _no_partner(pair: Pair) -> tuple[str, list[Finding]]:
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
    return message, [finding]


@loader.without_collector
def audit_halves(rank: int, cuda_half: Half, graph_half: Half, job: Job) -> Outcome:
    try:
        cuda = _read_cuda(rank, cuda_half)
        with _opened(rank, graph_half) as text:
            facts = _read_graph(rank, cuda, text, job.options)
            try:
                return _judge(facts, text, job)
            finally:
                facts.release()
    except _Stop as stop:
        findings = [job.selection.weigh(finding) for finding in stop.findings]
        return _failed(rank, cuda_half.path, graph_half.path, stop.failure, findings)
    except Exception as error:  # a mistake of ours must not pass a rank
        failure = f"internal error: {type(error).__name__}: {error}"
        return _failed(rank, cuda_half.path, graph_half.path, failure, [])


Answer = tuple[list[Finding], str]
"""What rules say, and what went wrong with them: empty for nothing."""


def _ask(facts: RankFacts, rules: Iterable[Rule], selection: Selection) -> Answer:
    found: list[Finding] = []
    for rule in rules:
        try:
            if rule.check is not None:
                found.extend(selection.weigh(finding) for finding in rule.check(facts))
        except Exception as error:
            return found, f"internal error in {rule.id}: {type(error).__name__}: {error}"
    return found, ""


def _ask_all(facts: RankFacts, job: Job) -> Answer:
    """Ask every enabled rule; of a big graph those on order, events and kernels on the side."""
    wanted = [r for r in all_rules() if r.scope == "rank" and job.selection.wants(r.id)]
    aside = [rule for rule in wanted if rule.family in _ASIDE]
    if not (job.beside and len(facts.graph.tasks) >= MANY and 0 < len(aside) < len(wanted)):
        return _ask(facts, wanted, job.selection)
    from mirage_gate import workers

    if not workers.can_fork():
        return _ask(facts, wanted, job.selection)
    for name in facts.regions.names:
        facts.regions.of(name)  # what both sides need is worked out once
    process = workers.start(_ask, facts, aside, job.selection)
    try:
        found, failure = _ask(facts, [r for r in wanted if r not in aside], job.selection)
    except BaseException:
        process.stop()
        raise
    answer = process.wait()
    if isinstance(answer, workers.Broke):
        return found, failure or answer.reason
    found += answer[0]
    return sorted(found, key=lambda finding: finding.rule), failure or answer[1]


def _judge(facts: RankFacts, text: GraphText, job: Job) -> Outcome:
    """Ask every enabled rule, and place what they say."""
    from mirage_gate import summary as summaries

    found, failure = _ask_all(facts, job)
    report = RankReport(
        rank=facts.rank,
        cuda_path=facts.cuda.path,
        graph_path=facts.graph_path,
        audited=not failure,
        failure=failure,
        tasks=len(facts.graph.tasks),
        events=len(facts.graph.events),
        tensors=len(facts.declared),
        coverage=tuple(_coverage(facts, job.by_layer)),
        type_names={
            code: facts.task_type(code).name
            for code in sorted({group.task_type for group in facts.wiring.groups})
        },
    )
    summary = summaries.summarize(facts) if job.summarize else summaries.outline(facts)
    place = _placer(found, summaries.pointers(summary), facts.rank, text)
    summary = msgspec.structs.replace(
        summaries.placed(summary, place),
        audited=not failure,
        failure=failure,
        findings=tuple(
            msgspec.structs.replace(
                finding,
                location=place(finding.location),
                related=tuple(map(place, finding.related)),
                trace=tuple(map(place, finding.trace)),
            )
            for finding in found
        ),
    )
    return Outcome(report, summary)


def _read_cuda(rank: int, half: Half) -> cuda_files.CudaSource:
    try:
        cuda = cuda_files.parse(half.path, half.read())
    except files.Unreadable as error:
        raise _unreadable(rank, half.path, str(error), error.location) from error
    if cuda.unclosed:
        reason = f"ends in the middle: the block opened on line {cuda.unclosed.line} never closes"
        raise _unreadable(rank, half.path, reason, cuda.unclosed)
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


def _opened(rank: int, half: Half) -> GraphText:
    try:
        return half.open()
    except files.Unreadable as error:
        raise _unreadable(rank, half.path, str(error), error.location) from error


def _read_graph(
    rank: int, cuda: cuda_files.CudaSource, text: GraphText, options: Options
) -> RankFacts:
    try:
        loaded = loader.load(text)
        if isinstance(loaded, graph.Refusal):
            findings = list(_schema_findings(rank, text, loaded))
            count = len(loaded.errors)
            errors = f"{'at least ' * bool(loaded.more)}{count} error{'s' * (count != 1)}"
            raise _Stop(f"{PurePath(text.path).name} breaks the schema ({errors})", findings)
        absent = loader.absent(loaded, text, cuda.loader_fields)
    except files.Unreadable as error:
        raise _unreadable(rank, text.path, str(error), error.location) from error
    except graph.Malformed as error:
        raise _unreadable(rank, text.path, f"is not JSON: {error}", error.location) from error
    return RankFacts(rank, cuda, loaded, text.path, options, absent)


def _schema_findings(rank: int, text: GraphText, refusal: graph.Refusal) -> Iterator[Finding]:
    from mirage_gate.artifacts import positions

    shown = refusal.errors[:SHOWN_SCHEMA_ERRORS]
    pointers = [positions.pointer_text(error.pointer) for error in shown]
    places = text.place(pointers)
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


def _placer(
    findings: Iterable[Finding], more: Iterable[str], rank: int, text: GraphText
) -> Callable[[Location], Location]:
    """Give a function that turns the JSON pointers of findings, and some more, into lines."""
    wanted = {
        location.pointer
        for finding in findings
        for location in (finding.location, *finding.related, *finding.trace)
        if not location.placed
    }.union(more)
    try:
        places = text.place(wanted) if wanted else {}
    except files.Unreadable as error:
        raise _unreadable(rank, text.path, str(error), error.location) from error
    return lambda location: (
        location if location.placed else places[location.pointer].saying(location.note)
    )


def _coverage(facts: RankFacts, by_layer: bool) -> Iterator[Coverage]:
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
            layers=_layer_uses(facts, name) if by_layer else (),
        )


def _layer_uses(facts: RankFacts, name: str) -> tuple[LayerUse, ...]:
    """Give what each layer does with a tensor, the tasks outside of all layers first."""
    tensors, of_group = facts.graph.tensors, facts.layers.of_group
    readers: dict[int | None, dict[int, Group]] = {}
    writers: dict[int | None, dict[int, Group]] = {}
    tiles: dict[int | None, set[int]] = {}
    for access in facts.wiring.of(name):
        group = access.group
        layer = of_group[group.number]
        if access.reads:
            readers.setdefault(layer, {})[group.number] = group
            tiles.setdefault(layer, set()).add(access.tensor)
        if access.writes:
            writers.setdefault(layer, {})[group.number] = group
    uses = []
    for layer in sorted({*readers, *writers}, key=lambda layer: -1 if layer is None else layer):
        reading = list(readers.get(layer, {}).values())
        uses.append(
            LayerUse(
                layer=layer,
                consumers=tasks_in(reading),
                producers=tasks_in(writers.get(layer, {}).values()),
                nbytes=sum(size_of(tensors[tile]) for tile in tiles.get(layer, ())),
                first_consumer=min((group.first for group in reading), default=-1),
                consumer_task_types=types_of(reading),
            )
        )
    return tuple(uses)
