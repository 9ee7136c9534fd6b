"""Finding the sources of MPK: the user's checkout, or what an editable install came from."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

_PACKAGE = Path("python", "mirage")
_NEEDED = (_PACKAGE / "_cython" / "core.pyx", Path("src", "kernel", "runtime.cc"), Path("include"))


class NoSources(Exception):
    """There is nothing to build from; the message is a sentence."""


class Sources(msgspec.Struct, frozen=True):
    """A checkout of MPK: its root, in which ``python/mirage``, ``src`` and ``include`` are."""

    root: Path

    @property
    def package(self) -> Path:
        """The Python package's folder."""
        return self.root / _PACKAGE


def find(named: str | None, script: str | None) -> Sources:
    """Find the sources: as named, else where the script is, else as installed.

    Raises :class:`NoSources`.
    """
    if named is not None:
        root = Path(named)
        if not root.is_dir():
            raise NoSources(f"--mirage {named}: no such folder")
        if missing := _missing(root):
            raise NoSources(f"--mirage {named} is no checkout of MPK: it has no {missing}")
        return Sources(root.resolve())
    for root in _likely(script):
        if not _missing(root):
            return Sources(root.resolve())
    raise NoSources(
        "MPK's C++ sources were not found around the script nor by an editable install (a wheel "
        "has none): name a checkout with --mirage DIR"
    )


def _missing(root: Path) -> str:
    return next((str(path) for path in _NEEDED if not (root / path).exists()), "")


def _likely(script: str | None) -> Iterator[Path]:
    if script is not None:
        yield from Path(script).resolve().parents
    for name in ("MIRAGE_HOME", "MIRAGE_ROOT"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    try:
        spec = importlib.util.find_spec("mirage")  # looked for, not imported
    except (ImportError, ValueError):
        return
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(folder).resolve().parents
