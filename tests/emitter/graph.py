"""Tensors, operators and the task graph they become.

An operator runs one block per cell of a three-axis grid; a slot says which dimension of its tensor
each axis cuts. From two neighbouring operators that share a tensor follow their events, the way
MPK's generator derives them: along every dimension of the shared tensor, as many events as the
greatest common divisor of the two partitions, so that 64 column tiles feeding 8 heads make 8
events of 8 triggers, and row tiles feeding column tiles make one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product, repeat
from math import gcd, prod
from typing import Any, Literal, NamedTuple

import msgspec

from .bodies import Compiled, Tile, statement
from .tasks import KINDS, TaskKind

__all__ = [
    "BF16",
    "FLOAT32",
    "FP8",
    "INT32",
    "INT64",
    "INVALID_EVENT",
    "METADATA",
    "NVSHMEM_TAG",
    "UINT32",
    "Copy",
    "Fused",
    "Op",
    "Program",
    "Slot",
    "TaskGraph",
    "Tensor",
    "dump",
]

FP8, BF16, FLOAT32, INT32, UINT32, INT64 = 930, 941, 950, 955, 956, 965
UNKNOWN_TYPE = 999
ELEMENT_BYTES = {FP8: 1, BF16: 2, FLOAT32: 4, INT32: 4, UINT32: 4, INT64: 8}

INVALID_EVENT = 0x7FFF_FFFF_FFFF_FFFE
NVSHMEM_TAG = 0x1E00
METADATA = ("expert_offset", "kv_idx", "merge_task_offset", "request_id", "task_offset")

Storage = Literal["host", "shuffled", "scratch", "symmetric"]
Axes = tuple[int, int, int]
Ints = tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """One `cudaMemcpy2DAsync`: `height` pieces of `width` bytes of the source `name`."""

    name: str
    offset: int
    pitch: int
    width: int
    height: int


@dataclass(frozen=True)
class Tensor:
    """A tensor that the `.cu` declares; `strides` are row-major unless given."""

    name: str
    shape: Ints
    dtype: int = BF16
    storage: Storage = "host"
    strides: Ints = ()
    copies: tuple[Copy, ...] = ()

    def __post_init__(self) -> None:
        if not self.strides:
            row_major = tuple(prod(self.shape[d + 1 :]) for d in range(len(self.shape)))
            object.__setattr__(self, "strides", row_major)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]

    @property
    def whole(self) -> Slot:
        """Every block sees all of it."""
        return Slot(self)

    def cut(self, x: int = -1, y: int = -1, z: int = -1) -> Slot:
        """Each grid axis cuts the given dimension; -1: the axis does not cut it."""
        return Slot(self, (x, y, z))


@dataclass(frozen=True)
class Slot:
    """An input or output of an operator; without a tensor it is the None input."""

    tensor: Tensor | None
    axes: Axes = (-1, -1, -1)
    offset: int = 0

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return () if self.tensor is None else (self.tensor,)

    def dims(self, grid: Axes) -> Ints:
        """The shape of one block's tile."""
        if self.tensor is None:
            return ()
        dims = list(self.tensor.shape)
        for dim, blocks in zip(self.axes, grid, strict=True):
            if dim >= 0:
                if dims[dim] % blocks:
                    raise ValueError(f"{self.tensor.name}: {dims[dim]} does not cut into {blocks}")
                dims[dim] //= blocks
        return tuple(dims)

    def places(self, grid: Axes) -> list[tuple[str, int]]:
        """Name and byte offset of every block's tile, blocks in the order x, y, z."""
        if self.tensor is None:
            return [("nullptr", 0)] * prod(grid)
        dims, size = self.dims(grid), ELEMENT_BYTES[self.tensor.dtype]
        steps = [self.tensor.strides[d] * dims[d] * size if d >= 0 else 0 for d in self.axes]
        xs, ys, zs = ([step * i for i in range(n)] for step, n in zip(steps, grid, strict=True))
        name, base = self.tensor.name, self.offset
        return [(name, base + x + y + z) for x in xs for y in ys for z in zs]


@dataclass(frozen=True)
class Fused:
    """A weight that exists only as its parts: blocks take turns, `count` of each part per turn.

    q, k and v of a head group: `Fused(((q, 4), (k, 1), (v, 1)))`; gate then up, one turn only:
    `Fused(((gate, 48), (up, 48)))`. Tiles are rows; all parts must give tiles of one shape.
    """

    parts: tuple[tuple[Tensor, int], ...]
    axes: Axes = (0, -1, -1)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor, _ in self.parts)

    @property
    def tensor(self) -> Tensor:
        return self.parts[0][0]

    def _turns(self, grid: Axes) -> int:
        return grid[0] // sum(count for _, count in self.parts)

    def dims(self, grid: Axes) -> Ints:
        turns = self._turns(grid)
        shapes = {(t.shape[0] // (turns * count), *t.shape[1:]) for t, count in self.parts}
        if len(shapes) != 1:
            raise ValueError(f"parts of {self.tensor.name} cut into unequal tiles: {shapes}")
        return shapes.pop()

    def places(self, grid: Axes) -> list[tuple[str, int]]:
        tile = prod(self.dims(grid)) * ELEMENT_BYTES[self.tensor.dtype]
        return [
            (tensor.name, (turn * count + i) * tile)
            for turn in range(self._turns(grid))
            for tensor, count in self.parts
            for i in range(count)
        ]


AnySlot = Slot | Fused


def _request(x: int, y: int, z: int) -> tuple[int, int, int]:
    """What most tasks carry: the block's x, and the rest of the union left at all ones."""
    return x, 0xFFFF, -1


@dataclass(frozen=True)
class Op:
    """One operator: its kind and variant, its grid, its slots.

    `metadata` maps a block to (request_id, kv_idx, merge_task_offset), the three halves of the
    8-byte union. `fanout` tasks per block, one for each other rank (NVSHMEM puts).
    """

    kind: TaskKind
    grid: Axes
    inputs: tuple[AnySlot, ...]
    outputs: tuple[AnySlot, ...]
    variant: int
    body: str
    metadata: Any = _request
    fanout: int = 1

    @property
    def blocks(self) -> int:
        return prod(self.grid)

    @property
    def slots(self) -> tuple[AnySlot, ...]:
        return self.inputs + self.outputs


@dataclass
class Program:
    """What a builder script declared and laid out, in order. `rank` is one of `ranks`."""

    rank: int = 0
    ranks: int = 1
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    branches: dict[tuple[TaskKind, int], tuple[str, Compiled]] = field(default_factory=dict)
    _variants: dict[TaskKind, list[Any]] = field(default_factory=dict)

    def host(self, name: str, *shape: int, dtype: int = BF16, strides: Ints = ()) -> Tensor:
        """A torch tensor that the builder attached."""
        return self._declare(Tensor(name, shape, dtype, "host", strides))

    def scratch(self, name: str, *shape: int, dtype: int = BF16, strides: Ints = ()) -> Tensor:
        """A buffer that only tasks fill."""
        return self._declare(Tensor(name, shape, dtype, "scratch", strides))

    def symmetric(self, name: str, *shape: int) -> Tensor:
        """A buffer that other ranks reach; plain scratch when there are none."""
        return self._declare(
            Tensor(name, shape, BF16, "symmetric" if self.ranks > 1 else "scratch")
        )

    def shuffled(
        self, name: str, turns: int, parts: Sequence[tuple[str, int]], width: int
    ) -> Tensor:
        """Rows of several host tensors, `turns` pieces of each in turn; parts are (name, rows)."""
        rows = sum(count for _, count in parts)
        row_bytes = width * ELEMENT_BYTES[BF16]
        copies, at = [], 0
        for source, count in parts:
            piece = count * row_bytes // turns
            copies.append(Copy(source, at, rows * row_bytes // turns, piece, turns))
            at += piece
        tensor = Tensor(name, (rows, width), BF16, "shuffled", copies=tuple(copies))
        return self._declare(tensor)

    def shared(self, name: str, *shape: int, dtype: int) -> Tensor:
        """A scratch buffer declared by the first operator that needs it."""
        return self.tensors.get(name) or self.scratch(name, *shape, dtype=dtype)

    def _declare(self, tensor: Tensor) -> Tensor:
        if tensor.name in self.tensors:
            raise ValueError(f"{tensor.name} is declared twice")
        self.tensors[tensor.name] = tensor
        return tensor

    def run(
        self,
        name: str,
        grid: Iterable[int],
        inputs: Sequence[AnySlot],
        outputs: Sequence[AnySlot] = (),
        *,
        body: str = "",
        metadata: Any = _request,
        fanout: int = 1,
    ) -> None:
        """Append an operator; a shape of tiles not seen before makes a new variant of its kind."""
        kind = KINDS[name]
        x, y, z = (*grid, 1, 1)[:3]
        cells = (x, y, z)
        body = body or kind.body
        strides = [s.tensor.strides for s in outputs if s.tensor is not None]
        compiled = (
            [slot.dims(cells) for slot in (*inputs, *outputs)],
            [slot.tensor.dtype if slot.tensor else 0 for slot in (*inputs, *outputs)],
            strides if kind.by_strides else [],
            body,
        )
        generated = self._compiled(cells, inputs, outputs)
        written = list(statement(name, generated, body.split())) if kind.by_strides else []
        known = self._variants.setdefault(kind, [])
        if (compiled, written) not in known:
            known.append((compiled, written))
        variant = known.index((compiled, written))
        self.branches.setdefault((kind, variant), (body, generated))
        op = Op(kind, cells, tuple(inputs), tuple(outputs), variant, body, metadata, fanout)
        self.ops.append(op)

    def _compiled(
        self, cells: Axes, inputs: Sequence[AnySlot], outputs: Sequence[AnySlot]
    ) -> Compiled:
        """What the call in the body is generated from."""

        def tile(slot: AnySlot) -> Tile | None:
            return None if slot.tensor is None else Tile(slot.dims(cells), slot.tensor.strides)

        sides = tuple(map(tile, inputs)), tuple(map(tile, outputs))
        return Compiled(*sides, self.rank, self.ranks, cells)


def _event_axes(producer: Op, consumer: Op) -> tuple[Axes, Axes]:
    """How the two operators cut the tensor they share; the last one that they share decides."""
    axes: tuple[Axes, Axes] = ((-1, -1, -1), (-1, -1, -1))
    for slot in consumer.inputs:
        for output in producer.outputs:
            if output.tensor is not None and output.tensor in slot.tensors:
                axes = (output.axes, slot.axes)
    return axes


def _partition(axes: Axes, grid: Axes) -> list[int]:
    parts = [1, 1, 1, 1]
    for dim, blocks in zip(axes, grid, strict=True):
        if dim >= 0:
            parts[dim] = blocks
    return parts


def _blocks(axes: Axes, grid: Axes, dims: Sequence[int], cell: Sequence[int]) -> Iterator[int]:
    """The blocks of `grid` that belong to one event, in the order x, y, z."""
    spans = []
    for dim, blocks in zip(axes, grid, strict=True):
        share = blocks // dims[dim] if dim >= 0 else blocks
        first = cell[dim] * share if dim >= 0 else 0
        spans.append(range(first, first + share))
    _, ny, nz = grid
    return (x * ny * nz + y * nz + z for x in spans[0] for y in spans[1] for z in spans[2])


@dataclass
class _Placed:
    """An operator in the graph: its blocks in launch order, each with the event it waits for."""

    op: Op
    order: list[int]
    dependent: list[int]
    triggers: list[list[int]]


@dataclass(frozen=True)
class TaskGraph:
    """The graph of one rank: events, first tasks, and the tasks, made one operator at a time."""

    events: list[dict[str, int]]
    first_tasks: list[int]
    placed: list[_Placed]
    rank: int
    metadata: tuple[str, ...] = METADATA

    @classmethod
    def of(cls, program: Program, metadata: tuple[str, ...] = METADATA) -> TaskGraph:
        rank, ranks = program.rank, program.ranks
        others = [r for r in range(ranks) if r != rank]
        events = [_event(911, 1, 0, 0), _event(903, 1, 2, 2)]
        placed: list[_Placed] = []
        at = 2
        for op in program.ops:
            here = _Placed(op, [], [], [[INVALID_EVENT] * op.fanout for _ in range(op.blocks)])
            if not placed:
                here.order = list(range(op.blocks))
                here.dependent = [INVALID_EVENT] * op.blocks
            else:
                before = placed[-1]
                made, used = _event_axes(before.op, op)
                sizes = (_partition(made, before.op.grid), _partition(used, op.grid))
                dims = [gcd(a, b) for a, b in zip(*sizes, strict=True)]
                remote = before.op.fanout > 1
                tag = NVSHMEM_TAG << 48 if remote else 0
                for cell in product(*map(range, dims)):
                    position = len(events)
                    mine = tag | rank << 32 | position
                    triggers = [tag | r << 32 | position for r in others] if remote else [mine]
                    consumers = list(_blocks(used, op.grid, dims, cell))
                    producers = list(_blocks(made, before.op.grid, dims, cell))
                    for block in producers:
                        before.triggers[block] = triggers
                    first = at + len(here.order) * op.fanout
                    here.order += consumers
                    here.dependent += [mine] * len(consumers)
                    last = at + len(here.order) * op.fanout
                    events.append(_event(900, len(producers) * len(triggers), first, last))
            placed.append(here)
            at += op.blocks * op.fanout
        end = rank << 32 | len(events)
        last_op = placed[-1]
        last_op.triggers = [[end] * last_op.op.fanout for _ in last_op.triggers]
        events.append(_event(910, last_op.op.blocks * last_op.op.fanout, 0, 0))
        events[1]["last_task_id"] = at
        first_tasks = list(range(2, 2 + placed[0].op.blocks))
        return cls(events, first_tasks, placed, rank, metadata)

    @property
    def task_count(self) -> int:
        return self.events[1]["last_task_id"]

    def as_dict(self) -> dict[str, Any]:
        """The whole graph as plain, editable Python."""
        tasks = list(map(self._frame, (0, 1)))
        for placed in self.placed:
            sides = _tiles(placed.op.inputs, placed.op), _tiles(placed.op.outputs, placed.op)
            tasks += [self._task(placed.op, iter(row), *sides) for row in self._rows(placed)]
        return {
            "all_events": [dict(event) for event in self.events],
            "all_tasks": tasks,
            "first_tasks": list(self.first_tasks),
        }

    @cached_property
    def text(self) -> str:
        """The JSON text whole: for small graphs, which many tests ask for."""
        return dump(self.as_dict())

    def chunks(self) -> Iterator[str]:
        """The JSON text in pieces of a few thousand tasks, byte for byte what `dump` gives."""
        events = _indented([dump(event, 4) for event in self.events])
        yield '{\n  "all_events": [\n' + events + '\n  ],\n  "all_tasks": [\n'
        yield _indented([dump(self._frame(i), 4) for i in (0, 1)])
        for placed in self.placed:
            sides = _tiles(placed.op.inputs, placed.op), _tiles(placed.op.outputs, placed.op)
            sample = dump(self._task(placed.op, repeat("%d"), *sides), 4)
            template = ",\n    " + sample.replace('"%d"', "%d")
            texts: list[str] = []
            for row in self._rows(placed):
                texts.append(template % row)
                if len(texts) == 2048:
                    yield "".join(texts)
                    texts.clear()
            yield "".join(texts)
        firsts = ",\n".join(f"    {task}" for task in self.first_tasks)
        yield '\n  ],\n  "first_tasks": [\n' + firsts + "\n  ]\n}"

    def _frame(self, task: int) -> dict[str, Any]:
        """Tasks 0 (terminate) and 1 (begin): no tensors, a union of all ones."""
        return {
            "dependent_event": INVALID_EVENT,
            "inputs": None,
            "outputs": None,
            "task_type": (0, 10)[task],
            "trigger_event": (INVALID_EVENT, self.rank << 32 | 1)[task],
            "variant_id": 0,
            **dict.fromkeys(self.metadata, -1),
        }

    def _rows(self, placed: _Placed) -> Iterator[tuple[Any, ...]]:
        """What differs from task to task, one tuple each, in the order of the JSON's keys."""
        op, order = placed.op, placed.order
        _, ny, nz = op.grid
        unions = []
        for block in order:
            request, kv, merge = op.metadata(block // (ny * nz), block // nz % ny, block % nz)
            low = (kv << 16 | request) - (1 << 32 if kv >= 0x8000 else 0)
            unions.append((low, kv, merge, request, low))
        union = dict(zip(METADATA, zip(*unions, strict=True), strict=True))

        def tiles(slots: Iterable[AnySlot]) -> Iterator[Iterable[Any]]:
            for slot in slots:
                places = slot.places(op.grid)
                if isinstance(slot, Fused):
                    yield [places[block][0] for block in order]
                yield [places[block][1] for block in order]

        def keep(*names: str) -> list[Any]:
            return [union[name] for name in names if name in self.metadata]

        head = [placed.dependent, *keep("expert_offset"), *tiles(op.inputs)]
        middle = [*keep("kv_idx", "merge_task_offset"), *tiles(op.outputs)]
        tail = keep("request_id", "task_offset")
        triggers = [placed.triggers[block] for block in order]
        columns = [*head, *middle, *tail]
        if op.fanout == 1:
            return zip(*columns, [trigger for (trigger,) in triggers], strict=True)
        rows = zip(zip(*columns, strict=True), triggers, strict=True)
        return ((*row, trigger) for row, several in rows for trigger in several)

    def _task(
        self, op: Op, values: Iterator[Any], inputs: list[_Tile], outputs: list[_Tile]
    ) -> dict[str, Any]:
        """A task, its varying values taken from `values` in the order `_rows` has them."""

        def tensors(tiles: list[_Tile]) -> list[dict[str, Any]] | None:
            return [tile.tensor(values) for tile in tiles] or None

        def union(*names: str) -> dict[str, Any]:
            return {name: next(values) for name in names if name in self.metadata}

        return {
            "dependent_event": next(values),
            **union("expert_offset"),
            "inputs": tensors(inputs),
            **union("kv_idx", "merge_task_offset"),
            "outputs": tensors(outputs),
            **union("request_id", "task_offset"),
            "task_type": op.kind.code,
            "trigger_event": next(values),
            "variant_id": op.variant,
        }


class _Tile(NamedTuple):
    """What the tiles of a slot have in common; a part's `name` is not, and left empty."""

    name: str
    dtype: int
    dims: Ints
    strides: Ints

    def tensor(self, values: Iterator[Any]) -> dict[str, Any]:
        """One of them, its name and offset taken from `values`."""
        name = self.name or next(values)
        return {
            # A placeholder for a number here means a name is wanted.
            "base_ptr": "%s" if name == "%d" else name,
            "data_type": self.dtype,
            "dims": list(self.dims),
            "offset": next(values),
            "strides": list(self.strides),
        }


def _tiles(slots: Iterable[AnySlot], op: Op) -> list[_Tile]:
    return [_tile(slot, slot.dims(op.grid)) for slot in slots]


def _tile(slot: AnySlot, dims: Ints) -> _Tile:
    tensor = slot.tensor
    if tensor is None:
        return _Tile("nullptr", UNKNOWN_TYPE, (), ())
    name = "" if isinstance(slot, Fused) else tensor.name
    return _Tile(name, tensor.dtype, dims, tensor.strides)


def _event(kind: int, triggers: int, first: int, last: int) -> dict[str, int]:
    return {
        "event_type": kind,
        "first_task_id": first,
        "last_task_id": last,
        "num_triggers": triggers,
    }


def _indented(texts: Iterable[str]) -> str:
    return ",\n".join("    " + text for text in texts)


def dump(value: Any, indent: int = 0) -> str:
    """As nlohmann's `dump(2)`: sorted keys, one scalar a line, no newline at the end.

    `indent` is the depth, in columns, at which the text will stand.
    """
    text = _dumped(value)
    return text.replace("\n", "\n" + " " * indent) if indent else text


def _dumped(value: Any) -> str:
    """The standard library's text, many times as fast where msgspec writes the same one."""
    try:
        data = msgspec.json.encode(value, order="sorted")
        _WITHOUT_FLOATS.decode(data)
    except (OverflowError, TypeError, ValueError):  # a long integer, half of a surrogate pair
        return json.dumps(value, indent=2, sort_keys=True)
    if not data.isascii() or b"\x7f" in data or b"\\u00" in data:  # escaped otherwise
        return json.dumps(value, indent=2, sort_keys=True)
    return msgspec.json.format(data, indent=2).decode()


def _refuse(text: str) -> float:
    raise ValueError(f"{text}: spelled otherwise")


_WITHOUT_FLOATS = msgspec.json.Decoder(float_hook=_refuse)
