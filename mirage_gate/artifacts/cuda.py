"""Reading a ``kernel_N.cu``: what it declares, and which slots each task's body names.

The statements and their dialects are those of MPK's code generator (``runtime.cc``),
before and after its pull request 665. The text is read, never compiled: what is no code is
blanked out first (:mod:`mirage_gate.artifacts.cpp`), and one scan over keywords hands each
statement to its own small pattern. Every pattern starts at a keyword and consumes
what it has looked at, so the time is linear in the text, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from mirage_gate.artifacts.cpp import in_word, mask, structure
from mirage_gate.artifacts.files import Text
from mirage_gate.artifacts.graph import METADATA_FIELDS
from mirage_gate.findings import Location

Kind = Literal["host", "shuffled", "scratch", "symmetric", "sentinel", "unknown"]

LOADED: frozenset[Kind] = frozenset({"host", "shuffled"})
"""Storage that the host fills: weights, caches, tables, tokens."""

BUFFERS: frozenset[Kind] = frozenset({"scratch", "symmetric"})
"""Storage that only tasks fill."""

SENTINEL = "nullptr"
"""The declared name that stands for an input set to None."""


class Copy(msgspec.Struct, frozen=True):
    """One ``cudaMemcpy2DAsync`` into a shuffled tensor.

    ``height`` rows of ``width`` bytes go to ``offset``, ``offset + pitch``, …; they come
    from ``source`` (the model's name for it, or the pointer's text).
    """

    source: str
    offset: int
    pitch: int
    source_pitch: int
    width: int
    height: int
    location: Location


class Declaration(msgspec.Struct, frozen=True):
    """One ``all_tensors["NAME"] = VARIABLE;`` statement and the storage behind it.

    ``nbytes`` is the allocation's size in bytes, None for a host tensor. ``pointer`` is the
    literal address in the older dialect, empty otherwise. ``storage`` is None where no
    storage statement was found.
    """

    name: str
    kind: Kind
    location: Location
    nbytes: int | None = None
    storage: Location | None = None
    pointer: str = ""
    copies: tuple[Copy, ...] = ()


class Branch(msgspec.Struct, frozen=True):
    """One branch of ``_execute_task``: what the body of (type, variant) names.

    ``inputs`` and ``outputs`` are slot numbers named by pointer or by TMA descriptor;
    ``tma_inputs`` and ``tma_outputs`` those named by descriptor. ``every_input`` or
    ``every_output`` is set when a body indexes the slots with something other than a number,
    or hands all of them on. A body that hands on the metadata may read every field.
    """

    type_name: str
    variant: int
    location: Location
    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    tma_inputs: frozenset[int] = frozenset()
    tma_outputs: frozenset[int] = frozenset()
    every_input: bool = False
    every_output: bool = False
    metadata: frozenset[str] = frozenset()
    runtime: frozenset[str] = frozenset()

    def names_input(self, slot: int) -> bool:
        """Whether the body uses input ``slot``."""
        return self.every_input or slot in self.inputs

    def names_output(self, slot: int) -> bool:
        """Whether the body uses output ``slot``."""
        return self.every_output or slot in self.outputs


class CudaSource(msgspec.Struct, frozen=True):
    """All that an audit reads of a ``.cu``.

    ``declarations`` in the order of the text, repeated names included. ``dispatch`` maps
    (type name, variant) to its branch; of a repeated condition the first counts, as in
    C++. ``loader_fields`` are the fields that ``construct_task_graph`` insists on, each with
    the place of its first ``task.at("…")``. ``embedded`` is the place of the first task
    that the ``.cu`` constructs itself. ``world_size`` is N of ``assert(num_gpus = N)``.
    ``unclosed`` is the opening brace of the outermost block that the text never closes: the
    file was cut off.
    """

    path: str
    declarations: tuple[Declaration, ...]
    dispatch: dict[tuple[str, int], Branch]
    loader_fields: dict[str, Location]
    dispatch_location: Location | None = None
    embedded: Location | None = None
    world_size: int | None = None
    unclosed: Location | None = None


_KEYWORD = re.compile(
    r"(?:all_tensors|char|void|cudaMalloc|cudaMemcpy2DAsync|num_gpus|task|task_desc"
    r"|task_metadata|runtime_config|_execute_task|TaskDesc|FullTaskDesc)\b|\}"
)


def _keywords(masked: str) -> Iterator[tuple[str, int]]:
    """Give (word, offset) of keywords, and of braces that close a function."""
    for found in _KEYWORD.finditer(masked):
        word, at = found[0], found.start()
        if word == "}":
            if not at or masked[at - 1] == "\n":
                yield word, at
        elif not in_word(masked, at):
            yield word, at


_VARIABLE = r"([^\s=;,()&*\[\]\"<>+]+)"
_STRING = r"\"(\x01*)\""


def _statement(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which one blank allows any white space, also none.

    Between two blanks must stand something that has to match, or a long run of white space
    could be shared out between them in every way there is.
    """
    return re.compile(pattern.replace(" ", r"\s*"))


_DECLARATION = _statement(rf"all_tensors \[ {_STRING} \] =(?!=) {_VARIABLE}?")
_POINTER = _statement(rf"(?:char|void) \* {_VARIABLE} ([;=])")
_FROM_ADDRESS = _statement(r" \( char \* \) \( (0[xX][0-9a-fA-F]+)")
_FROM_SYMMETRIC = _statement(r" (?:static_cast < void \* > \( )?nvshmem_malloc \( (\d+)")
_MALLOC = _statement(rf"cudaMalloc \( (?:\( void \* \* \) )?& {_VARIABLE} , (\d+)")
_COPY = _statement(
    rf"cudaMemcpy2DAsync \( (?:reinterpret_cast < void \* > \( )?(?:\( )?{_VARIABLE} \+ (\d+) "
    rf"(?:\) )?, (\d+) , (?:model_tensors \. at \( {_STRING} \)|([^,;]{{1,200}})) , (\d+) "
    r", (\d+) , (\d+)"
)
_WORLD = _statement(r"num_gpus =(?!=) (\d{1,9})\b")
_LOADER_FIELD = _statement(rf"task \. at \( {_STRING}")
_CONDITION = _statement(
    r"task_desc (?:->|\.) task_type == (?:static_cast < TaskType > \( )?(\w+) (?:\) ){0,2}&& "
    r"(?:\( )?task_desc (?:->|\.) variant_id == (\d{1,9})\b"
)
_SLOT = _statement(
    r"task_desc (?:->|\.) (input|output)(_tma_desc)?_ptrs \[ (?:(\d{1,9})\b|([^\]\s]))"
)
_HANDED_ON = _statement(
    r"task_desc (?:(?:->|\.) (?:(input|output)(?:_tma_desc)?_ptrs\b(?! \[)"
    r"|(task_metadata)\b(?! (?:\.|->)))|(?=[,)]))"
)
_FIELD = _statement(r"(?:task_metadata|runtime_config) (?:\.|->) (\w+)")
_EMBEDDED = _statement(
    r"(?:Full)?TaskDesc(?: task_desc \(|\() (?:static_cast < TaskType > \( \d+|TASK_)"
)
_END_OF_STATEMENT = 4096


class _Storage(msgspec.Struct):
    kind: Kind
    start: int
    end: int
    nbytes: int | None = None
    pointer: str = ""
    copies: list[Copy] = msgspec.field(default_factory=list)


class _Body(msgspec.Struct):
    """The branch being read."""

    type_name: str
    variant: int
    location: Location
    slots: dict[str, set[int]] = msgspec.field(default_factory=dict)
    metadata: set[str] = msgspec.field(default_factory=set)
    runtime: set[str] = msgspec.field(default_factory=set)
    unnumbered: set[str] = msgspec.field(default_factory=set)

    def branch(self) -> Branch:
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
        )


class _Reader:
    """One pass over one masked text; a method per kind of statement."""

    def __init__(self, source: Text) -> None:
        self.source = source
        self.text = source.text
        self.masked = mask(source.text)
        self.storage: dict[str, _Storage] = {}
        self.declarations: list[Declaration] = []
        self.dispatch: dict[tuple[str, int], Branch] = {}
        self.loader_fields: dict[str, Location] = {}
        self.body: _Body | None = None
        self.dispatch_location: Location | None = None
        self.embedded: Location | None = None
        self.world_size: int | None = None

    def read(self) -> CudaSource:
        handlers: dict[str, Callable[[int], None]] = {
            "all_tensors": self._declaration,
            "char": self._pointer,
            "void": self._pointer,
            "cudaMalloc": self._malloc,
            "cudaMemcpy2DAsync": self._copy,
            "num_gpus": self._world,
            "task": self._loader_field,
            "task_desc": self._task_desc,
            "task_metadata": self._field,
            "runtime_config": self._field,
            "_execute_task": self._dispatch_start,
            "TaskDesc": self._embedded_task,
            "FullTaskDesc": self._embedded_task,
            "}": self._function_end,
        }
        for keyword, at in _keywords(self.masked):
            handlers[keyword](at)
        self._end_branch()
        return CudaSource(
            path=self.source.path,
            declarations=tuple(self.declarations),
            dispatch=self.dispatch,
            loader_fields=self.loader_fields,
            dispatch_location=self.dispatch_location,
            embedded=self.embedded,
            world_size=self.world_size,
            unclosed=self._unclosed(),
        )

    def _unclosed(self) -> Location | None:
        """Find the block that is open at the end; of ``#if`` … ``#else`` the first part counts."""
        open_at: list[int] = []
        passed_over = 0
        alternatives: list[bool] = []
        for at, word in structure(self.masked):
            if word in "{}":
                if passed_over:
                    continue
                if word == "{":
                    open_at.append(at)
                elif open_at:
                    open_at.pop()
            elif word.startswith("if"):
                alternatives.append(False)
            elif alternatives and word == "endif":
                passed_over -= alternatives.pop()
            elif alternatives and not alternatives[-1]:
                alternatives[-1] = True
                passed_over += 1
        return self._location(open_at[0], open_at[0] + 1) if open_at else None

    def _statement_end(self, at: int) -> int:
        """One past the ``;`` that ends the statement going on at ``at``, or ``at``."""
        return self.masked.find(";", at, at + _END_OF_STATEMENT) + 1 or at

    def _location(self, start: int, end: int) -> Location:
        return self.source.location(start, end)

    def _declaration(self, at: int) -> None:
        match = _DECLARATION.match(self.masked, at)
        if not match:
            return
        name = self.text[match.start(1) : match.end(1)]
        location = self._location(at, self._statement_end(match.end()))
        variable = match[2] or ""
        storage = self.storage.get(variable)
        if storage is None:
            kind: Kind = "sentinel" if variable == name == SENTINEL else "unknown"
            self.declarations.append(Declaration(name, kind, location))
            return
        self.declarations.append(
            Declaration(
                name=name,
                kind=storage.kind,
                location=location,
                nbytes=storage.nbytes,
                storage=self._location(storage.start, storage.end),
                pointer=storage.pointer,
                copies=tuple(storage.copies),
            )
        )

    def _pointer(self, at: int) -> None:
        match = _POINTER.match(self.masked, at)
        if not match:
            return
        kind: Kind = "host" if self.masked.startswith("char", at) else "scratch"
        end = match.end()
        storage = _Storage(kind, at, self._statement_end(end - 1))
        if match[2] == "=":
            if symmetric := _FROM_SYMMETRIC.match(self.masked, end):
                storage.kind, storage.nbytes = "symmetric", _number(symmetric[1])
            elif address := _FROM_ADDRESS.match(self.masked, end):
                storage.pointer = address[1].lower()
        elif kind == "host":
            storage.kind = "shuffled"  # allocated here and filled by copies
        self.storage[match[1]] = storage

    def _malloc(self, at: int) -> None:
        match = _MALLOC.match(self.masked, at)
        if match and (storage := self.storage.get(match[1])):
            storage.nbytes = _number(match[2])

    def _copy(self, at: int) -> None:
        match = _COPY.match(self.masked, at)
        if not match or not (storage := self.storage.get(match[1])):
            return
        named = match.start(4) >= 0
        source = self.text[match.start(4) : match.end(4)] if named else match[5].strip()
        storage.copies.append(
            Copy(
                source=source,
                offset=_number(match[2]),
                pitch=_number(match[3]),
                source_pitch=_number(match[6]),
                width=_number(match[7]),
                height=_number(match[8]),
                location=self._location(at, self._statement_end(match.end())),
            )
        )

    def _world(self, at: int) -> None:
        if self.world_size is None and (match := _WORLD.match(self.masked, at)):
            self.world_size = int(match[1])

    def _loader_field(self, at: int) -> None:
        if match := _LOADER_FIELD.match(self.masked, at):
            field = self.text[match.start(1) : match.end(1)]
            self.loader_fields.setdefault(field, self._location(at, match.end() + 1))

    def _dispatch_start(self, at: int) -> None:
        if self.dispatch_location is None:
            self.dispatch_location = self._location(at, at + len("_execute_task"))

    def _task_desc(self, at: int) -> None:
        if condition := _CONDITION.match(self.masked, at):
            self._end_branch()
            where = self._location(at, condition.end())
            self.body = _Body(condition[1], int(condition[2]), where)
        elif self.body and (slot := _SLOT.match(self.masked, at)):
            if slot[3] is None:
                self.body.unnumbered.add(slot[1])
            else:
                key = slot[1] + (slot[2] or "")
                self.body.slots.setdefault(key, set()).add(int(slot[3]))
        elif self.body and (whole := _HANDED_ON.match(self.masked, at)):
            if not whole[2]:
                self.body.unnumbered |= {whole[1]} if whole[1] else {"input", "output"}
            if not whole[1]:
                self.body.metadata.update(METADATA_FIELDS)

    def _field(self, at: int) -> None:
        if self.body and (match := _FIELD.match(self.masked, at)):
            metadata = self.masked.startswith("task_metadata", at)
            (self.body.metadata if metadata else self.body.runtime).add(match[1])

    def _embedded_task(self, at: int) -> None:
        if self.embedded is None and (match := _EMBEDDED.match(self.masked, at)):
            self.embedded = self._location(at, match.end())

    def _function_end(self, at: int) -> None:  # noqa: ARG002 - a handler like the others
        self._end_branch()

    def _end_branch(self) -> None:
        if self.body:
            branch = self.body.branch()
            self.dispatch.setdefault((branch.type_name, branch.variant), branch)
            self.body = None


def _number(digits: str) -> int:
    """Read a byte count; one of absurd length means: larger than any memory."""
    return int(digits) if len(digits) < 20 else 1 << 63


def parse(path: str, data: bytes | str) -> CudaSource:
    """Read the text of a ``.cu``. Never raises for its contents: what is not there is empty."""
    text = Text(path, data) if isinstance(data, str) else Text.of(path, data)
    return _Reader(text).read()
