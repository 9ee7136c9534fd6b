"""What is not known without a GPU: it may be called and passed on, and never be decided by.

A builder sets flags, makes streams and decorates kernels that no task graph depends on. All of
that is let through. As soon as such a thing is used as a value (a number, a truth, a length, a
shape), it would have to be made up, and a graph made of it would be another than the GPU
machine's: then it raises :class:`NotStoodIn`, which names what is missing.
"""

from __future__ import annotations

import sys
import types
from typing import Any, NoReturn


class NotStoodIn(Exception):
    """Something whose value nobody knows here; ``name`` is what it is."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(f"{name} is not stood in for without a GPU{why}")
        self.name = name


NotStoodIn.__module__ = "mirage_gate"  # as a traceback says it


class Unknown:
    """A thing of that kind, with its dotted name."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self._name}.{name}")

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__[name] = value

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        return Unknown(f"{self._name}()")

    def __getitem__(self, _key: object) -> Unknown:
        return Unknown(f"{self._name}[]")

    def __setitem__(self, _key: object, _value: object) -> None:
        pass

    def __enter__(self) -> Unknown:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def __mro_entries__(self, _bases: tuple[type, ...]) -> tuple[type, ...]:
        return ()

    def __or__(self, other: object) -> Any:
        if other is None or isinstance(other, type | Unknown):  # an annotation
            return Unknown(f"{self._name} | …")
        return self._decide()

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self._name}, not known without a GPU>"

    def _decide(self, *_others: object) -> NoReturn:
        raise NotStoodIn(str(self.__dict__["_name"]))

    __bool__ = __int__ = __index__ = __float__ = __len__ = __iter__ = _decide
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _decide
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _decide
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _decide
    __neg__ = __matmul__ = __rmatmul__ = __contains__ = __abs__ = _decide
    __hash__ = object.__hash__


class UnknownModule(types.ModuleType):
    """A module of which nothing is known but what was put into it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        return sys.modules[full] if full in sys.modules else Unknown(full)
