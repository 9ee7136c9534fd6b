"""Reading the Python that built a graph: which line gave which tensor its name.

MPK's builders name tensors in calls such as ``mpk.attach_input(weight, name=f"layer_{i}_q")``.
The source is parsed and never run. What a name's expression can come out as is worked out as
far as text tells: through literals, f-strings, ``.format``, ``%``, ``+``, assignments, loops
over literals and the parameters of helpers that pass a name on. The rest is a hole in a
template, which any text fills.
"""

from __future__ import annotations

import ast
import string
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import decode_source
from itertools import product
from typing import Literal

import msgspec

from mirage_gate.artifacts import files
from mirage_gate.findings import Location

# What each call makes, and where its name stands among the positional arguments.
_CALLS = {"attach_input": 1, "new_tensor": 3, "fuse_tensors": 3, "shuffle_tensors": 3}
_MAKERS = {
    "host": "attach_input",
    "shuffled": "shuffle_tensors",
    "scratch": "new_tensor",
    "symmetric": "new_tensor",
}

_MOST_ALTERNATIVES = 64
_MOST_CALLS = 4_000
_DEEPEST = 24
_LONGEST_CHAIN = 5
_MOST_STEPS = 50_000
"""Callers gone through and elements of loops looked at; what would take more stays unknown."""


class BuilderError(Exception):
    """A builder that cannot be read; the message is a sentence about it."""


class Hole(msgspec.Struct, frozen=True):
    """A part of a name that the text does not tell: any text, or a number."""

    kind: Literal["any", "number"]


class _Parameter(msgspec.Struct, frozen=True):
    """A part of a name that the caller of a function gives."""

    name: str


_ANY, _NUMBER = Hole("any"), Hole("number")
Part = str | Hole | _Parameter
Template = tuple[Part, ...]
_UNKNOWN: list[Template] = [(_ANY,)]
_NUMBERS: list[Template] = [(_NUMBER,)]


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
        return _matches(self.template, name) or _matches(dotless, name)


class Builder:
    """One builder's file, and every call in it that names a tensor."""

    def __init__(self, path: str, namings: Sequence[Naming]) -> None:
        self.path = path
        self.namings = tuple(namings)


def read(path: str) -> Builder:
    """Read one builder. Raises :class:`BuilderError`."""
    try:
        source = decode_source(files.read(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the builder's own affairs
            tree = ast.parse(source)
    except files.Unreadable as error:
        raise BuilderError(f"{path} {error}") from error
    except SyntaxError as error:
        raise BuilderError(f"{path}:{error.lineno or 1}: is no Python: {error.msg}") from error
    except (LookupError, ValueError, RecursionError, MemoryError) as error:
        raise BuilderError(f"{path}: is no Python: {error}") from error
    return Builder(path, list(_Reader(path, source, tree).namings()))


def candidates(builders: Iterable[Builder], name: str, kind: str = "") -> list[Naming]:
    """List the calls that can have named a tensor, the most specific first.

    ``kind`` is how the tensor is stored: a call that makes such a tensor goes before one
    that makes another.
    """
    maker = _MAKERS.get(kind)
    found = [naming for builder in builders for naming in builder.namings if naming.matches(name)]
    return sorted(
        found,
        key=lambda naming: (
            maker is not None and naming.call != maker,
            -naming.literal,
            naming.template.count(_ANY),
        ),
    )


def _matches(template: Template, name: str) -> bool:
    """Whether some text in the holes makes ``name``; no backtracking."""
    ends = {0}
    for part in template:
        if isinstance(part, str):
            ends = {end + len(part) for end in ends if name.startswith(part, end)}
        elif part == _NUMBER:
            ends = {stop for end in ends for stop in _digits(name, end)}
        else:
            ends = set(range(min(ends, default=len(name) + 1), len(name) + 1))
        if not ends:
            return False
    return len(name) in ends


def _digits(name: str, start: int) -> Iterator[int]:
    """Every end of a number of at most six digits that begins at ``start``."""
    for stop in range(start, min(start + 6, len(name))):
        if not (name[stop].isascii() and name[stop].isdigit()):
            return
        yield stop + 1


# --- Reading ---------------------------------------------------------------------------

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Item(msgspec.Struct):
    """An element of something iterated over: a known expression, a number, a tuple."""

    scope: _Scope
    expression: ast.expr | None = None
    parts: tuple[_Item, ...] = ()
    number: bool = False


class _Binding(msgspec.Struct):
    """One way that a variable gets its value.

    ``source`` is what is assigned, or what is iterated over where ``loops``; ``path`` leads
    to the variable's part of it; ``adds`` is for ``+=``.
    """

    source: ast.expr
    path: tuple[int, ...] = ()
    loops: bool = False
    adds: bool = False


class _Scope(msgspec.Struct):
    """The variables of a module or a function."""

    function: _Function | None
    outer: _Scope | None
    bindings: dict[str, list[_Binding]] = msgspec.field(default_factory=dict)
    parameters: dict[str, ast.expr | None] = msgspec.field(default_factory=dict)
    calls: list[ast.Call] = msgspec.field(default_factory=list)


class _Reader:
    """Works out the names in one file."""

    def __init__(self, path: str, source: str, tree: ast.Module) -> None:
        self._path = path
        self._lines = source.split("\n")
        self._scopes: list[_Scope] = []
        self._steps_left = _MOST_STEPS
        self._attributes: dict[str, list[tuple[_Scope, ast.expr]]] = {}
        # (name, id of the scope, depth): a name with many uses has its many bindings read once.
        self._known: dict[tuple[str, int, int], list[Template]] = {}
        self._collect(tree)
        self._callers: dict[str, list[tuple[_Scope, ast.Call]]] = {}
        for scope in self._scopes:
            for call in scope.calls:
                if called := _called(call):
                    self._callers.setdefault(called, []).append((scope, call))

    def namings(self) -> Iterator[Naming]:
        """Give every call that names a tensor, those with nothing to tell left out."""
        seen: set[Naming] = set()
        for scope in self._scopes:
            for call in scope.calls:
                for naming in self._named(scope, call):
                    if len(seen) == _MOST_CALLS:
                        return
                    # A name that is all hole would be the place of every tensor.
                    if naming.literal > 1 and naming not in seen:
                        seen.add(naming)
                        yield naming

    def _named(self, scope: _Scope, call: ast.Call) -> Iterator[Naming]:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _CALLS:
            return
        position = _CALLS[function.attr]
        expression = next((word.value for word in call.keywords if word.arg == "name"), None)
        if expression is None and len(call.args) > position:
            expression = call.args[position]
        if expression is None:
            return
        for template in self._texts(expression, scope, 0):
            yield from self._from_callers(
                Naming(function.attr, template, self._place(call)), scope, _LONGEST_CHAIN
            )

    def _from_callers(self, naming: Naming, scope: _Scope, left: int) -> Iterator[Naming]:
        """Fill the parameters in a name with what each caller of the function gives.

        The place is where the words of the name come from: a caller that gives nothing but
        a layer's number is not it.
        """
        wanted = {part.name for part in naming.template if isinstance(part, _Parameter)}
        if not wanted:
            yield naming
            return
        if not scope.function:
            return
        callers = self._callers.get(scope.function.name, []) if left else []
        if not callers:
            defaults = {
                name: self._texts(default, scope, 0)
                for name, default in scope.parameters.items()
                if name in wanted and default is not None
            }
            for values in product(*defaults.values()):
                yield _filled(naming, dict(zip(defaults, values, strict=True)))
        for caller, call in callers:
            if not self._step():
                return
            given = {name: self._argument(name, scope, call, caller) for name in sorted(wanted)}
            for values in product(*given.values()):
                filled = _filled(naming, dict(zip(given, values, strict=True)))
                if any(_tells(value) for value in values):
                    via = (naming.location, *naming.via)
                    filled = msgspec.structs.replace(filled, location=self._place(call), via=via)
                yield from self._from_callers(filled, caller, left - 1)

    def _argument(self, name: str, scope: _Scope, call: ast.Call, caller: _Scope) -> list[Template]:
        """What a call gives to one parameter of the function it calls."""
        for word in call.keywords:
            if word.arg == name:
                return self._texts(word.value, caller, 0)
        names = list(scope.parameters)
        bound = isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"])
        position = names.index(name) - bound
        if 0 <= position < len(call.args):
            return self._texts(call.args[position], caller, 0)
        default = scope.parameters[name]
        return _UNKNOWN if default is None else self._texts(default, scope, 0)

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

    # --- Scopes ---

    def _collect(self, tree: ast.Module) -> None:
        """Note every scope's variables and calls, in the order of the text."""
        waiting: list[tuple[_Scope, list[ast.AST]]] = [(_Scope(None, None), [*tree.body])]
        while waiting:
            scope, nodes = waiting.pop(0)
            self._scopes.append(scope)
            stack = nodes[::-1]
            while stack:
                node = stack.pop()
                if isinstance(node, _Function):
                    outer = scope if scope.function is None else scope.outer or scope
                    inner = _Scope(node, scope if scope.function else outer)
                    inner.parameters = _parameters(node.args)
                    waiting.append((inner, [*node.body]))
                    stack.extend(node.decorator_list[::-1])
                    continue
                self._note(scope, node)
                stack.extend([*ast.iter_child_nodes(node)][::-1])

    def _note(self, scope: _Scope, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            scope.calls.append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(scope, target, _Binding(node.value))
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind(scope, node.target, _Binding(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            self._bind(scope, node.target, _Binding(node.value, adds=True))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(scope, node.target, _Binding(node.iter, loops=True))

    def _bind(self, scope: _Scope, target: ast.expr, binding: _Binding) -> None:
        if isinstance(target, ast.Name):
            scope.bindings.setdefault(target.id, []).append(binding)
        elif isinstance(target, ast.Attribute):
            if not (binding.path or binding.loops or binding.adds):
                self._attributes.setdefault(target.attr, []).append((scope, binding.source))
        elif isinstance(target, ast.Tuple | ast.List):
            for index, element in enumerate(target.elts):
                path = (*binding.path, index)
                self._bind(scope, element, msgspec.structs.replace(binding, path=path))

    # --- Texts ---

    def _texts(self, node: ast.expr, scope: _Scope, depth: int) -> list[Template]:
        """Every text that an expression can come out as."""
        if depth > _DEEPEST:
            return _UNKNOWN
        depth += 1
        if isinstance(node, ast.Constant):
            known = isinstance(node.value, str | int) and not isinstance(node.value, bool)
            return [(str(node.value),)] if known else _UNKNOWN
        if isinstance(node, ast.JoinedStr):
            return _products([self._texts(value, scope, depth) for value in node.values])
        if isinstance(node, ast.FormattedValue):
            texts = self._texts(node.value, scope, depth)
            plain = node.format_spec is None and node.conversion in (-1, ord("s"))
            return texts if plain or texts == _NUMBERS else _UNKNOWN
        if isinstance(node, ast.Name):
            key = (node.id, id(scope), depth)
            if key not in self._known:
                self._known[key] = self._variable(node.id, scope, depth)
            return self._known[key]
        if isinstance(node, ast.Attribute):
            key = (node.attr, 0, depth)
            if key not in self._known:
                self._known[key] = self._attribute(node.attr, depth)
            return self._known[key]
        if isinstance(node, ast.BinOp):
            return self._operation(node, scope, depth)
        if isinstance(node, ast.IfExp):
            return self._any_of(
                [self._texts(choice, scope, depth) for choice in (node.body, node.orelse)]
            )
        if isinstance(node, ast.BoolOp):
            return self._any_of([self._texts(value, scope, depth) for value in node.values])
        if isinstance(node, ast.NamedExpr):
            return self._texts(node.value, scope, depth)
        if isinstance(node, ast.Call):
            return self._result(node, scope, depth)
        return _UNKNOWN

    def _any_of(self, choices: Sequence[list[Template]]) -> list[Template]:
        found = list(dict.fromkeys(text for texts in choices for text in texts))
        return found if 0 < len(found) <= _MOST_ALTERNATIVES else _UNKNOWN

    def _attribute(self, name: str, depth: int) -> list[Template]:
        values = self._attributes.get(name, [])
        return self._any_of([self._texts(value, where, depth + 4) for where, value in values[:8]])

    def _variable(self, name: str, scope: _Scope, depth: int) -> list[Template]:
        where: _Scope | None = scope
        while where is not None:
            bindings = where.bindings.get(name, [])
            if bindings or name in where.parameters:
                break
            where = where.outer
        if where is None:
            return _UNKNOWN
        texts = [self._bound(binding, where, depth + 1) for binding in bindings if not binding.adds]
        if name in where.parameters:
            # Only the function's own callers are looked up.
            texts.append([(_Parameter(name),)] if where is scope else _UNKNOWN)
        before = self._any_of(texts)
        added = [
            self._texts(binding.source, where, depth + 4) for binding in bindings if binding.adds
        ]
        after = [text for more in added for text in _products([before, more])]
        return self._any_of([before, after])

    def _bound(self, binding: _Binding, scope: _Scope, depth: int) -> list[Template]:
        if not self._step():
            return _UNKNOWN
        items: Iterable[_Item] | None = [_Item(scope, binding.source)]
        if binding.loops:
            items = self._items(binding.source, scope, depth)
        texts: list[list[Template]] = []
        for item in items or ():
            if not self._step():
                return _UNKNOWN
            texts.append(self._item(item, binding.path, depth))
        return self._any_of(texts)

    def _step(self) -> bool:
        self._steps_left -= 1
        return self._steps_left >= 0

    def _item(self, item: _Item, path: Sequence[int], depth: int) -> list[Template]:
        for index in path:
            expression = item.expression
            if item.parts:
                parts: Sequence[_Item] = item.parts
            elif isinstance(expression, ast.Tuple | ast.List):
                parts = [_Item(item.scope, element) for element in expression.elts]
            else:
                return _UNKNOWN
            if index >= len(parts):
                return _UNKNOWN
            item = parts[index]
        if item.number:
            return _NUMBERS
        if item.expression is None:
            return _UNKNOWN
        return self._texts(item.expression, item.scope, depth)

    def _items(self, node: ast.expr, scope: _Scope, depth: int) -> list[_Item] | None:
        """What a loop over an expression goes through; None if the text does not tell."""
        if depth > _DEEPEST:
            return None
        depth += 1
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [_Item(scope, element) for element in node.elts]
        if isinstance(node, ast.Dict):
            return [_Item(scope, key) for key in node.keys if key is not None]
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return [_Item(scope, node.elt)]
        if isinstance(node, ast.Name):
            where: _Scope | None = scope
            while where is not None and node.id not in where.bindings:
                where = where.outer
            bindings = where.bindings[node.id] if where else []
            if where is None or len(bindings) != 1 or bindings[0].loops or bindings[0].path:
                return None
            return self._items(bindings[0].source, where, depth + 1)
        if not isinstance(node, ast.Call):
            return None
        called, arguments = _called(node), node.args
        if isinstance(node.func, ast.Attribute):
            return self._dictionary(node.func.value, called, scope)
        if called == "range":
            return [_Item(scope, number=True)]
        if called in ("list", "tuple", "set", "sorted", "reversed", "tqdm") and arguments:
            return self._items(arguments[0], scope, depth)
        if called == "enumerate" and arguments:
            items = self._items(arguments[0], scope, depth) or [_Item(scope)]
            number = _Item(scope, number=True)
            return [_Item(scope, parts=(number, item)) for item in items]
        if called == "zip" and arguments:
            columns = [self._items(argument, scope, depth) for argument in arguments]
            length = min((len(column) for column in columns if column), default=1)
            return [
                _Item(
                    scope,
                    parts=tuple(column[row] if column else _Item(scope) for column in columns),
                )
                for row in range(length)
            ]
        return None

    def _dictionary(self, node: ast.expr, view: str, scope: _Scope) -> list[_Item] | None:
        """What a loop over a view of a dictionary that stands in the text goes through."""
        if isinstance(node, ast.Name):
            bindings = scope.bindings.get(node.id, [])
            if len(bindings) == 1 and not (bindings[0].loops or bindings[0].path):
                node = bindings[0].source
        if not isinstance(node, ast.Dict):
            return None
        pairs = [
            (_Item(scope, key), _Item(scope, value))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        if view == "items":
            return [_Item(scope, parts=pair) for pair in pairs]
        return [pair[view == "values"] for pair in pairs] if view in ("keys", "values") else None

    def _operation(self, node: ast.BinOp, scope: _Scope, depth: int) -> list[Template]:
        left = self._texts(node.left, scope, depth)
        if isinstance(node.op, ast.Add):
            right = self._texts(node.right, scope, depth)
            both = [*left, *right]
            if (_NUMBER,) in both and all(map(_is_number, both)):
                return _NUMBERS
            return _products([left, right])
        if not isinstance(node.op, ast.Mod):
            return _NUMBERS if left == _NUMBERS else _UNKNOWN
        given = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        arguments = [self._texts(value, scope, depth) for value in given]
        return self._any_of([_percent(text[0], arguments) for text in left if _is_literal(text)])

    def _result(self, node: ast.Call, scope: _Scope, depth: int) -> list[Template]:
        """What a call of one of a string's own methods gives."""
        function = node.func
        if isinstance(function, ast.Name):
            if function.id in ("str", "int") and len(node.args) == 1:
                return self._texts(node.args[0], scope, depth)
            return _UNKNOWN
        if not isinstance(function, ast.Attribute):
            return _UNKNOWN
        texts = self._texts(function.value, scope, depth)
        arguments = [self._texts(argument, scope, depth) for argument in node.args]
        if function.attr == "format":
            words = {
                word.arg: self._texts(word.value, scope, depth)
                for word in node.keywords
                if word.arg
            }
            return self._any_of(
                [_formatted(text[0], arguments, words) for text in texts if _is_literal(text)]
            )
        if function.attr == "replace" and len(arguments) == 2:
            if all(len(given) == 1 and _is_literal(given[0]) for given in arguments):
                old, new = (str(given[0][0]) for given in arguments)
                return [
                    tuple(
                        part.replace(old, new) if isinstance(part, str) else part for part in text
                    )
                    for text in texts
                ]
            return _UNKNOWN
        if function.attr in ("lower", "upper", "strip", "lstrip", "rstrip") and not arguments:
            change = getattr(str, function.attr)
            return [
                tuple(change(part) if isinstance(part, str) else part for part in text)
                for text in texts
            ]
        if function.attr == "join" and len(node.args) == 1 and texts and _is_literal(texts[0]):
            items = self._items(node.args[0], scope, depth)
            if items and isinstance(node.args[0], ast.List | ast.Tuple):
                parts = [self._item(item, (), depth) for item in items]
                glued = [piece for part in parts for piece in (texts[:1], part)][1:]
                return _products(glued)
        return _UNKNOWN


def _filled(naming: Naming, given: Mapping[str, Template]) -> Naming:
    """Put what is given for them in the place of a name's parameters, a hole for no more."""
    parts = [
        given.get(part.name, (_ANY,)) if isinstance(part, _Parameter) else (part,)
        for part in naming.template
    ]
    return msgspec.structs.replace(naming, template=_joined(parts))


def _tells(template: Template) -> bool:
    """Whether a template has words, or has parameters that may."""
    return any(
        isinstance(part, _Parameter) or (isinstance(part, str) and not part.isdecimal())
        for part in template
    )


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _parameters(arguments: ast.arguments) -> dict[str, ast.expr | None]:
    """Each parameter's default, in order."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    found = {given.arg: default for given, default in zip(positional, defaults, strict=True)}
    for given, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[given.arg] = default
    return found


def _is_literal(template: Template) -> bool:
    return len(template) == 1 and isinstance(template[0], str)


def _is_number(template: Template) -> bool:
    (part, *more) = template
    return not more and (part == _NUMBER or (isinstance(part, str) and part.isdecimal()))


def _products(choices: Sequence[list[Template]]) -> list[Template]:
    """Every way to join one of each choice's texts."""
    size = 1
    for texts in choices:
        size *= len(texts)
        if size > _MOST_ALTERNATIVES:
            return _UNKNOWN
    return list(dict.fromkeys(_joined(parts) for parts in product(*choices)))


def _joined(templates: Iterable[Template]) -> Template:
    """One template after the other, neighbouring texts and holes run together."""
    parts: list[Part] = []
    for part in (part for template in templates for part in template):
        last = parts[-1] if parts else None
        if isinstance(part, str) and isinstance(last, str):
            parts[-1] = last + part
        elif part != "" and not (part == _ANY and last == _ANY):
            parts.append(part)
    return tuple(parts) or ("",)


def _formatted(
    text: Part, arguments: Sequence[list[Template]], words: dict[str, list[Template]]
) -> list[Template]:
    """What ``text.format(...)`` gives."""
    choices: list[list[Template]] = []
    number = 0
    try:
        pieces = list(string.Formatter().parse(str(text)))
    except ValueError:
        return _UNKNOWN
    for literal, field, spec, conversion in pieces:
        choices.append([(literal,)])
        if field is None:
            continue
        if field == "":
            field, number = str(number), number + 1
        given = words.get(field)
        if given is None and field.isdecimal() and int(field) < len(arguments):
            given = arguments[int(field)]
        plain = given is not None and (not (spec or conversion) or given == _NUMBERS)
        choices.append(given if given is not None and plain else _UNKNOWN)
    return _products(choices)


def _percent(text: Part, arguments: Sequence[list[Template]]) -> list[Template]:
    """What ``text % (...)`` gives."""
    choices: list[list[Template]] = []
    waiting = list(arguments)
    pieces = str(text).split("%")
    choices.append([(pieces[0],)])
    index = 1
    while index < len(pieces):
        piece = pieces[index]
        if not piece and index + 1 < len(pieces):
            choices.append([("%" + pieces[index + 1],)])
            index += 2
            continue
        flags = piece[: len(piece) - len(piece.lstrip("0123456789.-+ #"))]
        kind, rest = piece[len(flags) : len(flags) + 1], piece[len(flags) + 1 :]
        if not waiting or kind not in tuple("sdiu"):
            return _UNKNOWN
        given = waiting.pop(0)
        if kind != "s":
            given = given if given == _NUMBERS or all(map(_is_literal, given)) else _NUMBERS
        choices.append(_UNKNOWN if flags and given != _NUMBERS else given)
        choices.append([(rest,)])
        index += 1
    return _products(choices)
