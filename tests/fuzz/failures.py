"""What broke a reader, written down as the bytes that did, once for each place."""

from __future__ import annotations

import traceback
from pathlib import Path

__all__ = ["Failures"]


class Failures:
    """The failures of one run; ``seen`` are their places."""

    def __init__(self, folder: Path) -> None:
        self.seen: set[str] = set()
        self._folder = folder

    def keep(self, name: str, data: bytes, error: Exception) -> None:
        """Write down what broke a reader, once for each place where it broke."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{name}: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        if place in self.seen:
            return
        self.seen.add(place)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}-{len(self.seen)}"
        path.write_bytes(data)
        print(f"{place}: {str(error)[:300]} ({len(data)} bytes in {path})", flush=True)
