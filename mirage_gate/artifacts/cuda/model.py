"""What is read of a ``.cu``: declarations with their storage, and dispatch branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from mirage_gate.findings import Location

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda.calls import Body

Kind = Literal["host", "shuffled", "scratch", "symmetric", "sentinel", "unknown"]

LOADED: frozenset[Kind] = frozenset({"host", "shuffled"})
"""Storage that the host fills: weights, caches, tables, tokens."""

BUFFERS: frozenset[Kind] = frozenset({"scratch", "symmetric"})
"""Storage that only tasks fill."""

SENTINEL = "nullptr"
"""The declared name that stands for an input set to None."""


class Copy(msgspec.Struct, frozen=True):
    """One ``cudaMemcpy2DAsync`` into a shuffled tensor.

    ``height`` rows of ``width`` bytes go to ``offset``, ``offset + pitch``, …; they come
    from ``source`` (the model's name for it, or the pointer's text), whose rows are
    ``source_pitch`` bytes apart. ``named``: the source is one of the model's.
    """

    source: str
    offset: int
    pitch: int
    source_pitch: int
    width: int
    height: int
    location: Location
    named: bool = True


class Undoing(msgspec.Struct, frozen=True):
    """A statement after a declaration that takes it back: ``erase``, ``clear``, ``cudaFree``."""

    what: str
    location: Location


class Declaration(msgspec.Struct, frozen=True):
    """One ``all_tensors["NAME"] = VARIABLE;`` statement and the storage behind it.

    ``nbytes`` is the allocation's size in bytes, None for a host tensor. ``pointer`` is the
    literal address in the older dialect, empty otherwise. ``storage`` is None where no
    storage statement was found.

    ``value`` is what the statement assigns, as written; ``variable`` the name in it, if it is
    one. ``key`` is the name that ``model_tensors.at`` is asked for. ``shift`` counts the bytes
    that were added to the pointer on its way, None where that is no number. ``null``: what is
    entered is a null pointer, and not under the sentinel's name. ``allocation`` is the statement
    that gave a buffer its memory before it was entered, ``late`` the one that did so after.
    ``memory`` is the same for two declarations exactly if one statement made the memory of both;
    it is empty where that is not known. ``unclear``: a statement copies into it that was not
    understood. ``undone`` are statements after this one that take it
    back. ``unmade``: nothing in the text can have given the variable its memory.

    ``kind`` and ``nbytes`` of an entry that is null are those of the variable of its name.
    """

    name: str
    kind: Kind
    location: Location
    nbytes: int | None = None
    storage: Location | None = None
    pointer: str = ""
    copies: tuple[Copy, ...] = ()
    value: str = ""
    variable: str = ""
    key: str = ""
    shift: int | None = 0
    null: bool = False
    allocation: Location | None = None
    late: Location | None = None
    memory: str = ""
    undone: tuple[Undoing, ...] = ()
    unclear: bool = False
    unmade: bool = False


class Branch(msgspec.Struct, frozen=True):
    """One branch of the dispatch chain: what the body of (type, variant) names.

    ``inputs`` and ``outputs`` are slot numbers named by pointer or by TMA descriptor;
    ``tma_inputs`` and ``tma_outputs`` those named by descriptor. ``every_input`` or
    ``every_output`` is set when a body indexes the slots with something other than a number,
    or hands all of them on. A body that hands on the metadata may read every field.

    ``condition`` is as written. ``function`` is the dispatch function that it stands in, empty
    in a text without one. ``body`` parses the calls when it is asked.
    """

    type_name: str
    variant: int
    location: Location
    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    tma_inputs: frozenset[int] = frozenset()
    tma_outputs: frozenset[int] = frozenset()
    every_input: bool = False
    every_output: bool = False
    metadata: frozenset[str] = frozenset()
    runtime: frozenset[str] = frozenset()
    condition: str = ""
    function: str = ""
    body: Body | None = None

    def names_input(self, slot: int) -> bool:
        """Whether the body uses input ``slot``."""
        return self.every_input or slot in self.inputs

    def names_output(self, slot: int) -> bool:
        """Whether the body uses output ``slot``."""
        return self.every_output or slot in self.outputs


class CudaSource(msgspec.Struct, frozen=True):
    """All that an audit reads of a ``.cu``.

    ``declarations`` in the order of the text, repeated names included. ``dispatch`` maps
    (type name, variant) to its branch; of a repeated condition the first counts, as in
    C++. ``unreachable`` are the conditions of branches that never run: their own condition is
    false, or they stand behind a ``return``, or in a function that is not the dispatch.
    ``unread`` are tests of a task's type or variant that were not understood.
    ``loader_fields`` are the fields that ``construct_task_graph`` insists on, each with
    the place of its first ``task.at("…")``. ``embedded`` is the place of the first task
    that the ``.cu`` constructs itself. ``world_size`` is N of ``assert(num_gpus = N)``.
    ``unclosed`` is the opening brace of the outermost block that the text never closes: the
    file was cut off. Or the first parenthesis or square bracket; ``unclosed_bracket`` says which.
    """

    path: str
    declarations: tuple[Declaration, ...]
    dispatch: dict[tuple[str, int], Branch]
    loader_fields: dict[str, Location]
    dispatch_location: Location | None = None
    embedded: Location | None = None
    world_size: int | None = None
    unclosed: Location | None = None
    unclosed_bracket: str = ""
    unreachable: dict[tuple[str, int], Location] = msgspec.field(default_factory=dict)
    unread: tuple[Location, ...] = ()
