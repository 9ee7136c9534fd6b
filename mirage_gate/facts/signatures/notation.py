"""The notation of the tables: what an operator's slots are to each other, and to its kernel.

An operator is written in the manner of an einsum::

    x[b,k] w[n,k] r?[b,n] -> y[b,n]

Each slot has a name and an axis for each of its dims, outermost first. An axis that two slots
share is cut alike in both: the same share of the tensor, start and length. An axis in inputs only
is summed over. ``_`` is an axis that is related to nothing.

==========  =========================================================================
``2n``      twice as long as ``n``: gate and up beside each other
``h.q``     the same share of ``h`` as others, in a unit of its own: heads of queries
``b?``      the same share as others, or one for all tasks
``ranks``   as long as there are ranks
``x?``      may be None
``x~``      its rows need not be what is contiguous; all others are row-major
``x:f8``    of this data type: ``f`` floating, ``f8`` 8-bit floating, ``i`` integer
==========  =========================================================================

``|`` separates readings for tiles of other ranks. A device function is written as two lists of its
parameters, in order, each ``NAME`` alone (not checked) or ``NAME=`` and what it is to be:

===============  ====================================================================
``n``, ``h.q``   the extent of an axis in the tile
``y.n``          the stride of slot ``y`` along an axis, in elements
``ranks``        how many ranks there are; ``rank`` this one's number
``T:x,y``        the element type of slots
``rows:x``       the product of all dims of slot ``x`` but the last
``?q,k``         a truth value: whether the slots hold tensors; ``!q`` its opposite
``@kv_idx``      a metadata field; ``%kv_idx`` how many values an operator's tasks have
``x``, ``x?``    in the call: the slot; the slot or a null pointer where it is not there
``r/y``          in the call: slot ``r``, or ``y`` in its place
``-``            in the call: no slot
``==n``          in the call: a number, as for a template parameter
===============  ====================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import msgspec

RANKS = "ranks"
"""The axis that is as long as there are ranks."""

NOTHING = "_"


class Axis(msgspec.Struct, frozen=True):
    """One dim of a slot: ``factor`` × the axis ``name``, in a unit of its own if ``unit``."""

    name: str
    factor: int = 1
    unit: str = ""
    may_stay: bool = False

    @property
    def related(self) -> bool:
        """Whether it says anything."""
        return self.name != NOTHING


class Operand(msgspec.Struct, frozen=True):
    """One slot of an operator. ``kind`` is the class of its data type, empty if any will do."""

    name: str
    is_input: bool
    index: int
    axes: tuple[Axis, ...]
    optional: bool = False
    kind: str = ""
    row_major: bool = True

    @property
    def side(self) -> str:
        """The slot as people name it."""
        return f"{'input' if self.is_input else 'output'} {self.index}"


class Signature(msgspec.Struct, frozen=True):
    """What the slots of an operator are to each other."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Every slot, inputs first."""
        return self.inputs + self.outputs

    def named(self, name: str) -> Operand | None:
        """The slot of that name."""
        return next((operand for operand in self.operands if operand.name == name), None)

    @property
    def summed(self) -> frozenset[str]:
        """The axes in inputs only: the operator sums over them.

        A sum over a part of such an axis is a part of the result.
        """
        of = [
            {axis.name for operand in side for axis in operand.axes if axis.related}
            for side in (self.inputs, self.outputs)
        ]
        return frozenset(of[0] - of[1])

    def fits(self, ranks: tuple[int, ...], inputs: int) -> bool:
        """Whether slots of these ranks can be read so; 0 is a None input."""
        if inputs != len(self.inputs) or len(ranks) != len(self.operands):
            return False
        return all(
            rank == len(operand.axes) or (not rank and operand.optional)
            for rank, operand in zip(ranks, self.operands, strict=True)
        )


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of a device function. ``spec`` is empty where it is not checked."""

    name: str
    spec: str = ""


class Kernel(msgspec.Struct, frozen=True):
    """One way a device function has been declared.

    ``where`` are equations between sums of products of parameters, axes and numbers, such as
    ``HEADS*HEAD_DIM=h.q``.
    """

    template: tuple[Parameter, ...]
    call: tuple[Parameter, ...]
    where: tuple[tuple[str, str], ...] = ()

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The names of the parameters that nothing is said about."""
        related = {name for sides in self.where for side in sides for name in _NAME.findall(side)}
        every = self.template + self.call
        return tuple(p.name for p in every if not p.spec and p.name not in related)


_FLOATS = frozenset({920, 930, 940, 941, 950, 960})
KINDS: dict[str, Callable[[int], bool]] = {
    "f": lambda code: code in _FLOATS,
    "f8": lambda code: code == 930,
    "i": lambda code: code not in _FLOATS,
}
"""Whether a data type's code is of a class."""

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_OPERAND = re.compile(r"([a-z]\w*)(\??)(~?)(?::(f8|f|i))?\[([^\[\]]*)\]")
_AXIS = re.compile(r"([0-9]*)([a-z]\w*|_)(?:\.([a-z]\w*))?(\??)")


@cache
def signatures(text: str) -> tuple[Signature, ...]:
    """Read an operator's readings. Raises :class:`ValueError` for anything else."""
    return tuple(_signature(part) for part in text.split("|"))


def _signature(text: str) -> Signature:
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"{text.strip()!r} is no operator: x[b,k] w[n,k] -> y[b,n]")
    found = Signature(_operands(left, True), _operands(right, False))
    names = [operand.name for operand in found.operands]
    if len(set(names)) < len(names):
        raise ValueError(f"{text.strip()!r} names a slot twice")
    return found


def _operands(text: str, is_input: bool) -> tuple[Operand, ...]:
    operands = []
    for index, word in enumerate(text.split()):
        match = _OPERAND.fullmatch(word)
        if not match:
            raise ValueError(f"{word!r} is no slot: x[b,k], optional as x?[b,k]")
        operands.append(
            Operand(
                match[1],
                is_input,
                index,
                axes=tuple(_axis(axis) for axis in match[5].split(",")) if match[5] else (),
                optional=bool(match[2]),
                kind=match[4] or "",
                row_major=not match[3],
            )
        )
    return tuple(operands)


def _axis(text: str) -> Axis:
    match = _AXIS.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no axis: a name, such as n, 2n, h.q or _")
    return Axis(match[2], int(match[1] or 1), match[3] or "", bool(match[4]))


@cache
def kernel(template: str, call: str, where: str = "") -> Kernel:
    """Read one declaration of a device function. Raises :class:`ValueError`."""
    equations = []
    for part in filter(None, map(str.strip, where.split(","))):
        left, equals, right = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} is no equation")
        equations.append((left.strip(), right.strip()))
    return Kernel(_parameters(template), _parameters(call), tuple(equations))


def _parameters(text: str) -> tuple[Parameter, ...]:
    words = (word.partition("=") for word in text.split())
    return tuple(Parameter(name, spec) for name, _, spec in words)
