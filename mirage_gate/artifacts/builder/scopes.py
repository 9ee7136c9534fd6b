"""The scopes of a builder: every variable and every call, in the order of the text."""

from __future__ import annotations

import ast

import msgspec

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Binding(msgspec.Struct):
    """One way that a variable gets its value.

    ``source`` is what is assigned, or what is iterated over where ``loops``; ``path`` leads
    to the variable's part of it; ``adds`` is for ``+=``.
    """

    source: ast.expr
    path: tuple[int, ...] = ()
    loops: bool = False
    adds: bool = False


class Scope(msgspec.Struct):
    """The variables of a module or a function."""

    function: Function | None
    outer: Scope | None
    bindings: dict[str, list[Binding]] = msgspec.field(default_factory=dict)
    parameters: dict[str, ast.expr | None] = msgspec.field(default_factory=dict)
    calls: list[ast.Call] = msgspec.field(default_factory=list)


class Module:
    """The scopes of one file, and who is called where."""

    def __init__(self, tree: ast.Module) -> None:
        self.scopes: list[Scope] = []
        self.attributes: dict[str, list[tuple[Scope, ast.expr]]] = {}
        self._collect(tree)
        self.callers: dict[str, list[tuple[Scope, ast.Call]]] = {}
        for scope in self.scopes:
            for call in scope.calls:
                if name := called(call):
                    self.callers.setdefault(name, []).append((scope, call))

    def _collect(self, tree: ast.Module) -> None:
        """Note every scope's variables and calls, in the order of the text."""
        waiting: list[tuple[Scope, list[ast.AST]]] = [(Scope(None, None), [*tree.body])]
        while waiting:
            scope, nodes = waiting.pop(0)
            self.scopes.append(scope)
            stack = nodes[::-1]
            while stack:
                node = stack.pop()
                if isinstance(node, Function):
                    outer = scope if scope.function is None else scope.outer or scope
                    inner = Scope(node, scope if scope.function else outer)
                    inner.parameters = _parameters(node.args)
                    waiting.append((inner, [*node.body]))
                    stack.extend(node.decorator_list[::-1])
                    continue
                self._note(scope, node)
                stack.extend([*ast.iter_child_nodes(node)][::-1])

    def _note(self, scope: Scope, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            scope.calls.append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(scope, target, Binding(node.value))
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind(scope, node.target, Binding(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            self._bind(scope, node.target, Binding(node.value, adds=True))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(scope, node.target, Binding(node.iter, loops=True))

    def _bind(self, scope: Scope, target: ast.expr, binding: Binding) -> None:
        if isinstance(target, ast.Name):
            scope.bindings.setdefault(target.id, []).append(binding)
        elif isinstance(target, ast.Attribute):
            if not (binding.path or binding.loops or binding.adds):
                self.attributes.setdefault(target.attr, []).append((scope, binding.source))
        elif isinstance(target, ast.Tuple | ast.List):
            for index, element in enumerate(target.elts):
                path = (*binding.path, index)
                self._bind(scope, element, msgspec.structs.replace(binding, path=path))


def called(call: ast.Call) -> str:
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
