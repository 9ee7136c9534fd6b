"""Reading a pair: two files become the facts of a rank, or a refusal with a place.

What cannot be taken in is a finding of the MG9 family, made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

import msgspec

from mirage_gate.artifacts import cuda as cuda_files
from mirage_gate.artifacts import files, graph, loader
from mirage_gate.artifacts.graph_text import GraphText
from mirage_gate.artifacts.pairs import Pair
from mirage_gate.facts import Options, RankFacts
from mirage_gate.findings import Finding, Location
from mirage_gate.rules.base import Rule
from mirage_gate.rules.input import embedded_graph, no_partner, schema, unreadable
from mirage_gate.rules.kernels import limits

SHOWN_SCHEMA_ERRORS = 50


class Refused(Exception):
    """The files cannot be taken in: why in a sentence, and what to report."""

    def __init__(self, failure: str, findings: Iterable[Finding]) -> None:
        super().__init__(failure)
        self.failure = failure
        self.findings = tuple(findings)


class Half(msgspec.Struct):
    """One file of a pair: its path as shown, and its text where it is not to be read there."""

    path: str
    text: bytes | None = None

    def read(self) -> bytes:
        """Give its bytes. Raises :class:`files.Unreadable`."""
        return files.read(self.path) if self.text is None else self.text

    def open(self) -> GraphText:
        """Open it as a graph's text. Raises :class:`files.Unreadable`."""
        if self.text is None:
            return GraphText.open(self.path)
        return GraphText.of(self.path, self.text)


@contextmanager
def opened(
    rank: int, cuda_half: Half, graph_half: Half, options: Options
) -> Iterator[tuple[RankFacts, GraphText]]:
    """Give the facts of a rank, and the graph's text to place in. Raises :class:`Refused`.

    The facts are let go of at the end. A file that cannot be read any more by then is refused
    as one that could not be before.
    """
    try:
        cuda = _cuda(rank, cuda_half)
        with graph_half.open() as text:
            loaded = _graph(rank, text).of_rank(rank, cuda.world_size or rank + 1)
            absent = loader.absent(loaded, text, cuda.loader_fields)
            facts = RankFacts(rank, cuda, loaded, text.path, options, absent)
            try:
                yield facts, text
            finally:
                facts.release()
    except files.Unreadable as error:
        raise _unreadable(rank, str(error), error.location) from error
    except graph.Malformed as error:
        raise _unreadable(rank, f"is not JSON: {error}", error.location) from error


def halves(pair: Pair) -> tuple[Half, Half]:
    """Give both files of a pair. Raises :class:`Refused` where one is missing."""
    if pair.whole:
        return Half(pair.cuda), Half(pair.graph)
    here = pair.cuda or pair.graph
    name = PurePath(pair.expected).name
    if here:
        message = f"{PurePath(here).name} has no partner: {name} is not beside it"
    else:
        message = f"rank {pair.rank} has neither file: {name} and its partner are not there"
    raise _refused(
        no_partner.RULE,
        pair.rank,
        message,
        Location(here or pair.expected, 1, 1, 1, 1),
        "put both files of the rank into one folder, from one build",
    )


def _cuda(rank: int, half: Half) -> cuda_files.CudaSource:
    cuda = cuda_files.parse(half.path, half.read())
    if cuda.unclosed:
        what = {"(": "parenthesis", "[": "bracket"}.get(cuda.unclosed_bracket, "block")
        where = "ends in the middle" if what == "block" else "is not balanced"
        reason = f"{where}: the {what} opened on line {cuda.unclosed.line} never closes"
        raise files.Unreadable(reason, cuda.unclosed)
    if cuda.declarations:
        return cuda
    if cuda.embedded:
        message = "carries its tasks itself and declares no tensor: there is no graph to audit"
        rule, location = embedded_graph.RULE, cuda.embedded
    else:
        message = "declares no tensor: it has no all_tensors statement"
        rule, location = unreadable.RULE, Location(half.path, 1, 1, 1, 1)
    text = f"{PurePath(half.path).name} {message}"
    raise _refused(
        rule, rank, text, location, "audit the kernel that MPK emitted with the JSON format on"
    )


def _graph(rank: int, text: GraphText) -> graph.Graph:
    loaded = loader.load(text)
    if isinstance(loaded, graph.Graph):
        return loaded
    findings = list(_schema_findings(rank, text, loaded))
    count = len(loaded.errors)
    errors = f"{'at least ' * bool(loaded.more)}{count} error{'s' * (count != 1)}"
    raise Refused(f"{PurePath(text.path).name} breaks the schema ({errors})", findings)


def _unreadable(rank: int, reason: str, location: Location) -> Refused:
    text = f"{PurePath(location.path).name} {reason}"
    return _refused(
        unreadable.RULE, rank, text, location, "emit the artifacts again and let the build finish"
    )


def _refused(rule: Rule, rank: int, message: str, location: Location, hint: str) -> Refused:
    return Refused(message, [rule.finding(rank, message, location, hint=hint)])


def _schema_findings(rank: int, text: GraphText, refusal: graph.Refusal) -> Iterator[Finding]:
    from mirage_gate.artifacts import positions

    shown = refusal.errors[:SHOWN_SCHEMA_ERRORS]
    pointers = [positions.pointer_text(error.pointer) for error in shown]
    places = text.place(pointers)
    hint = "emit the graph again; `mirage-gate schema task-graph` prints the contract"
    for error, pointer in zip(shown, pointers, strict=True):
        limit = error.keyword == "maxItems"
        yield (limits if limit else schema).RULE.finding(
            rank,
            f"{pointer or '/'}: expected {error.expected}, found {error.found}",
            places[pointer],
            hint="split the operator: the runtime has no room for more" if limit else hint,
        )
    left = len(refusal.errors) - len(shown)
    if left or refusal.more:
        more = f" and {refusal.more} more tasks, events or first tasks" if refusal.more else ""
        yield schema.RULE.finding(
            rank,
            f"{left} more schema errors{more} are not listed "
            f"({len(refusal.errors)} were explained)",
            places[pointers[-1]],
            hint=hint,
        )
