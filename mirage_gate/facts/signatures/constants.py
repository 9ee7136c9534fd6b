"""What each variant was compiled for, against what its tasks carry.

A variant is one call of a device function. Its template arguments and arguments are held to the
operator's slots, axis by axis, as the table of functions says. Tasks differ in few ways here: what
counts is the shape of each slot's tile, not where it begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.cuda import SENTINEL, Body, Branch, Call, Expression, SlotName
from mirage_gate.facts.signatures.kernels import KERNELS
from mirage_gate.facts.signatures.notation import (
    RANKS,
    Kernel,
    Operand,
    Parameter,
    Signature,
    kernel,
)

if TYPE_CHECKING:
    from mirage_gate.artifacts.graph import Tensor
    from mirage_gate.facts import RankFacts
    from mirage_gate.facts.wiring import Group
    from mirage_gate.findings import Location

ELEMENTS = {
    "bfloat16": 941,
    "bfloat16_t": 941,
    "nv_bfloat16": 941,
    "__nv_bfloat16": 941,
    "half": 940,
    "half_t": 940,
    "__half": 940,
    "float": 950,
    "double": 960,
    "float_e4m3_t": 930,
    "__nv_fp8_e4m3": 930,
}
"""Data type codes by the names of C++ element types. Integers are cast freely, and left out."""


class Mismatch(msgspec.Struct, frozen=True):
    """A parameter of a variant that is not what its tasks' slots say.

    ``what`` is ``constant`` (a number or a type), ``off`` (a feature is compiled out and its slot
    holds a tensor), ``on`` (compiled in, and the slot holds none) or ``crossed`` (a parameter is
    given another slot). ``compiled`` and ``carried`` say both sides; ``groups`` are those that
    differ, ``operand`` is the slot to look at in them, ``field`` what of it.
    """

    what: str
    branch: Branch
    function: str
    parameter: str
    compiled: str
    carried: str
    location: Location
    groups: tuple[Group, ...]
    operand: Operand | None = None
    field: str = "dims"


class _Given(msgspec.Struct, frozen=True):
    """One shape of slots: the signature, its operands' tiles (None: no tensor), who has it."""

    signature: Signature
    tiles: dict[Operand, Tensor | None]
    groups: tuple[Group, ...]

    def axis(self, name: str, unit: str) -> tuple[int, Operand] | None:
        """Give an axis' extent in the tiles, and the slot that says so."""
        for operand, tile in self.tiles.items():
            if tile is None:
                continue
            for axis, length in zip(operand.axes, tile.dims, strict=False):
                if (axis.name, axis.unit) == (name, unit) and not length % axis.factor:
                    return length // axis.factor, operand
        return None

    def stride(self, slot: str, name: str) -> tuple[int, Operand] | None:
        """Give a slot's stride along an axis; None where it is never taken."""
        operand = self.signature.named(slot)
        tile = self.tiles.get(operand) if operand else None
        if operand is None or tile is None:
            return None
        for axis, length, stride in zip(operand.axes, tile.dims, tile.strides, strict=False):
            if axis.name == name:
                return (stride, operand) if length > 1 else None
        return None


class Constants:
    """The mismatches of a rank, and what was not looked at."""

    def __init__(self, facts: RankFacts) -> None:
        self._facts = facts

    @cached_property
    def unchecked(self) -> tuple[str, ...]:
        """What nothing is compared with: types, functions, and parameters of the known ones."""
        facts = self._facts
        found: dict[str, None] = {}
        for task_type, variant in sorted(facts.wiring.kernels):
            branch = facts.wiring.branch(task_type, variant)
            if branch is None or branch.body is None:
                continue
            call, way = self.known(branch.body)
            if not facts.signatures.readings(task_type):
                found[f"slots of {branch.type_name}"] = None
            elif call is None:
                found[f"call of {branch.type_name}"] = None
            elif way is None:
                found[f"{call.function} as it is declared here"] = None
            elif way.unchecked:
                found[f"{call.function}: {', '.join(way.unchecked)}"] = None
        return tuple(found)

    @cached_property
    def mismatches(self) -> list[Mismatch]:
        """Everything that a variant was compiled for and its tasks do not carry."""
        return list(self._mismatches())

    def _mismatches(self) -> Iterator[Mismatch]:
        for (task_type, variant), groups in sorted(self._facts.wiring.kernels.items()):
            branch = self._facts.wiring.branch(task_type, variant)
            if branch is None or branch.body is None:
                continue
            call, ways = self.call(branch.body)
            if call is None:
                continue
            way = _way(call, ways)
            if way is None:
                continue
            for given in self._given(groups):
                yield from _Compared(self._facts, branch, branch.body, call, way, given).all()

    def known(self, body: Body) -> tuple[Call | None, Kernel | None]:
        """Give the call of a known device function in a body, and how it is declared."""
        call, ways = self.call(body)
        return call, _way(call, ways) if call is not None else None

    def call(self, body: Body) -> tuple[Call | None, tuple[Kernel, ...]]:
        """Give the call of a known device function in a body, and the ways to declare it."""
        own = self._facts.options.kernels
        for call in body.calls:
            if call.function in own:
                return call, (own[call.function],)
            if call.function in KERNELS:
                return call, tuple(kernel(*way) for way in KERNELS[call.function])
        return None, ()

    def _given(self, groups: list[Group]) -> Iterator[_Given]:
        """Put together the groups whose slots are of one shape."""
        shapes = self._shapes
        alike: dict[tuple[object, ...], list[Group]] = {}
        for group in groups:
            key = tuple([shapes[n] for n in group.inputs + group.outputs])
            alike.setdefault((len(group.inputs), key), []).append(group)
        signatures, tensors = self._facts.signatures, self._facts.graph.tensors
        for members in alike.values():
            first = members[0]
            signature = signatures.of(first)
            if signature is None:
                continue
            numbers = first.inputs + first.outputs
            tiles: dict[Operand, Tensor | None] = {}
            for operand, number in zip(signature.operands, numbers, strict=True):
                tile = tensors[number]
                tiles[operand] = None if tile.base_ptr == SENTINEL else tile
            if not any(tile is not None and 0 in tile.dims for tile in tiles.values()):
                yield _Given(signature, tiles, tuple(members))

    @cached_property
    def _shapes(self) -> list[int]:
        """Number the shapes of the graph's references."""
        known: dict[object, int] = {}
        return [
            known.setdefault((t.base_ptr == SENTINEL, t.data_type, t.dims, t.strides), len(known))
            for t in self._facts.graph.tensors
        ]


def _way(call: Call, ways: tuple[Kernel, ...]) -> Kernel | None:
    """Choose the declaration that has as many parameters as the call gives."""
    for way in ways:
        if (len(way.template), len(way.call)) == (len(call.template), len(call.arguments)):
            return way
    return None


class _Compared:
    """One call beside one shape of slots."""

    def __init__(
        self,
        facts: RankFacts,
        branch: Branch,
        body: Body,
        call: Call,
        way: Kernel,
        given: _Given,
    ) -> None:
        self.facts = facts
        self.branch = branch
        self.body = body
        self.call = call
        self.way = way
        self.given = given

    def all(self) -> Iterator[Mismatch]:
        for parameter, argument in zip(self.way.template, self.call.template, strict=True):
            yield from self._template(parameter, argument)
        for parameter, argument in zip(self.way.call, self.call.arguments, strict=True):
            yield from self._argument(parameter, argument)
        yield from self._where()

    def _mismatch(
        self,
        what: str,
        parameter: str,
        part: Expression,
        compiled: str,
        carried: str,
        operand: Operand | None = None,
        field: str = "dims",
        at: Location | None = None,
    ) -> Mismatch:
        groups = self.given.groups
        return Mismatch(
            what,
            self.branch,
            self.call.function,
            parameter,
            compiled,
            carried,
            at or self.body.location(part),
            groups,
            operand,
            field,
        )

    def _template(self, parameter: Parameter, argument: Expression) -> Iterator[Mismatch]:
        spec = parameter.spec
        if not spec or spec[0] in "@%":
            return
        if spec.startswith("T:"):
            yield from self._types(parameter, argument, spec[2:].split(","))
        elif spec[0] in "?!":
            yield from self._flag(parameter, argument)
        else:
            yield from self._number(parameter.name, spec, argument)

    def _number(self, name: str, spec: str, argument: Expression) -> Iterator[Mismatch]:
        value = argument.value
        if not isinstance(value, int) or isinstance(value, bool):
            return
        found = self._value(spec)
        if found is None or found[0] == value:
            return
        expected, operand = found
        field = (
            "strides" if "." in spec and self.given.signature.named(spec.split(".")[0]) else "dims"
        )
        yield self._mismatch("constant", name, argument, str(value), str(expected), operand, field)

    def _value(self, spec: str) -> tuple[int, Operand | None] | None:
        """Give what a number is to be, and the slot that says so."""
        if spec == RANKS:
            world = self.facts.cuda.world_size
            return (world, None) if world else None
        if spec == "rank":
            return self.facts.rank, None
        if spec.startswith("rows:"):
            operand = self.given.signature.named(spec[5:])
            tile = self.given.tiles.get(operand) if operand else None
            if tile is None:
                return None
            rows = 1
            for length in tile.dims[:-1]:
                rows *= length
            return rows, operand
        first, _, second = spec.partition(".")
        if second and self.given.signature.named(first):
            return self.given.stride(first, second)
        return self.given.axis(first, second)

    def _types(
        self, parameter: Parameter, argument: Expression, slots: list[str]
    ) -> Iterator[Mismatch]:
        code = ELEMENTS.get(argument.text.rpartition(":")[2].strip())
        if code is None:
            return
        for name in slots:
            operand = self.given.signature.named(name)
            tile = self.given.tiles.get(operand) if operand else None
            if operand is not None and tile is not None and self._used(operand):
                yield from self._type(parameter.name, argument, code, operand, tile)

    def _type(
        self, name: str, argument: Expression, code: int, operand: Operand, tile: Tensor
    ) -> Iterator[Mismatch]:
        from mirage_gate.facts.regions import type_name

        if tile.data_type != code and tile.data_type in _COMPARED:
            yield self._mismatch(
                "constant",
                name,
                argument,
                type_name(code),
                type_name(tile.data_type),
                operand,
                "data_type",
            )

    def _used(self, operand: Operand) -> bool:
        return self.facts.signatures.used(self.given.groups[0], operand)

    def _flag(self, parameter: Parameter, argument: Expression) -> Iterator[Mismatch]:
        value = argument.value
        if not isinstance(value, bool):
            return
        on = value if parameter.spec[0] == "?" else not value
        operands = [self.given.signature.named(name) for name in parameter.spec[1:].split(",")]
        held = [o for o in operands if o is not None and self.given.tiles.get(o) is not None]
        compiled = "true" if value else "false"
        if not on and held:
            yield self._mismatch(
                "off", parameter.name, argument, compiled, held[0].side, held[0], "base_ptr"
            )
        elif on and len(held) < len(operands):
            lacking = next((o for o in operands if o is not None and o not in held), None)
            side = lacking.side if lacking else "no slot"
            yield self._mismatch(
                "on", parameter.name, argument, compiled, side, lacking, "base_ptr"
            )

    def _argument(self, parameter: Parameter, argument: Expression) -> Iterator[Mismatch]:
        spec = parameter.spec
        if not spec or spec[0] in "@%":
            return
        if spec[0] in "?!":
            yield from self._flag(parameter, argument)
            return
        if spec[0] == "=":
            yield from self._number(parameter.name, spec[1:], argument)
            return
        given = argument.slot
        fitting = self._fitting(spec)
        wanted = fitting[0] if fitting else None
        if given is not None and fitting:
            at = (given.is_input, given.index)
            wanted = next((o for o in fitting if (o.is_input, o.index) == at), wanted)
        crossed = self._crossed(spec, wanted, argument)
        if crossed:
            yield self._mismatch("crossed", parameter.name, argument, *crossed, wanted, "base_ptr")
        elif wanted is not None and argument.slot is not None:
            yield from self._shape(parameter, argument, wanted)

    def _fitting(self, spec: str) -> list[Operand]:
        """Give the slots that a parameter is for: one, or one of two."""
        named = [self.given.signature.named(name) for name in spec.rstrip("?").split("/")]
        return [operand for operand in named if operand is not None]

    def _crossed(
        self, spec: str, wanted: Operand | None, argument: Expression
    ) -> tuple[str, str] | None:
        """Give (what it is given, what it is for) where these differ."""
        if len(argument.slots) > 1 or not argument.certain:
            return None
        given = argument.slot
        if given is None:
            nothing = argument.null or (argument.value is not None)
            if wanted is None or spec.endswith("?") or not nothing:
                return None
            return "no slot", wanted.side
        if wanted is not None and (given.is_input, given.index) == (wanted.is_input, wanted.index):
            return None
        if wanted is None and spec != "-" and not spec.endswith("?"):
            return None  # the operator has no such slot: the function is not the one of the table
        return str(SlotName(given.is_input, given.index)), wanted.side if wanted else "no slot"

    def _shape(
        self, parameter: Parameter, argument: Expression, operand: Operand
    ) -> Iterator[Mismatch]:
        """Compare the extents and strides that a descriptor or a layout was compiled with."""
        tile = self.given.tiles.get(operand)
        if tile is None:
            return
        if (code := ELEMENTS.get(argument.element)) is not None:
            yield from self._type(parameter.name, argument, code, operand, tile)
        if argument.tma is not None and argument.tma.name == "tma_2d" and len(tile.dims) == 2:
            numbers = [a.value for a in argument.tma.arguments]
            if len(numbers) < 10:
                return
            rows, columns = tile.dims
            pairs = [
                ("GMEM_ROW", numbers[4], rows, "dims"),
                ("GMEM_COL", numbers[5], columns, "dims"),
            ]
            if rows > 1:
                pairs.append(("GMEM_STRIDE_ROW", numbers[8], tile.strides[0], "strides"))
            if columns > 1:
                pairs.append(("GMEM_STRIDE_COL", numbers[9], tile.strides[1], "strides"))
            at = self.body.location(argument.tma)
            for name, compiled, carried, field in pairs:
                if isinstance(compiled, int) and compiled != carried:
                    yield self._mismatch(
                        "constant",
                        f"{name} of {parameter.name}",
                        argument,
                        str(compiled),
                        str(carried),
                        operand,
                        field,
                        at,
                    )
        layout = argument.layout
        if layout is None or len(layout.shape) != len(tile.dims) or len(tile.dims) < 2:
            return
        compiled_pairs = _pairs(layout.shape, layout.strides)
        carried_pairs = _pairs(tile.dims, tile.strides)
        if None in layout.shape or None in layout.strides or compiled_pairs == carried_pairs:
            return
        extents = [n for n, _ in compiled_pairs] != [n for n, _ in carried_pairs]
        yield self._mismatch(
            "constant",
            f"the layout of {parameter.name}",
            argument,
            _text(compiled_pairs),
            _text(carried_pairs),
            operand,
            "dims" if extents else "strides",
            self.body.location(layout),
        )

    def _where(self) -> Iterator[Mismatch]:
        named = {
            parameter.name: argument
            for parameter, argument in zip(self.way.template, self.call.template, strict=True)
        }
        for left, right in self.way.where:
            one, other = self._sum(left, named), self._sum(right, named)
            if one is None or other is None or one[0] == other[0]:
                continue
            first = next(name for name in re.findall(r"[A-Za-z_]\w*", left) if name in named)
            yield self._mismatch(
                "constant", left, named[first], str(one[0]), str(other[0]), other[1]
            )

    def _sum(self, text: str, named: dict[str, Expression]) -> tuple[int, Operand | None] | None:
        total = 0
        operand: Operand | None = None
        for product in text.split("+"):
            value = 1
            for factor in product.split("*"):
                if factor.isdecimal():
                    value *= int(factor)
                elif factor in named:
                    number = named[factor].value
                    if not isinstance(number, int) or isinstance(number, bool):
                        return None
                    value *= number
                else:
                    found = self._value(factor)
                    if found is None:
                        return None
                    value, operand = value * found[0], found[1]
            total += value
        return total, operand


_COMPARED = frozenset({*ELEMENTS.values(), 935, 936, 945, 946, 955, 956, 965, 966})
"""Types narrower than a byte are packed, by kernels that unpack them: nothing is said of those."""


def _pairs(shape: tuple[int | None, ...], strides: tuple[int | None, ...]) -> list[tuple[int, int]]:
    """Give extents and strides, those of one element left out, in the order of memory."""
    pairs = zip(shape, strides, strict=False)
    return sorted(
        ((n or 0, stride or 0) for n, stride in pairs if n != 1),
        key=lambda pair: (-pair[0], pair[1]),
    )


def _text(pairs: list[tuple[int, int]]) -> str:
    return " x ".join(f"{n} by {stride}" for n, stride in pairs)
