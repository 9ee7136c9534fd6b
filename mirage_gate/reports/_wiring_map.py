"""The wiring map: which layer reads what, as rows of cells in which a hole stands out.

A row is a tensor's role, ``layer_N_q_norm`` for the tensors of all layers; a column is a
layer. A cell is a *hole* if something that should be read there is not, and a *gap* if
only its neighbours suggest so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from mirage_gate.artifacts.cuda import LOADED
from mirage_gate.artifacts.names import layer_in, role_of
from mirage_gate.report import Coverage, LayerUse, RankReport

State = Literal["read", "written", "hole", "gap", "none"]


class Cell(msgspec.Struct, frozen=True):
    """What one layer does with one role. ``layer`` is None outside of the layers."""

    layer: int | None
    state: State
    consumers: int = 0
    producers: int = 0
    nbytes: int = 0
    first_consumer: int = -1
    task_types: tuple[int, ...] = ()
    declared: Coverage | None = None


class Row(msgspec.Struct, frozen=True):
    """One role over all layers."""

    role: str
    kind: str
    critical: bool
    cells: tuple[Cell, ...]
    tensors: tuple[str, ...]

    @property
    def holes(self) -> int:
        return sum(cell.state == "hole" for cell in self.cells)

    @property
    def gaps(self) -> int:
        return sum(cell.state == "gap" for cell in self.cells)


class Map(msgspec.Struct, frozen=True):
    """The rows of one rank, by group, and what no task touches."""

    columns: tuple[int | None, ...]
    groups: tuple[tuple[str, tuple[Row, ...]], ...]
    unused: tuple[Coverage, ...]

    @property
    def holes(self) -> int:
        return sum(row.holes for _, rows in self.groups for row in rows)


def wiring_map(rank: RankReport) -> Map:
    """Draw up one rank's map."""
    coverage = [tensor for tensor in rank.coverage if tensor.kind != "sentinel"]
    used = {use.layer for tensor in coverage for use in _uses(tensor)}
    numbers = {layer for layer in used if layer is not None}
    numbers |= {layer for c in coverage if (layer := layer_in(c.tensor)) is not None}
    outside: list[int | None] = [None] if None in used or not numbers else []
    columns = (*outside, *sorted(numbers))
    roles: dict[tuple[str, bool], list[Coverage]] = {}
    unused: list[Coverage] = []
    for tensor in coverage:
        if not (tensor.input_refs or tensor.output_refs or _must_be_read(tensor)):
            unused.append(tensor)
        else:
            roles.setdefault((role_of(tensor.tensor), tensor.critical), []).append(tensor)
    rows = [_row(role, tensors, columns) for (role, _), tensors in roles.items()]
    groups = (
        ("Critical", [row for row in rows if row.critical]),
        ("Weights, caches, tables", [r for r in rows if not r.critical and r.kind in LOADED]),
        ("Activations", [r for r in rows if not r.critical and r.kind not in LOADED]),
    )
    return Map(columns, tuple((name, tuple(rows)) for name, rows in groups if rows), tuple(unused))


def _uses(tensor: Coverage) -> tuple[LayerUse, ...]:
    """What each layer does with a tensor; a rank's summary tells only of all of them."""
    if tensor.layers or not (tensor.consumers or tensor.producers):
        return tensor.layers
    types = tensor.consumer_task_types
    return (LayerUse(None, tensor.consumers, tensor.producers, 0, -1, types),)


def _must_be_read(tensor: Coverage) -> bool:
    return tensor.critical or tensor.kind in LOADED


def _is_lost(tensor: Coverage) -> bool:
    """Whether nothing at all reads what must be read.

    A slot that carries a tensor and whose kernel ignores it may be meant, unless the tensor
    is critical.
    """
    if tensor.consumers or tensor.producers or not _must_be_read(tensor):
        return False
    return tensor.critical or not tensor.input_refs


def _row(role: str, tensors: Sequence[Coverage], columns: Sequence[int | None]) -> Row:
    first = tensors[0]
    shared = layer_in(first.tensor) is None
    cells = _shared(first, columns) if shared else _layered(tensors, columns)
    return Row(
        role=role,
        kind=first.kind,
        critical=first.critical,
        cells=tuple(_with_gaps(cells)),
        tensors=tuple(tensor.tensor for tensor in tensors),
    )


def _layered(tensors: Iterable[Coverage], columns: Sequence[int | None]) -> list[Cell]:
    """Each layer has a tensor of its own, which counts wherever it is read."""
    of_layer = {layer_in(tensor.tensor): tensor for tensor in tensors}
    cells = []
    for layer in columns:
        tensor = of_layer.get(layer)
        if tensor is None:
            cells.append(Cell(layer, "none"))
            continue
        unread: State = "hole" if _is_lost(tensor) else "none"
        state: State = "read" if tensor.consumers else "written" if tensor.producers else unread
        cells.append(
            Cell(
                layer,
                state,
                tensor.consumers,
                tensor.producers,
                sum(use.nbytes for use in tensor.layers),
                min((u.first_consumer for u in tensor.layers if u.consumers), default=-1),
                tensor.consumer_task_types,
                tensor,
            )
        )
    return cells


def _shared(tensor: Coverage, columns: Sequence[int | None]) -> list[Cell]:
    """All layers share one tensor."""
    uses = {use.layer: use for use in _uses(tensor)}
    layers = [layer for layer in columns if layer is not None]
    unread = [layer for layer in layers if layer not in uses]
    if _is_lost(tensor):
        missing: State = "hole"
    elif tensor.critical and tensor.layers:
        # Where most layers do without it, it may well be meant.
        missing = "hole" if 2 * len(unread) <= len(layers) else "gap"
    else:
        missing = "none"
    return [
        _use(tensor, uses[layer])
        if layer in uses
        else Cell(layer, "none" if layer is None and layers else missing, declared=tensor)
        for layer in columns
    ]


def _use(tensor: Coverage, use: LayerUse) -> Cell:
    return Cell(
        use.layer,
        "read" if use.consumers else "written",
        use.consumers,
        use.producers,
        use.nbytes,
        use.first_consumer,
        use.consumer_task_types,
        tensor,
    )


def _with_gaps(cells: Sequence[Cell]) -> list[Cell]:
    """Mark what is empty between layers that are not, where those are the most."""
    numbered = [n for n, cell in enumerate(cells) if cell.layer is not None]
    filled = [n for n in numbered if cells[n].state != "none"]
    between = range(filled[0], filled[-1]) if filled else range(0)
    empty = {n for n in between if cells[n].state == "none"}
    if 3 * len(empty) > len(between):
        return list(cells)
    return [
        msgspec.structs.replace(cell, state="gap") if n in empty else cell
        for n, cell in enumerate(cells)
    ]
