"""The published JSON Schemas, wherever the package runs from.

They live in ``schemas/`` at the root of the repository, where people and editors look for
them. A wheel carries them as ``mirage_gate/schemas/``; a checkout or an editable install
reads the originals.
"""

from __future__ import annotations

import json
from pathlib import Path

_SUFFIX = ".schema.json"


def names() -> tuple[str, ...]:
    """Every schema's name as ``mirage-gate schema`` takes it: ``task-graph`` and so on."""
    return tuple(
        sorted(
            file.name.removesuffix(_SUFFIX).replace("_", "-")
            for file in _folder().glob(f"*{_SUFFIX}")
        )
    )


def text(name: str) -> str:
    """Give one schema as it is published. Raises :class:`LookupError` for an unknown name."""
    if name not in names():
        raise LookupError(f"no schema is named {name!r}; there are: {', '.join(names())}")
    file = _folder() / f"{name.replace('-', '_')}{_SUFFIX}"
    return file.read_text(encoding="utf-8")


def title(name: str) -> str:
    """Give the title of one schema: what its documents are."""
    return str(json.loads(text(name)).get("title", ""))


def _folder() -> Path:
    package = Path(__file__).resolve().parent
    packaged = package / "schemas"
    return packaged if packaged.is_dir() else package.parent / "schemas"
