"""What an expression of a builder can come out as, worked out in counted steps."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

import msgspec

from mirage_gate.artifacts.builder.scopes import Binding, Module, Scope, called
from mirage_gate.artifacts.builder.templates import (
    MOST_ALTERNATIVES,
    NUMBER,
    NUMBERS,
    UNKNOWN,
    Parameter,
    Template,
    formatted,
    is_literal,
    is_number,
    percent,
    products,
)

_DEEPEST = 24
_MOST_STEPS = 50_000
"""Callers gone through and elements of loops looked at; what would take more stays unknown."""


class _Item(msgspec.Struct):
    """An element of something iterated over: a known expression, a number, a tuple."""

    scope: Scope
    expression: ast.expr | None = None
    parts: tuple[_Item, ...] = ()
    number: bool = False


class Values:
    """The texts of one file's expressions."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._steps_left = _MOST_STEPS
        # (name, id of the scope, depth): a name with many uses has its many bindings read once.
        self._known: dict[tuple[str, int, int], list[Template]] = {}

    def texts(self, node: ast.expr, scope: Scope, depth: int = 0) -> list[Template]:
        """Every text that an expression can come out as."""
        if depth > _DEEPEST:
            return UNKNOWN
        depth += 1
        if isinstance(node, ast.Constant):
            known = isinstance(node.value, str | int) and not isinstance(node.value, bool)
            return [(str(node.value),)] if known else UNKNOWN
        if isinstance(node, ast.JoinedStr):
            return products([self.texts(value, scope, depth) for value in node.values])
        if isinstance(node, ast.FormattedValue):
            texts = self.texts(node.value, scope, depth)
            plain = node.format_spec is None and node.conversion in (-1, ord("s"))
            return texts if plain or texts == NUMBERS else UNKNOWN
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
                [self.texts(choice, scope, depth) for choice in (node.body, node.orelse)]
            )
        if isinstance(node, ast.BoolOp):
            return self._any_of([self.texts(value, scope, depth) for value in node.values])
        if isinstance(node, ast.NamedExpr):
            return self.texts(node.value, scope, depth)
        if isinstance(node, ast.Call):
            return self._result(node, scope, depth)
        return UNKNOWN

    def _any_of(self, choices: Sequence[list[Template]]) -> list[Template]:
        found = list(dict.fromkeys(text for texts in choices for text in texts))
        return found if 0 < len(found) <= MOST_ALTERNATIVES else UNKNOWN

    def _attribute(self, name: str, depth: int) -> list[Template]:
        values = self._module.attributes.get(name, [])
        return self._any_of([self.texts(value, where, depth + 4) for where, value in values[:8]])

    def _variable(self, name: str, scope: Scope, depth: int) -> list[Template]:
        where: Scope | None = scope
        while where is not None:
            bindings = where.bindings.get(name, [])
            if bindings or name in where.parameters:
                break
            where = where.outer
        if where is None:
            return UNKNOWN
        texts = [self._bound(binding, where, depth + 1) for binding in bindings if not binding.adds]
        if name in where.parameters:
            # Only the function's own callers are looked up.
            texts.append([(Parameter(name),)] if where is scope else UNKNOWN)
        before = self._any_of(texts)
        added = [
            self.texts(binding.source, where, depth + 4) for binding in bindings if binding.adds
        ]
        after = [text for more in added for text in products([before, more])]
        return self._any_of([before, after])

    def _bound(self, binding: Binding, scope: Scope, depth: int) -> list[Template]:
        if not self.step():
            return UNKNOWN
        items: Iterable[_Item] | None = [_Item(scope, binding.source)]
        if binding.loops:
            items = self._items(binding.source, scope, depth)
        texts: list[list[Template]] = []
        for item in items or ():
            if not self.step():
                return UNKNOWN
            texts.append(self._item(item, binding.path, depth))
        return self._any_of(texts)

    def step(self) -> bool:
        """Count a step; False once there were too many."""
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
                return UNKNOWN
            if index >= len(parts):
                return UNKNOWN
            item = parts[index]
        if item.number:
            return NUMBERS
        if item.expression is None:
            return UNKNOWN
        return self.texts(item.expression, item.scope, depth)

    def _items(self, node: ast.expr, scope: Scope, depth: int) -> list[_Item] | None:
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
            where: Scope | None = scope
            while where is not None and node.id not in where.bindings:
                where = where.outer
            bindings = where.bindings[node.id] if where else []
            if where is None or len(bindings) != 1 or bindings[0].loops or bindings[0].path:
                return None
            return self._items(bindings[0].source, where, depth + 1)
        if not isinstance(node, ast.Call):
            return None
        name, arguments = called(node), node.args
        if isinstance(node.func, ast.Attribute):
            return self._dictionary(node.func.value, name, scope)
        if name == "range":
            return [_Item(scope, number=True)]
        if name in ("list", "tuple", "set", "sorted", "reversed", "tqdm") and arguments:
            return self._items(arguments[0], scope, depth)
        if name == "enumerate" and arguments:
            items = self._items(arguments[0], scope, depth) or [_Item(scope)]
            number = _Item(scope, number=True)
            return [_Item(scope, parts=(number, item)) for item in items]
        if name == "zip" and arguments:
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

    def _dictionary(self, node: ast.expr, view: str, scope: Scope) -> list[_Item] | None:
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

    def _operation(self, node: ast.BinOp, scope: Scope, depth: int) -> list[Template]:
        left = self.texts(node.left, scope, depth)
        if isinstance(node.op, ast.Add):
            right = self.texts(node.right, scope, depth)
            both = [*left, *right]
            if (NUMBER,) in both and all(map(is_number, both)):
                return NUMBERS
            return products([left, right])
        if not isinstance(node.op, ast.Mod):
            return NUMBERS if left == NUMBERS else UNKNOWN
        given = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        arguments = [self.texts(value, scope, depth) for value in given]
        return self._any_of([percent(text[0], arguments) for text in left if is_literal(text)])

    def _result(self, node: ast.Call, scope: Scope, depth: int) -> list[Template]:
        """What a call of one of a string's own methods gives."""
        function = node.func
        if isinstance(function, ast.Name):
            if function.id in ("str", "int") and len(node.args) == 1:
                return self.texts(node.args[0], scope, depth)
            return UNKNOWN
        if not isinstance(function, ast.Attribute):
            return UNKNOWN
        texts = self.texts(function.value, scope, depth)
        arguments = [self.texts(argument, scope, depth) for argument in node.args]
        if function.attr == "format":
            words = {
                word.arg: self.texts(word.value, scope, depth) for word in node.keywords if word.arg
            }
            return self._any_of(
                [formatted(text[0], arguments, words) for text in texts if is_literal(text)]
            )
        if function.attr == "replace" and len(arguments) == 2:
            if all(len(given) == 1 and is_literal(given[0]) for given in arguments):
                old, new = (str(given[0][0]) for given in arguments)
                return [
                    tuple(
                        part.replace(old, new) if isinstance(part, str) else part for part in text
                    )
                    for text in texts
                ]
            return UNKNOWN
        if function.attr in ("lower", "upper", "strip", "lstrip", "rstrip") and not arguments:
            change = getattr(str, function.attr)
            return [
                tuple(change(part) if isinstance(part, str) else part for part in text)
                for text in texts
            ]
        if function.attr == "join" and len(node.args) == 1 and texts and is_literal(texts[0]):
            items = self._items(node.args[0], scope, depth)
            if items and isinstance(node.args[0], ast.List | ast.Tuple):
                parts = [self._item(item, (), depth) for item in items]
                glued = [piece for part in parts for piece in (texts[:1], part)][1:]
                return products(glued)
        return UNKNOWN
