"""The calls in a builder that name a tensor, and the names that each can have given."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import product

import msgspec

from mirage_gate.artifacts.builder.scopes import Module, Scope
from mirage_gate.artifacts.builder.templates import (
    ANY,
    UNKNOWN,
    Parameter,
    Template,
    joined,
    matches,
)
from mirage_gate.artifacts.builder.values import Values
from mirage_gate.findings import Location

# Where the name stands among each call's positional arguments.
_CALLS = {"attach_input": 1, "new_tensor": 3, "fuse_tensors": 3, "shuffle_tensors": 3}

_MOST_CALLS = 4_000
_LONGEST_CHAIN = 5


class Naming(msgspec.Struct, frozen=True):
    """A call that names a tensor, or passes a name on to a helper that does.

    ``via`` are the calls in the helpers, from the outermost on.
    """

    call: str
    template: Template
    location: Location
    via: tuple[Location, ...] = ()

    @property
    def literal(self) -> int:
        """How many characters of the name the text tells."""
        return sum(len(part) for part in self.template if isinstance(part, str))

    def matches(self, name: str) -> bool:
        """Whether the name can come out as ``name``; MPK turns dots into underscores."""
        dotless = tuple(
            part.replace(".", "_") if isinstance(part, str) else part for part in self.template
        )
        return matches(self.template, name) or matches(dotless, name)


class Namer:
    """Works out the names in one file."""

    def __init__(self, path: str, source: str, tree: ast.Module) -> None:
        self._path = path
        self._lines = source.split("\n")
        self._module = Module(tree)
        self._values = Values(self._module)

    def namings(self) -> Iterator[Naming]:
        """Give every call that names a tensor, those with nothing to tell left out."""
        seen: set[Naming] = set()
        for scope in self._module.scopes:
            for call in scope.calls:
                for naming in self._named(scope, call):
                    if len(seen) == _MOST_CALLS:
                        return
                    # A name that is all hole would be the place of every tensor.
                    if naming.literal > 1 and naming not in seen:
                        seen.add(naming)
                        yield naming

    def _named(self, scope: Scope, call: ast.Call) -> Iterator[Naming]:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _CALLS:
            return
        position = _CALLS[function.attr]
        expression = next((word.value for word in call.keywords if word.arg == "name"), None)
        if expression is None and len(call.args) > position:
            expression = call.args[position]
        if expression is None:
            return
        for template in self._values.texts(expression, scope):
            yield from self._from_callers(
                Naming(function.attr, template, self._place(call)), scope, _LONGEST_CHAIN
            )

    def _from_callers(self, naming: Naming, scope: Scope, left: int) -> Iterator[Naming]:
        """Fill the parameters in a name with what each caller of the function gives.

        The place is where the words of the name come from: a caller that gives nothing but
        a layer's number is not it.
        """
        wanted = {part.name for part in naming.template if isinstance(part, Parameter)}
        if not wanted:
            yield naming
            return
        if not scope.function:
            return
        callers = self._module.callers.get(scope.function.name, []) if left else []
        if not callers:
            defaults = {
                name: self._values.texts(default, scope)
                for name, default in scope.parameters.items()
                if name in wanted and default is not None
            }
            for values in product(*defaults.values()):
                yield _filled(naming, dict(zip(defaults, values, strict=True)))
        for caller, call in callers:
            if not self._values.step():
                return
            given = {name: self._argument(name, scope, call, caller) for name in sorted(wanted)}
            for values in product(*given.values()):
                filled = _filled(naming, dict(zip(given, values, strict=True)))
                if any(_tells(value) for value in values):
                    via = (naming.location, *naming.via)
                    filled = msgspec.structs.replace(filled, location=self._place(call), via=via)
                yield from self._from_callers(filled, caller, left - 1)

    def _argument(self, name: str, scope: Scope, call: ast.Call, caller: Scope) -> list[Template]:
        """What a call gives to one parameter of the function it calls."""
        for word in call.keywords:
            if word.arg == name:
                return self._values.texts(word.value, caller)
        names = list(scope.parameters)
        bound = isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"])
        position = names.index(name) - bound
        if 0 <= position < len(call.args):
            return self._values.texts(call.args[position], caller)
        default = scope.parameters[name]
        return UNKNOWN if default is None else self._values.texts(default, scope)

    def _place(self, call: ast.Call) -> Location:
        end_line = call.end_lineno or call.lineno
        return Location(
            self._path,
            call.lineno,
            self._column(call.lineno, call.col_offset),
            end_line,
            self._column(end_line, call.end_col_offset or 0),
        )

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column in characters of an offset in UTF-8."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1


def _filled(naming: Naming, given: Mapping[str, Template]) -> Naming:
    """Put what is given for them in the place of a name's parameters, a hole for no more."""
    parts = [
        given.get(part.name, (ANY,)) if isinstance(part, Parameter) else (part,)
        for part in naming.template
    ]
    return msgspec.structs.replace(naming, template=joined(parts))


def _tells(template: Template) -> bool:
    """Whether a template has words, or has parameters that may."""
    return any(
        isinstance(part, Parameter) or (isinstance(part, str) and not part.isdecimal())
        for part in template
    )
