"""What is kept of a rank once its graph is gone: enough to compare it with others.

A rank's facts are big and stay where they were derived. Its summary is small, says the same
on every host, and is all that the rules across ranks, the lock and the diff look at. So one
run over eight ranks, eight processes and eight files from eight hosts are the same thing.

``mirage-gate schema summary`` prints the schema of the file. Within a version, fields may be
added and none is changed or taken away.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mirage_gate import __version__
from mirage_gate.artifacts import files
from mirage_gate.artifacts.graph import NO_EVENT
from mirage_gate.facts.layers import spans
from mirage_gate.findings import Finding, Location
from mirage_gate.report import Coverage, RankReport

if TYPE_CHECKING:
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.layers import Operator

VERSION = 1
_MOST_EVENTS = 1 << 22

_T = TypeVar("_T")
Tasks = dict[int, int]
"""Task type code to how many."""


class Wired(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How one declared tensor is wired, by task type.

    ``inputs`` and ``outputs`` count the slots that carry it. ``read`` and ``written`` count
    the tasks that really do; None where that is the same. ``at`` is the declaration's line,
    column, end line and end column. ``layers`` are those that read a critical tensor.
    """

    name: str
    kind: str
    at: tuple[int, int, int, int]
    nbytes: int | None = None
    critical: bool = False
    inputs: Tasks = {}
    outputs: Tasks = {}
    read: Tasks | None = None
    written: Tasks | None = None
    layers: str = ""

    @property
    def readers(self) -> Tasks:
        """The tasks that really read it."""
        return self.inputs if self.read is None else self.read

    @property
    def writers(self) -> Tasks:
        """The tasks that really write it."""
        return self.outputs if self.written is None else self.written


class Collective(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operator that talks to other ranks. ``tiles`` are (data type, dims) of its slots."""

    task_type: int
    layer: int | None
    tasks: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tiles: tuple[tuple[int, tuple[int, ...]], ...]
    at: Location


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """Events ``first`` to ``last`` of rank ``gpu`` are each triggered ``count`` times."""

    gpu: int
    first: int
    last: int
    count: int


class Awaited(msgspec.Struct, frozen=True):
    """Events ``first`` to ``last`` wait for ``triggers``, of which ``local`` come from here."""

    first: int
    last: int
    triggers: int
    local: int
    at: Location


class LayerShape(msgspec.Struct, frozen=True):
    """One layer: its kind, how many operators and tasks, and a hash of how events join them.

    ``layer`` is None for what is outside of the layers.
    """

    layer: int | None
    kind: str
    operators: int
    tasks: int
    events: str


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rank.

    ``world_size`` is the number of ranks that the kernel was made for, None where the CUDA
    file does not say. ``gpu`` is the rank that the event ids say, and ``gpu_at`` where, if it
    is another one; ``named`` tells whether the files' names say one too. ``findings`` are
    those of this rank alone.
    """

    rank: int
    cuda_path: str
    graph_path: str
    audited: bool
    failure: str = ""
    world_size: int | None = None
    gpu: int | None = None
    gpu_at: Location | None = None
    named: bool = True
    tasks: int = 0
    events: int = 0
    task_types: dict[int, str] = {}
    tensors: tuple[Wired, ...] = ()
    layers: tuple[LayerShape, ...] = ()
    events_at: Location | None = None
    collectives: tuple[Collective, ...] = ()
    sent: tuple[Sent, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def family(self) -> tuple[str, str]:
        """The folder and the name's pattern: what files of one run have in common."""
        from mirage_gate.artifacts.pairs import match

        path = self.graph_path or self.cuda_path
        found = match(PurePath(path).name)
        return str(PurePath(path).parent), found[0].graph if found else ""

    def tensor(self, name: str) -> Wired | None:
        """Give one tensor, or None if it is not declared."""
        return next((wired for wired in self.tensors if wired.name == name), None)

    def declared_at(self, wired: Wired, note: str = "") -> Location:
        """Point at a tensor's declaration."""
        return Location(self.cuda_path, *wired.at, note=note)

    def start(self, note: str = "") -> Location:
        """Point at the beginning of the CUDA file."""
        return Location(self.cuda_path or self.graph_path, 1, 1, 1, 1, note=note)

    def type_name(self, code: int) -> str:
        """Name a task type."""
        return self.task_types.get(code, f"task type {code}")

    def report(self) -> RankReport:
        """Give the rank as a report shows it."""
        return RankReport(
            rank=self.rank,
            cuda_path=self.cuda_path,
            graph_path=self.graph_path,
            audited=self.audited,
            failure=self.failure,
            tasks=self.tasks,
            events=self.events,
            tensors=len(self.tensors),
            coverage=tuple(self._coverage()),
            type_names=self.task_types,
        )

    def _coverage(self) -> Iterator[Coverage]:
        for wired in self.tensors:
            yield Coverage(
                tensor=wired.name,
                kind=wired.kind,
                nbytes=wired.nbytes,
                location=self.declared_at(wired),
                critical=wired.critical,
                input_refs=sum(wired.inputs.values()),
                output_refs=sum(wired.outputs.values()),
                consumers=sum(wired.readers.values()),
                producers=sum(wired.writers.values()),
                consumer_task_types=tuple(sorted(wired.readers)),
                producer_task_types=tuple(sorted(wired.writers)),
            )


class Document(msgspec.Struct, frozen=True):
    """The file: the summaries of one run."""

    version: int
    tool: str
    ranks: tuple[Summary, ...]


class NotASummary(Exception):
    """A file that is no summary; the message says why."""


def encode(summaries: Iterable[Summary]) -> str:
    """Write summaries as a file's text."""
    document = Document(VERSION, f"mirage-gate {__version__}", tuple(summaries))
    return msgspec.json.encode(document).decode() + "\n"


def decode(data: bytes) -> tuple[Summary, ...]:
    """Read a file's bytes. Raises :class:`NotASummary`."""
    try:
        version = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("version")
        if version is not None and bytes(version) != b"%d" % VERSION:
            raise NotASummary(f"is version {bytes(version).decode()}, and {VERSION} is known here")
        ranks = msgspec.json.decode(data, type=Document).ranks
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotASummary(f"is no summary: {error}") from error
    named = [(sent.first, sent.last) for rank in ranks for sent in rank.sent]
    named += [(awaited.first, awaited.last) for rank in ranks for awaited in rank.awaited]
    sound = all(0 <= first <= last < _MOST_EVENTS for first, last in named)
    if not sound or sum(last - first for first, last in named) > _MOST_EVENTS * len(ranks):
        raise NotASummary("is no summary: it names events that no graph can have")
    return ranks


def read(path: str) -> tuple[Summary, ...]:
    """Read one file. Raises :class:`NotASummary` and :class:`OSError`."""
    return decode(files.read_bytes(path))


# --- Making one ------------------------------------------------------------------------


def outline(facts: RankFacts) -> Summary:
    """Say who the rank is, and no more: enough where there is nothing to compare it with."""
    from mirage_gate.artifacts.pairs import match

    found = match(PurePath(facts.graph_path).name)
    named = found is None or "{}" in found[0].graph
    gpu = facts.events.gpu
    other = named and gpu != facts.rank
    return Summary(
        rank=facts.rank,
        cuda_path=facts.cuda.path,
        graph_path=facts.graph_path,
        audited=True,
        world_size=facts.cuda.world_size,
        gpu=gpu,
        gpu_at=facts.in_graph("all_tasks", 1, "trigger_event") if other else None,
        named=named,
        tasks=len(facts.graph.tasks),
        events=len(facts.graph.events),
    )


def _tuple(items: Iterable[_T]) -> tuple[_T, ...]:
    """Make a tuple that, if it is empty, msgspec knows for the default and leaves out.

    It goes by identity, and Python 3.10 makes a new empty tuple of an empty iterator.
    """
    return tuple(items) or ()


def summarize(facts: RankFacts) -> Summary:
    """Sum up a rank. Its places in the graph are pointers still."""
    types = sorted({group.task_type for group in facts.wiring.groups})
    return msgspec.structs.replace(
        outline(facts),
        task_types={code: facts.task_type(code).name for code in types},
        tensors=_tuple(_tensors(facts)),
        layers=_tuple(_layers(facts)),
        events_at=facts.in_graph("all_events"),
        collectives=_tuple(_collectives(facts)),
        sent=_tuple(_sent(facts)),
        awaited=_tuple(_awaited(facts)),
    )


def pointers(summary: Summary) -> set[str]:
    """List the places that are not lines yet."""
    return {place.pointer for place in _places(summary) if not place.placed}


def _places(summary: Summary) -> Iterator[Location]:
    for place in (summary.gpu_at, summary.events_at):
        if place is not None:
            yield place
    yield from (collective.at for collective in summary.collectives)
    yield from (awaited.at for awaited in summary.awaited)


def placed(summary: Summary, place: Callable[[Location], Location]) -> Summary:
    """Give the summary with every place turned into a line."""
    return msgspec.structs.replace(
        summary,
        gpu_at=summary.gpu_at and place(summary.gpu_at),
        events_at=summary.events_at and place(summary.events_at),
        collectives=_tuple(
            msgspec.structs.replace(one, at=place(one.at)) for one in summary.collectives
        ),
        awaited=_tuple(msgspec.structs.replace(one, at=place(one.at)) for one in summary.awaited),
    )


def _tensors(facts: RankFacts) -> Iterator[Wired]:
    of_group = facts.layers.of_group
    for name, declaration in facts.declared.items():
        inputs: Tasks = {}
        outputs: Tasks = {}
        read: Tasks = {}
        written: Tasks = {}
        reading: set[int] = set()
        writing: set[int] = set()
        for access in facts.wiring.of(name):
            group = access.group
            task_type, count, number = group.task_type, group.count, group.number
            side = inputs if access.is_input else outputs
            side[task_type] = side.get(task_type, 0) + count
            if access.reads and number not in reading:
                reading.add(number)
                read[task_type] = read.get(task_type, 0) + count
            if access.writes and number not in writing:
                writing.add(number)
                written[task_type] = written.get(task_type, 0) + count
        at = declaration.location
        critical = facts.is_critical(declaration)
        layers = {of_group[number] for number in reading} - {None} if critical else set()
        yield Wired(
            name=name,
            kind=declaration.kind,
            at=(at.line, at.column, at.end_line, at.end_column),
            nbytes=declaration.nbytes,
            critical=critical,
            inputs=dict(sorted(inputs.items())),
            outputs=dict(sorted(outputs.items())),
            read=None if read == inputs else dict(sorted(read.items())),
            written=None if written == outputs else dict(sorted(written.items())),
            layers=spans(sorted(layer for layer in layers if layer is not None)),
        )


def _layers(facts: RankFacts) -> Iterator[LayerShape]:
    outside = [o for o in facts.layers.operators if o.place is None]
    yield _shape(facts, None, "", outside)
    for layer, operators in facts.layers.by_layer.items():
        yield _shape(facts, layer, facts.siblings.kind_of(layer), operators)


def _shape(facts: RankFacts, layer: int | None, kind: str, operators: list[Operator]) -> LayerShape:
    return LayerShape(
        layer=layer,
        kind=kind,
        operators=len(operators),
        tasks=sum(operator.tasks for operator in operators),
        events=_event_hash(facts, operators),
    )


def _event_hash(facts: RankFacts, operators: list[Operator]) -> str:
    """Hash who waits for which event and triggers which, as seen from the layer's first event.

    The rank in an id, and how many events came before the layer, do not count.
    """
    events, count = facts.events, len(facts.graph.events)
    numbers = array("q")
    groups = [group for operator in operators for group in operator.groups]
    known = [p for g in groups for p in (events.waits[g.number], events.fires[g.number]) if p >= 0]
    base = min(known, default=0)
    for group in groups:
        waits, fires = events.waits[group.number], events.fires[group.number]
        needs = facts.graph.events[waits].num_triggers if 0 <= waits < count else -1
        numbers.extend((group.task_type, group.count, waits - base, fires - base, needs))
    from hashlib import blake2b  # slow to load, and only a summary needs it

    return blake2b(numbers.tobytes(), digest_size=8).hexdigest()


def _collectives(facts: RankFacts) -> Iterator[Collective]:
    tensors = facts.graph.tensors
    for operator in facts.layers.operators:
        if not facts.task_type(operator.task_type).collective:
            continue
        first = operator.groups[0]
        tiles = [tensors[number] for number in (*first.inputs, *first.outputs)]
        yield Collective(
            task_type=operator.task_type,
            layer=operator.place,
            tasks=operator.tasks,
            inputs=tuple(dict.fromkeys(name.name for name in operator.names(True))),
            outputs=tuple(dict.fromkeys(name.name for name in operator.names(False))),
            tiles=tuple((tile.data_type, tile.dims) for tile in tiles),
            at=facts.in_graph("all_tasks", operator.first, "task_type"),
        )


def _sent(facts: RankFacts) -> Iterator[Sent]:
    from mirage_gate.facts.events import gpu_of, position_of, tag_of

    counts: Counter[tuple[int, int]] = Counter()
    for group in facts.wiring.groups:
        if group.trigger != NO_EVENT and tag_of(group.trigger):
            counts[gpu_of(group.trigger), position_of(group.trigger)] += group.count
    run: Sent | None = None
    for (gpu, position), count in sorted(counts.items()):
        if run and (run.gpu, run.last + 1, run.count) == (gpu, position, count):
            run = Sent(gpu, run.first, position, count)
            continue
        if run:
            yield run
        run = Sent(gpu, position, position, count)
    if run:
        yield run


def _awaited(facts: RankFacts) -> Iterator[Awaited]:
    """Give the events that other ranks trigger: those that this rank triggers on them, too."""
    from mirage_gate.facts.events import position_of, tag_of

    events = facts.graph.events
    remote: set[int] = set()
    waiting: dict[int, Operator] = {}
    local: Counter[int] = Counter()
    for operator in facts.layers.operators:
        for group in operator.groups:
            if group.dependent != NO_EVENT:
                waiting.setdefault(position_of(group.dependent), operator)
                if tag_of(group.dependent):
                    remote.add(position_of(group.dependent))
            if group.trigger != NO_EVENT:
                if tag_of(group.trigger):
                    remote.add(position_of(group.trigger))
                else:
                    local[position_of(group.trigger)] += group.count
    run: Awaited | None = None
    owner: Operator | None = None
    for position in sorted(remote):
        if position >= len(events):
            break
        here = (events[position].num_triggers, local[position])
        waits = waiting.get(position)
        goes_on = run and owner is waits and run.last + 1 == position
        if run and goes_on and (run.triggers, run.local) == here:
            run = msgspec.structs.replace(run, last=position)
            continue
        if run:
            yield run
        owner = waits
        at = (
            facts.in_graph("all_tasks", waits.first, "dependent_event")
            if waits
            else facts.in_graph("all_events", position, "num_triggers")
        )
        run = Awaited(position, position, *here, at)
    if run:
        yield run


# --- Several ---------------------------------------------------------------------------


class Ranks(msgspec.Struct, frozen=True):
    """The ranks of one run, by number. ``chosen``: the user asked for these alone."""

    summaries: tuple[Summary, ...]
    chosen: bool = False

    @property
    def audited(self) -> tuple[Summary, ...]:
        """Those of which something is known."""
        return tuple(summary for summary in self.summaries if summary.audited)

    @property
    def world_size(self) -> int | None:
        """For how many ranks the kernels were made; None where they do not say or disagree."""
        sizes = {summary.world_size for summary in self.audited}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def complete(self) -> bool:
        """Whether all of the kernel's ranks are here, each once and audited."""
        numbers = [summary.rank for summary in self.summaries if summary.audited]
        return self.world_size is not None and sorted(numbers) == list(range(self.world_size))


def runs(summaries: Iterable[Summary], chosen: bool = False) -> list[Ranks]:
    """Put together what belongs to one run: files of one folder with one pattern of names."""
    families: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        families.setdefault(summary.family, []).append(summary)
    return [
        Ranks(tuple(sorted(family, key=lambda summary: summary.rank)), chosen)
        for _, family in sorted(families.items())
    ]
