"""Reading the Python that built a graph: which line gave which tensor its name.

MPK's builders name tensors in calls such as ``mpk.attach_input(weight, name=f"layer_{i}_q")``.
The source is parsed and never run. What a name's expression can come out as is worked out as
far as text tells: through literals, f-strings, ``.format``, ``%``, ``+``, assignments, loops
over literals and the parameters of helpers that pass a name on. The rest is a hole in a
template, which any text fills.

:mod:`~mirage_gate.artifacts.builder.scopes` lists variables and calls,
:mod:`~mirage_gate.artifacts.builder.values` works out what an expression can come out as,
:mod:`~mirage_gate.artifacts.builder.templates` is the arithmetic of such texts, and
:mod:`~mirage_gate.artifacts.builder.names` puts them together for each call.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Sequence
from importlib.util import decode_source

from mirage_gate.artifacts import files
from mirage_gate.artifacts.builder.names import Namer, Naming
from mirage_gate.artifacts.builder.templates import ANY

LONGEST = 1 << 21
"""Bytes of the longest builder that is read: the longest known has 60,000."""

# The call that makes a tensor of each kind.
_MAKERS = {
    "host": "attach_input",
    "shuffled": "shuffle_tensors",
    "scratch": "new_tensor",
    "symmetric": "new_tensor",
}


class BuilderError(Exception):
    """A builder that cannot be read; the message is a sentence about it."""


class Builder:
    """One builder's file, and every call in it that names a tensor."""

    def __init__(self, path: str, namings: Sequence[Naming]) -> None:
        self.path = path
        self.namings = tuple(namings)


def read(path: str) -> Builder:
    """Read one builder. Raises :class:`BuilderError`."""
    try:
        data = files.read(path)
        if len(data) > LONGEST:
            raise BuilderError(f"{path}: is no builder: it has {len(data):,} bytes")
        source = decode_source(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the builder's own affairs
            tree = ast.parse(source)
    except files.Unreadable as error:
        raise BuilderError(f"{path} {error}") from error
    except SyntaxError as error:
        raise BuilderError(f"{path}:{error.lineno or 1}: is no Python: {error.msg}") from error
    except (LookupError, ValueError, RecursionError, MemoryError) as error:
        raise BuilderError(f"{path}: is no Python: {error}") from error
    return Builder(path, list(Namer(path, source, tree).namings()))


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
            naming.template.count(ANY),
        ),
    )
