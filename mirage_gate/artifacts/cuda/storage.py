"""The memory behind each declared name, followed through the statements that make it.

``_init_persistent_kernel`` is a straight line of statements: a pointer is defined, given memory,
filled by copies and entered into ``all_tensors``. A pointer here is a piece of memory and the
bytes added to it; what else happens to it makes it unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property

import msgspec

from mirage_gate.artifacts.cuda.model import SENTINEL, Copy, Declaration, Kind, Undoing
from mirage_gate.artifacts.cuda.text import NUMBER, number
from mirage_gate.artifacts.files import Text
from mirage_gate.findings import Location
from mirage_gate.patterns import later

VARIABLE = r"([^\s=;,()&*\[\]\"<>+]+)"
STRING = r"\"(\x01*)\""
END_OF_STATEMENT = 4096


def statement(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which one blank allows any white space, also none.

    Between two blanks must stand something that has to match, or a long run of white space
    could be shared out between them in every way there is.
    """
    return later(pattern.replace(" ", r"\s*"))


_DECLARATION = statement(rf"all_tensors \[ {STRING} \] =(?!=) (?:{VARIABLE} ;)?")
_FROM_MODEL = statement(rf" static_cast < char \* > \( model_tensors \. at \( {STRING} \) \) ;")
_UNDOING = statement(rf"all_tensors \. (erase|clear|swap) \( (?:{STRING} \))?")
_POINTER = statement(rf"(?:char|void) \* {VARIABLE} ([;=])")
# A size that is more than one number is not worked out: it is not known.
_MALLOC = statement(rf"cudaMalloc \( (?:\( void \* \* \) )?& {VARIABLE} ,(?: ({NUMBER}) \))?")
_FREE = statement(rf"(?:cudaFree|nvshmem_free) \( {VARIABLE} \)")
_COPY = statement(
    rf"cudaMemcpy2DAsync \( (?:reinterpret_cast < void \* > \( )?(?:\( )?{VARIABLE} \+ ({NUMBER}) "
    rf"(?:\) )?, ({NUMBER}) , (?:model_tensors \. at \( {STRING} \)|([^,;]{{1,200}})) , ({NUMBER}) "
    rf", ({NUMBER}) , ({NUMBER}) (?=[,)])"
)
_CAST = statement(
    r" (?:(?:static_cast|reinterpret_cast) < (?:char|void|uint8_t|std::byte) \* >"
    r"|\( (?:char|void|uint8_t) \* \))"
)
_VALUE = statement(
    rf" (?:model_tensors (?:\. at \( {STRING} \)|\[ {STRING} \])|(0[xX][0-9a-fA-F']+)[uUlL]{{0,3}}"
    rf"|nvshmem_malloc \( ({NUMBER}) \)|(nullptr|NULL|0)\b|{VARIABLE}) "
)
_ADDED = statement(rf" ([+-]) ({NUMBER}) ")
_NUMBER = later(NUMBER)
_WORD = later(r"[A-Za-z_]\w*")
_HANDED = later(r"(?:&\s*|(?<!assert)[(,]\s*)([A-Za-z_]\w*)\s*(?=[,)])")
_LONGEST_NAME = 256
_LONGEST_VALUE = 400


class Memory(msgspec.Struct, eq=False):
    """A piece of memory. ``at`` and ``end`` are those of the statement that defines it.

    ``bare``: that statement gives the pointer no value, so something else has to. ``unclear``:
    a statement copies into it that was not understood.
    """

    kind: Kind
    at: int
    end: int
    nbytes: int | None = None
    pointer: str = ""
    key: str = ""
    copies: list[Copy] = msgspec.field(default_factory=list)
    allocation: int = -1
    allocation_end: int = -1
    entries: list[_Entry] = msgspec.field(default_factory=list)
    bare: bool = False
    unclear: bool = False

    @property
    def identity(self) -> str:
        """What tells it from other memory; empty where that is not known."""
        if self.key or self.pointer:
            return self.pointer or f"model_tensors.at({self.key})"
        return f"@{self.allocation}" if self.allocation >= 0 else ""


class _Pointer(msgspec.Struct, frozen=True):
    """What a variable holds: ``shift`` bytes into ``memory``. No memory and not null: unknown."""

    memory: Memory | None = None
    shift: int | None = 0
    null: bool = False


class _Entry(msgspec.Struct):
    """A declaration while it may still be undone. ``early``: its variable is not defined yet."""

    name: str
    at: int
    location: Location
    value: str
    variable: str
    pointer: _Pointer
    early: bool = False
    undone: list[Undoing] = msgspec.field(default_factory=list)


class Storage:
    """The variables of the text so far, and the declarations. A method per kind of statement."""

    def __init__(self, source: Text, masked: str) -> None:
        self._source = source
        self._text = source.text
        self._masked = masked
        self._variables: dict[str, _Pointer] = {}
        self._entries: list[_Entry] = []
        self._standing: dict[str, list[_Entry]] = {}  # what nothing has taken back yet
        self._handed_over = False
        self.handlers: dict[str, Callable[[int], None]] = {
            "all_tensors": self._all_tensors,
            "char": self._define,
            "void": self._define,
            "cudaMalloc": self._malloc,
            "cudaMemcpy2DAsync": self._copy,
            "cudaFree": self._free,
            "nvshmem_free": self._free,
            "=": self._assign,
            "+=": self._assign,
        }

    def handed_over(self) -> None:
        """The loader has been called with the map: what happens to the map now is too late."""
        self._handed_over = True

    def declarations(self) -> tuple[Declaration, ...]:
        """Give what was declared, in the order of the text."""
        return tuple([self._declared(entry) for entry in self._entries])

    def _unmade(self, entry: _Entry) -> bool:
        """Whether nothing in the text can have given an entry's variable its memory."""
        memory = entry.pointer.memory
        if not entry.variable or entry.pointer.null:
            return False
        if memory is None:
            variable, later = entry.variable, entry.variable in self._variables
            alone = self._mentions[variable] <= self._entered[variable]
            return entry.early and (later or alone)
        return memory.bare and memory.allocation < 0 and entry.variable not in self._handed

    @cached_property
    def _handed(self) -> frozenset[str]:
        """The variables that are handed to a call, by address or not: it may allocate them."""
        return frozenset(_HANDED.findall(self._masked))

    @cached_property
    def _mentions(self) -> Counter[str]:
        """How often each word stands in the text."""
        return Counter(_WORD.findall(self._masked))

    @cached_property
    def _entered(self) -> Counter[str]:
        """How often each variable is entered."""
        return Counter(entry.variable for entry in self._entries)

    def _end(self, at: int) -> int:
        """One past the ``;`` that ends the statement going on at ``at``, or ``at``."""
        return self._masked.find(";", at, at + END_OF_STATEMENT) + 1 or at

    def _location(self, start: int, end: int) -> Location:
        return self._source.location(start, end)

    def _string(self, match: re.Match[str], group: int) -> str:
        return self._text[match.start(group) : match.end(group)]

    def _all_tensors(self, at: int) -> None:
        match = _DECLARATION.match(self._masked, at)
        if match:
            value = variable = match[2] or ""
            pointer = self._variables.get(variable) if variable else None
            end = match.end()
            early = pointer is None
            if pointer is None:
                start = match.start(2) if variable else end
                end = end if variable else self._end(end)
                stop = max(end - 1, start)
                value = self._text[start : min(stop, start + _LONGEST_VALUE)].strip()
                pointer = self._pointer(start, stop)
            entry = _Entry(
                name=self._string(match, 1),
                at=at,
                location=self._location(at, end),
                value=value,
                variable=variable,
                pointer=pointer,
                early=early,
            )
            self._entries.append(entry)
            self._standing.setdefault(entry.name, []).append(entry)
            if entry.pointer.memory:
                entry.pointer.memory.entries.append(entry)
        elif not self._handed_over and (undoing := _UNDOING.match(self._masked, at)):
            where = self._location(at, self._end(undoing.end()))
            undone = Undoing(undoing[1], where)
            if undoing.start(2) >= 0:
                gone = self._standing.pop(self._string(undoing, 2), [])
            elif undoing[1] == "erase":
                return
            else:
                gone = [entry for entries in self._standing.values() for entry in entries]
                self._standing.clear()
            for entry in gone:
                entry.undone.append(undone)

    def _define(self, at: int) -> None:
        match = _POINTER.match(self._masked, at)
        if not match:
            return
        kind: Kind = "host" if self._masked.startswith("char", at) else "scratch"
        end = self._end(match.end() - 1)
        if match[2] == "=":
            if found := _FROM_MODEL.match(self._masked, match.end()):
                pointer = _Pointer(Memory("host", at, end, key=self._string(found, 1)))
            else:
                pointer = self._pointer(match.end(), max(end - 1, match.end()), kind, at)
        else:
            # a char pointer without a value is allocated and filled by copies
            made: Kind = "shuffled" if kind == "host" else kind
            pointer = _Pointer(Memory(made, at, end, bare=True))
        self._variables[match[1]] = pointer

    def _pointer(self, start: int, end: int, kind: Kind = "unknown", at: int = -1) -> _Pointer:
        """Read the pointer that a statement at ``at`` assigns. ``kind``: of what it defines."""
        masked, end = self._masked, min(end, start + _LONGEST_VALUE)
        while cast := _CAST.match(masked, start, end):
            start = cast.end()
        while start < end and (masked[start] == "(" or masked[start].isspace()):
            start += 1
            while cast := _CAST.match(masked, start, end):
                start = cast.end()
        match = _VALUE.match(masked, start, end)
        unknown = _Pointer(Memory(kind, at, self._end(start)) if at >= 0 else None, None)
        if not match:
            return unknown
        memory: Memory | None = None
        shift: int | None = 0
        if match[5]:
            return _Pointer(Memory(kind, at, self._end(start)) if at >= 0 else None, 0, null=True)
        if match[6]:
            known = self._variables.get(match[6])
            if known is None:
                return unknown
            memory, shift = known.memory, known.shift
            if known.null:
                return known
        else:
            memory = Memory(kind, at if at >= 0 else start, self._end(start))
            if match[4]:
                memory.kind, memory.nbytes = "symmetric", number(match[4])
                memory.allocation, memory.allocation_end = memory.at, memory.end
            elif match[3]:
                memory.pointer = match[3].lower().replace("'", "")
            else:
                memory.key = self._string(match, 1 if match.start(1) >= 0 else 2)
        rest = match.end()
        while rest < end and masked[rest] in ") \t\r\n":
            rest += 1
        if rest < end:
            added = _ADDED.match(masked, rest, end)
            if added and masked[added.end() : end].strip(") \t\r\n") == "" and shift is not None:
                shift += number(added[2]) * (1 if added[1] == "+" else -1)
            else:
                shift = None
        return _Pointer(memory, shift)

    def _assign(self, at: int) -> None:
        masked = self._masked
        before = masked[max(at - _LONGEST_NAME, 0) : at]
        name = before[max(map(before.rfind, ";{}")) + 1 :].strip()
        known = self._variables.get(name)
        if known is None:
            return
        start = at + (2 if masked[at] == "+" else 1)
        stop = self._masked.find(";", start, start + END_OF_STATEMENT)
        stop = stop if stop >= 0 else start
        if masked[at] == "=":
            self._variables[name] = self._pointer(start, stop)
            return
        digits = masked[start:stop].strip()
        by = number(digits) if _NUMBER.fullmatch(digits) else None
        shift = known.shift + by if known.shift is not None and by is not None else None
        self._variables[name] = _Pointer(known.memory, shift, known.null)

    def _malloc(self, at: int) -> None:
        match = _MALLOC.match(self._masked, at)
        if not match or not (pointer := self._variables.get(match[1])):
            return
        memory = pointer.memory
        if memory is None or memory.allocation >= 0 or memory.key or memory.pointer:
            kind: Kind = memory.kind if memory and memory.allocation >= 0 else "scratch"
            memory = Memory(kind, at, self._end(match.end()))
        self._variables[match[1]] = _Pointer(memory)
        memory.nbytes = number(match[2]) if match[2] else None
        memory.allocation, memory.allocation_end = at, self._end(match.end())

    def _free(self, at: int) -> None:
        match = _FREE.match(self._masked, at)
        if not match or not (pointer := self._variables.get(match[1])) or not pointer.memory:
            return
        undone = Undoing("free", self._location(at, self._end(match.end())))
        for entry in pointer.memory.entries:
            entry.undone.append(undone)
        self._variables[match[1]] = _Pointer(None, None)

    def _copy(self, at: int) -> None:
        match = _COPY.match(self._masked, at)
        if not match:
            self._not_understood(at)
            return
        if not (pointer := self._variables.get(match[1])) or not pointer.memory:
            return
        named = match.start(4) >= 0
        source = self._string(match, 4) if named else match[5].strip()
        pointer.memory.copies.append(
            Copy(
                source=source,
                offset=number(match[2]) + (pointer.shift or 0),
                pitch=number(match[3]),
                source_pitch=number(match[6]),
                width=number(match[7]),
                height=number(match[8]),
                location=self._location(at, self._end(match.end())),
                named=named,
            )
        )

    def _not_understood(self, at: int) -> None:
        """Mark what a copy may fill whose numbers cannot be read."""
        end = self._masked.find(",", at, at + _LONGEST_VALUE)
        for word in _WORD.findall(self._masked, at, end if end >= 0 else at + _LONGEST_VALUE):
            if (pointer := self._variables.get(word)) and pointer.memory:
                pointer.memory.unclear = True

    def _declared(self, entry: _Entry) -> Declaration:
        memory = entry.pointer.memory
        null = entry.pointer.null and entry.name != SENTINEL
        if memory is None and (null or not entry.variable):
            own = self._variables.get(entry.name)
            memory = own.memory if own else None
        if memory is None:
            sentinel = entry.pointer.null and entry.name == SENTINEL
            kind: Kind = "sentinel" if sentinel else "unknown"
            return Declaration(
                entry.name,
                kind,
                entry.location,
                value=entry.value,
                variable=entry.variable,
                shift=entry.pointer.shift,
                null=null,
                undone=tuple(entry.undone),
                unmade=self._unmade(entry),
            )
        allocated = memory.allocation >= 0
        allocation = self._location(memory.allocation, memory.allocation_end) if allocated else None
        before = memory.allocation < entry.at
        return Declaration(
            name=entry.name,
            kind=memory.kind,
            location=entry.location,
            nbytes=memory.nbytes,
            storage=self._location(memory.at, memory.end),
            pointer=memory.pointer,
            copies=tuple(memory.copies),
            value=entry.value,
            variable=entry.variable,
            key=memory.key,
            shift=entry.pointer.shift,
            null=null,
            allocation=allocation if before else None,
            late=None if before else allocation,
            memory="" if null else memory.identity,
            undone=tuple(entry.undone),
            unmade=self._unmade(entry),
            unclear=memory.unclear,
        )
