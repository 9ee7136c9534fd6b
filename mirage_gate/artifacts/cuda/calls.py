"""The calls of one dispatch body, parsed when somebody asks.

A body is statements: ``using`` aliases of TMA descriptors, layouts, variables, and the call of a
device function. Each argument is followed back through the variables to what it comes from: the
slots, the metadata, the runtime's fields, or a literal. What is not understood has no value, and
nothing can be said about it. One pass over the body; one more over each call's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda.text import NUMBER, number
from mirage_gate.patterns import later

if TYPE_CHECKING:
    from mirage_gate.artifacts.files import Text
    from mirage_gate.findings import Location


class SlotName(msgspec.Struct, frozen=True):
    """A slot as a body names it. ``descriptor`` numbers the TMA descriptor, None for a pointer."""

    is_input: bool
    index: int
    descriptor: int | None = None

    def __str__(self) -> str:
        return f"{'input' if self.is_input else 'output'} {self.index}"


class Expression(msgspec.Struct, frozen=True):
    """An argument, or the right-hand side of a variable.

    ``value`` is that of a literal: a number or a truth value; ``null`` is ``nullptr``. ``slots``,
    ``metadata`` and ``runtime`` are what it is made from, through the variables in it.
    ``element`` is the type that its pointer is cast to, ``tma`` the descriptor's type and
    ``layout`` the tensor's, where it is one. ``certain`` is False where a variable in it was
    given another value after its definition.
    """

    text: str
    start: int
    end: int
    value: int | float | bool | None = None
    null: bool = False
    slots: tuple[SlotName, ...] = ()
    metadata: frozenset[str] = frozenset()
    runtime: frozenset[str] = frozenset()
    element: str = ""
    tma: Template | None = None
    layout: Layout | None = None
    certain: bool = True

    @property
    def slot(self) -> SlotName | None:
        """The slot that it is made from, if it is exactly one."""
        return self.slots[0] if len(self.slots) == 1 and self.certain else None


class Template(msgspec.Struct, frozen=True):
    """A type with its arguments, such as ``tma_2d<bfloat16, 3, …>``; ``name`` unqualified."""

    name: str
    arguments: tuple[Expression, ...]
    start: int
    end: int


class Layout(msgspec.Struct, frozen=True):
    """A CuTe layout. An extent or a stride that is no number is None."""

    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    start: int
    end: int


class Call(msgspec.Struct, frozen=True):
    """One call: ``function`` unqualified, its template arguments and its arguments in order.

    ``condition`` is that of the ``if`` it hangs on, inside of its body; empty if none.
    """

    function: str
    template: tuple[Expression, ...]
    arguments: tuple[Expression, ...]
    start: int
    end: int
    condition: str = ""


_BRACKET = re.compile(r"->|[()\[\]{}<>,;]")
_STATEMENT = re.compile(r"[;{}()]")
_NAME = re.compile(r"\s*(?:::\s*)?([A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)\s*")
_USING = re.compile(r"\s*using\s+([A-Za-z_]\w*)\s*=\s*")
_QUALIFIERS = re.compile(r"(?:const\b|[&*]|\s)+")
_PREFIX = re.compile(r"\s*(?:(if|for|while|switch)\s*(?:constexpr\s*)?(?=\()|else\b|do\b)")
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)")
_CAST = re.compile(
    r"\s*(?:(?:static_cast|reinterpret_cast|const_cast)\s*<([^<>]{1,120})>"
    r"|\(\s*((?:const\s+)?[A-Za-z_][\w:]*(?:\s+const)?\s*\**)\s*\)(?=\s*[\w(]))\s*"
)
_INTEGER = re.compile(rf"([-+]?)\s*({NUMBER})")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?[fFlL]?")
_CUTE_INT = later(rf"(?:cute\s*::\s*)?(?:Int|C)\s*<\s*({NUMBER})\s*>\s*(?:\{{\s*\}}|\(\s*\))")
_WORD = re.compile(r"(?<![\w.>:])[A-Za-z_]\w*(?!\s*::)")
_SLOT = re.compile(
    r"\btask_desc\s*(?:->|\.)\s*(?:(input|output)(_tma_desc)?_ptrs"
    r"\s*\[\s*(\d{1,9})[uUlL]{0,3}\s*\](?:\s*\[\s*(\d{1,9})[uUlL]{0,3}\s*\])?"
    r"|(input|output)s\s*\[\s*(\d{1,9})[uUlL]{0,3}\s*\]\s*(?:->|\.)\s*"
    r"(?:base_ptr\b|tma_desc_ptrs\s*\[\s*(\d{1,9})[uUlL]{0,3}\s*\]))"
)
_METADATA = re.compile(
    r"\btask_desc\s*(?:->|\.)\s*(?:task_metadata\s*(?:->|\.)\s*)?"
    r"(request_id|expert_offset|kv_idx|merge_task_offset|task_offset|head_group"
    r"|xfer_size_in_bytes)\b"
)
_RUNTIME = re.compile(r"\bruntime_config\s*(?:->|\.)\s*(\w+)")
_NO_CALLS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "assert", "sizeof"})
_CLOSES = {")": "(", "]": "[", "}": "{", ">": "<"}
_LITERALS: dict[str, bool] = {"true": True, "false": False}


class Body:
    """The text of a dispatch branch, from ``start`` to ``end`` of the file."""

    def __init__(
        self, source: Text, masked: str, start: int, end: int, runs: Callable[[int], bool]
    ) -> None:
        self._source = source
        self._masked = masked
        self.start = start
        self.end = end
        self._runs = runs

    def location(self, part: Expression | Call | Template | Layout, note: str = "") -> Location:
        """Place a part of this body."""
        return self._source.location(part.start, part.end, note)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call that is a statement, in order."""
        return _Parser(self._source.text, self._masked).read(self.start, self.end, self._runs)

    @cached_property
    def named(self) -> tuple[SlotName, ...]:
        """The slots in the order in which the body first names them."""
        found = _SLOT.finditer(self._masked, self.start, self.end)
        return tuple(dict.fromkeys(_slot(match) for match in found if self._runs(match.start())))

    def naming(self, index: int) -> Location | None:
        """Place the first mention of an input slot."""
        for match in _SLOT.finditer(self._masked, self.start, self.end):
            slot = _slot(match)
            if slot.is_input and slot.index == index and self._runs(match.start()):
                return self._source.location(match.start(), match.end())
        return None


class _Parser:
    def __init__(self, text: str, masked: str) -> None:
        self.text = text
        self.masked = masked
        self.types: dict[str, Template] = {}
        self.variables: dict[str, Expression] = {}
        self.calls: list[Call] = []

    def read(self, start: int, end: int, runs: Callable[[int], bool]) -> tuple[Call, ...]:
        for low, high in self._statements(start, end):
            if runs(low):
                self._statement(low, high)
        return tuple(self.calls)

    def _statements(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        depth = 0
        for found in _STATEMENT.finditer(self.masked, start, end):
            if found[0] == "(":
                depth += 1
            elif found[0] == ")":
                depth = max(depth - 1, 0)
            elif not depth:
                if found[0] == "{" and self.masked[start : found.start()].rstrip().endswith("="):
                    continue  # an initializer
                yield self._bare(start, found.start())
                start = found.end()
        if not depth:
            yield self._bare(start, end)

    def _bare(self, start: int, end: int) -> tuple[int, int]:
        while start < end and self.masked[start].isspace():
            start += 1
        while start < end and self.masked[end - 1].isspace():
            end -= 1
        return start, end

    def _statement(self, start: int, end: int) -> None:
        condition = ""
        while start < end and (prefix := _PREFIX.match(self.masked, start, end)):
            low = start = prefix.end()
            if prefix[1]:
                start = self._close(start, end)
                if start < 0:
                    return
                condition = self._words(low + 1, start - 1)
        if start >= end:
            return
        if using := _USING.match(self.masked, start, end):
            if template := self._template(using.end(), end):
                self.types[using[1]] = template
            return
        if assigned := _ASSIGNED.match(self.masked, start, end):
            if known := self.variables.get(assigned[1]):
                self.variables[assigned[1]] = msgspec.structs.replace(
                    known, value=None, certain=False
                )
            return
        if name := _NAME.match(self.masked, start, end):
            self._named(name, end, condition)

    def _named(self, name: re.Match[str], end: int, condition: str) -> None:
        """A statement that begins with a name: a call, or the definition of a variable."""
        at = name.end()
        template: tuple[Expression, ...] = ()
        if self.masked.startswith("<", at):
            close = self._close(at, end)
            if close < 0:
                return
            template = self._expressions(at + 1, close - 1)
            at = close
            while at < end and self.masked[at].isspace():
                at += 1
        if self.masked.startswith("(", at):
            close = self._close(at, end)
            if close >= 0:
                function = name[1].rpartition(":")[2].strip()
                if function in _NO_CALLS:
                    return
                arguments = self._expressions(at + 1, close - 1)
                call = Call(function, template, arguments, name.start(1), close, condition)
                self.calls.append(call)
            return
        if qualifiers := _QUALIFIERS.match(self.masked, at, end):
            at = qualifiers.end()
        variable = _NAME.match(self.masked, at, end)
        if not variable or "::" in variable[1]:
            return
        at = variable.end()
        opener = self.masked[at : at + 1] if at < end else ""
        if opener and opener in "({":
            close = self._close(at, end)
            low, high = at + 1, close - 1
        elif opener == "=":
            low, high = at + 1, end
        else:
            return
        if high >= low:
            value = self._expression(low, high)
            if kind := self.types.get(name[1]):
                value = msgspec.structs.replace(value, tma=kind)
            self.variables[variable[1]] = value

    def _close(self, at: int, end: int) -> int:
        """Give one past the bracket that closes the one at ``at``; -1 if they do not match."""
        stack: list[str] = []
        for found in _BRACKET.finditer(self.masked, at, end):
            mark = found[0]
            if mark in "([{" or (mark == "<" and self._opens_template(found.start(), at)):
                stack.append(mark)
            elif mark == ">" and (not stack or stack[-1] != "<"):
                continue  # a comparison
            elif mark in _CLOSES:
                while stack and stack[-1] == "<" and mark != ">":
                    stack.pop()  # what looked like a template was a comparison
                if not stack or stack.pop() != _CLOSES[mark]:
                    return -1
                if not stack:
                    return found.end()
        return -1

    def _opens_template(self, at: int, first: int) -> bool:
        before = self.masked[at - 1 : at]
        return at == first or before.isalnum() or before == "_"

    def _expressions(self, start: int, end: int) -> tuple[Expression, ...]:
        """Split at the commas that stand outside of brackets."""
        parts: list[Expression] = []
        stack: list[str] = []
        low = start
        for found in _BRACKET.finditer(self.masked, start, end):
            mark = found[0]
            if mark in "([{" or (mark == "<" and self._opens_template(found.start(), -1)):
                stack.append(mark)
            elif mark == "," and not stack:
                parts.append(self._expression(low, found.start()))
                low = found.end()
            elif mark == ">" and (not stack or stack[-1] != "<"):
                continue
            elif mark in _CLOSES:
                while stack and stack[-1] == "<" and mark != ">":
                    stack.pop()
                if stack:
                    stack.pop()
        if parts or self.masked[low:end].strip():
            parts.append(self._expression(low, end))
        return tuple(parts)

    def _words(self, start: int, end: int) -> str:
        """What is written, without comments, in one line."""
        return " ".join(self.masked[start:end].split())

    def _expression(self, start: int, end: int) -> Expression:
        start, end = self._bare(start, end)
        masked = self.masked
        written = self._words(start, end)
        core, element = start, ""
        while core < end:
            if cast := _CAST.match(masked, core, end):
                pointed = cast[1] or cast[2]
                element = element or (pointed if "*" in pointed else "")
                core = cast.end()
            elif masked[core] in "(&*" or masked[core].isspace():
                core += 1
            else:
                break
        bare = masked[core:end].rstrip(") \t\r\n")
        if bare in _LITERALS:
            return Expression(written, start, end, value=_LITERALS[bare])
        if bare in ("nullptr", "NULL"):
            return Expression(written, start, end, null=True, element=_element(element))
        if (value := _number(bare)) is not None:
            return Expression(written, start, end, value=value)
        if (known := self.variables.get(bare)) is not None:
            return msgspec.structs.replace(
                known,
                text=written,
                start=start,
                end=end,
                element=_element(element or known.element),
            )
        return self._composed(written, start, end, _element(element))

    def _composed(self, written: str, start: int, end: int, element: str) -> Expression:
        masked = self.masked
        layout = tma = None
        certain = True
        slots = {_slot(found): None for found in _SLOT.finditer(masked, start, end)}
        metadata = {found[1] for found in _METADATA.finditer(masked, start, end)}
        runtime = {found[1] for found in _RUNTIME.finditer(masked, start, end)}
        for word in _WORD.finditer(masked, start, end):
            if word[0] == "make_layout" or word[0] == "make_stride":
                continue
            if (known := self.variables.get(word[0])) is None:
                continue
            slots |= dict.fromkeys(known.slots)
            metadata |= known.metadata
            runtime |= known.runtime
            layout = layout or known.layout
            element = element or known.element
            certain &= known.certain
        if "make_layout" in written:
            layout = self._layout(start, end)
        elif "make_tensor" in written and (inner := _POINTED.search(masked, start, end)):
            element = _element(inner[1])
        return Expression(
            text=written,
            start=start,
            end=end,
            slots=tuple(slots),
            metadata=frozenset(metadata),
            runtime=frozenset(runtime),
            element=element,
            tma=tma,
            layout=layout,
            certain=certain,
        )

    def _layout(self, start: int, end: int) -> Layout | None:
        sides: list[tuple[int | None, ...]] = []
        for maker in (_SHAPE, _STRIDE):
            found = maker.search(self.masked, start, end)
            close = self._close(found.end() - 1, end) if found else -1
            if not found or close < 0:
                return None
            sizes = self._expressions(found.end(), close - 1)
            sides.append(tuple(map(_extent, sizes)))
        return Layout(sides[0], sides[1], start, end)

    def _template(self, start: int, end: int) -> Template | None:
        name = _NAME.match(self.masked, start, end)
        if not name or not self.masked.startswith("<", name.end()):
            return None
        close = self._close(name.end(), end)
        if close < 0:
            return None
        arguments = self._expressions(name.end() + 1, close - 1)
        return Template(name[1].rpartition(":")[2].strip(), arguments, start, close)


_SHAPE = later(r"\bmake_shape\s*\(")
_STRIDE = later(r"\bmake_stride\s*\(")
_POINTED = later(r"\bstatic_cast\s*<\s*([^<>]{1,120})>")


def _extent(size: Expression) -> int | None:
    if isinstance(size.value, int) and not isinstance(size.value, bool):
        return size.value
    static = _CUTE_INT.fullmatch(size.text)
    return number(static[1]) if static and len(static[1]) < 24 else None


def _number(text: str) -> int | float | None:
    if integer := _INTEGER.fullmatch(text):
        if len(integer[2]) > 24:
            return None
        value = number(integer[2])
        return -value if integer[1] == "-" else value
    if _FLOAT.fullmatch(text) and len(text) < 64:
        return float(text.rstrip("fFlL"))
    return None


def _element(pointed: str) -> str:
    """Name what a pointer type points at: ``bfloat16_t`` of ``cute::bfloat16_t const *``."""
    words = re.sub(r"\bconst\b|[*&]", " ", pointed).split()
    return words[-1].rpartition(":")[2] if words else ""


def _slot(match: re.Match[str]) -> SlotName:
    if match[1]:
        descriptor = int(match[4]) if match[4] else (0 if match[2] else None)
        return SlotName(match[1] == "input", int(match[3]), descriptor)
    return SlotName(match[5] == "input", int(match[6]), int(match[7]) if match[7] else None)
