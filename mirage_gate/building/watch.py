"""Watching MPK's calls: what names a tensor, what makes an operator, what emits the graph.

The classes are found when the module that holds them is imported, whatever it is called, or
where they are already. Nothing of MPK is imported from here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any, ClassVar

import msgspec

from mirage_gate.building.record import Machinery, Record

_GRAPH = "KNGraph"
_EMITS = "generate_task_graph"
_BLOCKS = "CyTBGraph"
"""The class of the blocks of an operator, which is told the grid and does not tell it again."""

_NAMING = {
    "attach_torch_tensor": ("attach_input", 2),
    "attach_cuda_tensor": ("new_tensor", 1),
    "attach_nvshmem_tensor": ("new_tensor", 1),
    "fuse_tensors": ("fuse_tensors", 3),
    "shuffle_tensors": ("shuffle_tensors", 3),
}
"""What the graph's method is called for, and where it is given the name."""

_UNSEEN = importlib.machinery.ModuleSpec.__init__.__code__.co_filename
"""Where importers live: Python leaves their frames out of the traceback of what they import."""

_RECORD = "_mirage_gate_record"
_WATCHED = "_mirage_gate_watched"


class Emitted(msgspec.Struct, frozen=True):
    """A graph as it left the generator."""

    rank: int
    world_size: int
    cuda: str
    graph: str
    record: Record


class Watch:
    """While entered, ``tell`` is called with every graph that is emitted in this process.

    What it raises reaches the builder in the place of the two texts. Several may be entered
    at a time; each is told.
    """

    _all: ClassVar[list[Watch]] = []
    _hooks: ClassVar[_Hooks | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, tell: Callable[[Emitted], None]) -> None:
        self._tell = tell

    def __enter__(self) -> Watch:
        with Watch._lock:
            Watch._all.append(self)
            if Watch._hooks is None:
                Watch._hooks = _Hooks()
                Watch._hooks.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with Watch._lock:
            Watch._all.remove(self)
            if not Watch._all and Watch._hooks is not None:
                Watch._hooks.remove()
                Watch._hooks = None

    @property
    def seen(self) -> bool:
        """Whether MPK has been imported at all."""
        return Watch._hooks is not None and Watch._hooks.seen

    @classmethod
    def tell_all(cls, emitted: Emitted) -> None:
        """Tell everybody who watches, the innermost first."""
        __tracebackhide__ = True
        for watch in reversed(cls._all):
            watch._tell(emitted)


class _Hooks(importlib.abc.MetaPathFinder):
    """What stands in MPK's methods and among Python's importers while anybody watches."""

    def __init__(self) -> None:
        self._machinery = Machinery()
        self._undo: list[Callable[[], None]] = []
        self._looking = threading.local()
        self.seen = False

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        for module in [*sys.modules.values()]:
            self._look(module)

    def remove(self) -> None:
        sys.meta_path.remove(self)
        while self._undo:
            self._undo.pop()()

    # --- Finding the classes ---

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Have a look at each module once it is loaded."""
        if getattr(self._looking, "now", False):
            return None
        self._looking.now = True
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec: importlib.machinery.ModuleSpec | None = find(name, path, target)
                if spec is not None:
                    return self._followed(spec)
        finally:
            self._looking.now = False
        return None

    def _followed(self, spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec:
        run = getattr(spec.loader, "exec_module", None)
        if run is not None:

            @functools.wraps(run)
            def exec_module(module: ModuleType) -> None:
                run(module)
                self._look(module)

            code = exec_module.__code__  # type: ignore[attr-defined]
            exec_module.__code__ = code.replace(co_filename=_UNSEEN)  # type: ignore[attr-defined]
            with contextlib.suppress(AttributeError):  # of built-in modules: MPK is none
                spec.loader.exec_module = exec_module  # type: ignore[union-attr,method-assign]
        return spec

    def _look(self, module: object) -> None:
        here = getattr(module, "__dict__", None)
        if not isinstance(here, dict):
            return
        graph, blocks = here.get(_GRAPH), here.get(_BLOCKS)
        if isinstance(graph, type) and hasattr(graph, _EMITS):
            self._follow_graph(graph)
            self.seen = True
        if isinstance(blocks, type):
            self._follow_blocks(here, blocks)
        if graph is not None or blocks is not None:
            self._machinery.add(here.get("__file__"))

    # --- Following them ---

    def _follow_graph(self, graph: type) -> None:
        if _WATCHED in vars(graph):
            return
        setattr(graph, _WATCHED, True)
        self._undo.append(functools.partial(delattr, graph, _WATCHED))
        self._machinery.add(getattr(sys.modules.get(graph.__module__), "__file__", None))
        for method, (call, position) in _NAMING.items():
            self._wrap(graph, method, functools.partial(self._names, call, position))
        self._wrap(graph, "customized", self._operands)
        self._wrap(graph, "register_task", self._operator)
        self._wrap(graph, _EMITS, self._emits)

    def _wrap(self, graph: type, method: str, around: Callable[..., object]) -> None:
        run = getattr(graph, method, None)
        if run is None:  # another vintage
            return

        @functools.wraps(run)
        def watched(this: object, *args: Any, **kwargs: Any) -> object:
            __tracebackhide__ = True  # what pytest leaves out
            return around(run, this, args, kwargs)

        own = vars(graph).get(method)
        setattr(graph, method, watched)
        if own is None:
            self._undo.append(functools.partial(delattr, graph, method))
        else:
            self._undo.append(functools.partial(setattr, graph, method, own))

    def _follow_blocks(self, here: dict[str, Any], blocks: type) -> None:
        """Put a class that remembers its grid in the place of the one that does not."""
        if _WATCHED in vars(blocks):
            return

        class Blocks(blocks):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                if vars(blocks).get("__init__") is not None:
                    super().__init__(*args, **kwargs)
                grid = kwargs.get("grid_dim", args[0] if args else None)
                self._mirage_gate_grid = grid if isinstance(grid, tuple) else None

        Blocks.__name__, Blocks.__qualname__ = blocks.__name__, blocks.__qualname__
        Blocks.__module__ = blocks.__module__
        setattr(Blocks, _WATCHED, True)
        for module in [*sys.modules.values()]:
            names = getattr(module, "__dict__", None)
            if isinstance(names, dict) and names.get(_BLOCKS) is blocks:
                names[_BLOCKS] = Blocks
                self._undo.append(functools.partial(names.__setitem__, _BLOCKS, blocks))
        if here.get(_BLOCKS) is blocks:
            here[_BLOCKS] = Blocks
            self._undo.append(functools.partial(here.__setitem__, _BLOCKS, blocks))

    # --- What they do ---

    def _record(self, graph: object) -> Record:
        record = graph.__dict__.get(_RECORD)
        if not isinstance(record, Record):
            record = graph.__dict__[_RECORD] = Record(self._machinery)
        return record

    def _names(
        self,
        call: str,
        position: int,
        run: Callable[..., object],
        graph: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> object:
        result = run(graph, *args, **kwargs)
        name = kwargs.get("name", args[position] if len(args) > position else None)
        # A tensor is attached, or made of several.
        tensor = kwargs.get("t", args[0] if args else None) if result is None else result
        record = self._record(graph)
        if call == "fuse_tensors":
            record.fused(kwargs.get("input", args[0] if args else None), name)
        record.named(tensor, name, call)
        return result

    def _operands(
        self,
        run: Callable[..., object],
        graph: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> object:
        self._record(graph).given(kwargs.get("inputs", args[0] if args else None))
        return run(graph, *args, **kwargs)

    def _operator(
        self,
        run: Callable[..., object],
        graph: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> object:
        result = run(graph, *args, **kwargs)
        blocks = kwargs.get("bgraph", args[0] if args else None)
        grid = getattr(getattr(blocks, "cygraph", blocks), "_mirage_gate_grid", None)
        task = kwargs.get("task_type", args[1] if len(args) > 1 else "")
        self._record(graph).registered(task, grid)
        return result

    def _emits(
        self,
        run: Callable[..., object],
        graph: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> object:
        __tracebackhide__ = True
        result = run(graph, *args, **kwargs)
        world = kwargs.get("num_gpus", args[0] if args else 1)
        rank = kwargs.get("my_gpu_id", args[1] if len(args) > 1 else 0)
        cuda, json = _text(result, "cuda_code"), _text(result, "json_file")
        Watch.tell_all(Emitted(int(rank), int(world), cuda, json, self._record(graph)))
        return result


def _text(result: object, key: str) -> str:
    try:
        text = result[key]  # type: ignore[index]
    except (KeyError, TypeError, IndexError):
        text = None
    # Without the text there is nothing to audit, and an audit of nothing finds no fault.
    return text if isinstance(text, str) else ""
