"""One pass over the keywords of a ``.cu``: storage, the loader, and the dispatch chain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from mirage_gate.artifacts.cuda.balance import unclosed
from mirage_gate.artifacts.cuda.calls import Body
from mirage_gate.artifacts.cuda.model import Branch, CudaSource
from mirage_gate.artifacts.cuda.outline import DISPATCH, INIT, LOADER, Outline
from mirage_gate.artifacts.cuda.storage import STRING, Storage, statement
from mirage_gate.artifacts.cuda.text import in_word, mask
from mirage_gate.artifacts.files import Text
from mirage_gate.artifacts.graph import METADATA_FIELDS
from mirage_gate.findings import Location

_STORING = (
    r"(?:all_tensors|char|void|cudaMalloc|cudaMemcpy2DAsync|cudaFree|nvshmem_free|num_gpus"
    r"|construct_task_graph|TaskDesc|FullTaskDesc)\b"
)
_LOADING = r"(?:task|TaskDesc|FullTaskDesc)\b"
_DISPATCHING = r"(?:task_desc|task_metadata|runtime_config|TaskDesc|FullTaskDesc|_execute_task)\b"
_ANYWHERE = re.compile(f"{_STORING}|{_LOADING}|{_DISPATCHING}")
_KEYWORDS = {
    INIT: re.compile(f"{_STORING}|{_LOADING}"),
    LOADER: re.compile(_LOADING),
    "": re.compile(f"{_LOADING}|{_DISPATCHING}"),
} | dict.fromkeys(DISPATCH, re.compile(_DISPATCHING))
"""What to look for in which function."""

_ASSIGNED = re.compile(r"[;{}]\s*([^\s=;,()&*\[\]\"<>+{}]+)\s*(\+?=)(?!=)")
"""A statement that gives a variable another value, and defines none."""

_WORLD = statement(r"num_gpus =(=?) (\d{1,9})[uUlL]{0,3}\b")
_LOADER_FIELD = statement(rf"task \. at \( {STRING}")
_VARIANT = r"task_desc (?:->|\.) variant_id == (0[xX][0-9a-fA-F]{1,8}|\d{1,9})[uUlL]{0,3}\b"
_TYPE = r"task_desc (?:->|\.) task_type == (?:static_cast < TaskType > \( )?(\w+)"
_CONDITION = statement(rf"{_TYPE} (?:\) ){{0,2}}&& (?:\( )?{_VARIANT}")
_TURNED_ROUND = statement(rf"{_VARIANT} (?:\) )?&& (?:\( )?{_TYPE}\b")
_TESTED = statement(r"task_desc (?:->|\.) (?:task_type|variant_id)\b")
_INDEX = r"(\d{1,9})[uUlL]{0,3}"
_SLOT = statement(
    rf"task_desc (?:->|\.) (input|output)(?:(_tma_desc)?_ptrs \[ (?:{_INDEX}\b|([^\]\s]))"
    rf"|s \[ (?:{_INDEX} \]|([^\]\s])[^\]]{{0,99}}\]) (?:->|\.) (?:base_ptr|(tma_desc_ptrs))\b)"
)
_HANDED_ON = statement(
    r"task_desc (?:(?:->|\.) (?:(input|output)(?:s|(?:_tma_desc)?_ptrs)\b(?! \[)"
    r"|(task_metadata)\b(?! (?:\.|->)))|(?=[,)]))"
)
_FIELD = statement(r"(?:task_metadata|runtime_config) (?:\.|->) (\w+)")
_OLD_FIELD = statement(
    rf"task_desc (?:->|\.) ({'|'.join(METADATA_FIELDS)}|head_group|xfer_size_in_bytes)\b"
)
"""Before they had a struct of their own, the metadata were fields of the task."""

_EMBEDDED = statement(
    r"(?:Full)?TaskDesc(?: task_desc \(|\() (?:static_cast < TaskType > \( \d+|TASK_)"
)
_LONGEST_CONDITION = 1024


class _Condition(msgspec.Struct, frozen=True):
    """The condition of a branch: its type's name and variant, and where it ends."""

    key: tuple[str, int]
    end: int


def _condition(masked: str, at: int) -> _Condition | None:
    if found := _CONDITION.match(masked, at):
        name, variant = found[1], found[2]
    elif found := _TURNED_ROUND.match(masked, at):
        name, variant = found[2], found[1]
    else:
        return None
    return _Condition((name, int(variant, 16 if variant[1:2] in ("x", "X") else 10)), found.end())


def _keywords(masked: str, outline: Outline) -> Iterator[tuple[str, int, str | None]]:
    """Give (word, offset, function) of keywords, and of assignments."""
    for function, start, end in outline.parts():
        pattern = _ANYWHERE if function is None else _KEYWORDS[function]
        found = [(match.start(), match[0]) for match in pattern.finditer(masked, start, end)]
        found = [(at, word) for at, word in found if not in_word(masked, at)]
        if function is None or function == INIT:
            assigned = [(m.start(2), m[2]) for m in _ASSIGNED.finditer(masked, start, end)]
            found = sorted(found + assigned) if assigned else found
        for at, word in found:
            yield word, at, function


class _Names(msgspec.Struct):
    """What the branch being read names. It ends at ``end``."""

    type_name: str
    variant: int
    location: Location
    condition: str
    function: str
    start: int
    end: int
    elsewhere: bool
    slots: dict[str, set[int]] = msgspec.field(default_factory=dict)
    metadata: set[str] = msgspec.field(default_factory=set)
    runtime: set[str] = msgspec.field(default_factory=set)
    unnumbered: set[str] = msgspec.field(default_factory=set)

    def branch(self, body: Body) -> Branch:
        def named(*keys: str) -> frozenset[int]:
            return frozenset().union(*(self.slots.get(key, ()) for key in keys))

        return Branch(
            type_name=self.type_name,
            variant=self.variant,
            location=self.location,
            inputs=named("input", "input_tma_desc"),
            outputs=named("output", "output_tma_desc"),
            tma_inputs=named("input_tma_desc"),
            tma_outputs=named("output_tma_desc"),
            every_input="input" in self.unnumbered,
            every_output="output" in self.unnumbered,
            metadata=frozenset(self.metadata),
            runtime=frozenset(self.runtime),
            condition=self.condition,
            function=self.function,
            body=body,
        )


class _Reader:
    """One pass over one masked text; a method per kind of statement."""

    def __init__(self, source: Text) -> None:
        self.source = source
        self.text = source.text
        # A line that goes on behind a backslash is one line.
        masked = mask(source.text)
        self.masked = masked.replace("\\\n", " \n").replace("\\\r\n", " \r\n")
        self.outline = Outline(self.masked)
        self.unclosed = unclosed(masked) if self.outline.unclosed is None else self.outline.unclosed
        self.storage = Storage(source, self.masked)
        self.function: str | None = None
        self.names: _Names | None = None
        self.dispatch: dict[tuple[str, int], Branch] = {}
        self.elsewhere: dict[tuple[str, int], Branch] = {}
        self.unreachable: dict[tuple[str, int], Location] = {}
        self.unread: list[Location] = []
        self.condition_end = 0
        self.delegates = False
        self.loader_fields: dict[str, Location] = {}
        self.dispatch_location: Location | None = None
        self.embedded: Location | None = None
        self.world_size: int | None = None

    def read(self) -> CudaSource:
        handlers: dict[str, Callable[[int], None]] = {
            "num_gpus": self._world,
            "task": self._loader_field,
            "task_desc": self._task_desc,
            "task_metadata": self._field,
            "runtime_config": self._field,
            "_execute_task": self._dispatch_start,
            "construct_task_graph": self._handed_over,
            "TaskDesc": self._embedded_task,
            "FullTaskDesc": self._embedded_task,
        }
        handlers |= self.storage.handlers
        runs = self.outline.runs
        for keyword, at, function in _keywords(self.masked, self.outline):
            self.function = function
            if runs(at):
                handlers[keyword](at)
            elif keyword == "task_desc" and (condition := _condition(self.masked, at)):
                self.unreachable.setdefault(condition.key, self._location(at, condition.end))
        self._end_branch()
        self._settle()
        open_at = self.unclosed
        return CudaSource(
            path=self.source.path,
            declarations=self.storage.declarations(),
            dispatch=self.dispatch,
            loader_fields=self.loader_fields,
            dispatch_location=self.dispatch_location,
            embedded=self.embedded,
            world_size=self.world_size,
            unclosed=None if open_at is None else self._location(open_at, open_at + 1),
            unclosed_bracket="" if open_at is None else self.masked[open_at],
            unreachable=self.unreachable,
            unread=tuple(self.unread),
        )

    def _settle(self) -> None:
        """Count a chain in an unknown function only if the dispatch hands the task on."""
        for key, branch in self.elsewhere.items():
            if self.delegates:
                self.dispatch.setdefault(key, branch)
            elif key not in self.dispatch:
                self.unreachable.setdefault(key, branch.location)

    def _location(self, start: int, end: int) -> Location:
        return self.source.location(start, end)

    def _world(self, at: int) -> None:
        if self.world_size is None and (match := _WORLD.match(self.masked, at)):
            before = self.masked[max(at - 64, 0) : at].rstrip()
            if not match[1] or before.removesuffix("(").rstrip().endswith("assert"):
                self.world_size = int(match[2])

    def _loader_field(self, at: int) -> None:
        if match := _LOADER_FIELD.match(self.masked, at):
            field = self.text[match.start(1) : match.end(1)]
            self.loader_fields.setdefault(field, self._location(at, match.end() + 1))

    def _handed_over(self, at: int) -> None:  # noqa: ARG002 - a handler like the others
        if self.function == INIT:
            self.storage.handed_over()

    def _dispatch_start(self, at: int) -> None:
        if self.dispatch_location is None:
            self.dispatch_location = self._location(at, at + len("_execute_task"))

    def _task_desc(self, at: int) -> None:
        names = self.names
        if names and at >= names.end:
            self._end_branch()
            names = None
        if at < self.condition_end:
            return
        if condition := _condition(self.masked, at):
            self._end_branch()
            self._begin_branch(at, condition)
        elif self.function in DISPATCH and (tested := _TESTED.match(self.masked, at)):
            self._end_branch()
            self.unread.append(self._location(at, tested.end()))
        elif names and (slot := _SLOT.match(self.masked, at)):
            number = slot[3] or slot[5]
            if number is None:
                names.unnumbered.add(slot[1])
            else:
                key = slot[1] + ("_tma_desc" if slot[2] or slot[7] else "")
                names.slots.setdefault(key, set()).add(int(number))
        elif whole := _HANDED_ON.match(self.masked, at):
            if names is None:
                bodies = self.outline.bodies
                if not whole[1] and self.function in DISPATCH and self.function in bodies:
                    self.delegates |= at > bodies[self.function]
                return
            if not whole[2]:
                names.unnumbered |= {whole[1]} if whole[1] else {"input", "output"}
            if not whole[1]:
                names.metadata.update(METADATA_FIELDS)
        elif names and (field := _OLD_FIELD.match(self.masked, at)):
            names.metadata.add(field[1])

    def _begin_branch(self, at: int, condition: _Condition) -> None:
        self.condition_end = after = condition.end
        where = self._location(at, after)
        function = self.function
        key = condition.key
        opens = self.masked.find("{", after, after + _LONGEST_CONDITION)
        ends = self.masked.find(";", after, after + _LONGEST_CONDITION)
        if opens < 0 or 0 <= ends < opens:
            start, end = after, ends + 1 or after
        elif opens in self.outline.never:
            self.unreachable.setdefault(key, where)
            return
        else:
            start, end = opens + 1, self.outline.closed.get(opens, len(self.masked))
        written = self.text[at : min(start, at + _LONGEST_CONDITION)].rstrip().removesuffix("{")
        written = " ".join(written.rstrip().removesuffix(")").split())
        self.names = _Names(
            *key, where, written, function or "", start, end, elsewhere=function == ""
        )

    def _field(self, at: int) -> None:
        names = self.names
        if names and at < names.end and (match := _FIELD.match(self.masked, at)):
            metadata = self.masked.startswith("task_metadata", at)
            (names.metadata if metadata else names.runtime).add(match[1])

    def _embedded_task(self, at: int) -> None:
        if self.embedded is None and (match := _EMBEDDED.match(self.masked, at)):
            self.embedded = self._location(at, match.end())

    def _end_branch(self) -> None:
        if names := self.names:
            body = Body(self.source, self.masked, names.start, names.end, self.outline.runs)
            branch = names.branch(body)
            chain = self.elsewhere if names.elsewhere else self.dispatch
            chain.setdefault((branch.type_name, branch.variant), branch)
            self.names = None


def parse(path: str, data: bytes | str) -> CudaSource:
    """Read the text of a ``.cu``. Never raises for its contents: what is not there is empty."""
    text = Text(path, data) if isinstance(data, str) else Text.of(path, data)
    return _Reader(text).read()
