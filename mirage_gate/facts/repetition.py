"""Layers that are the same, one after the other: where a graph repeats itself, proven.

A model's layers do the same to their own weights. The tasks of a graph are cut where the next
layer's number first appears in a name. Two such *sections* are the same if, task by task,
they agree in type, variant, tiles and metadata, carry the same names but for the layer's number,
and their events differ by one and the same shift; and if the events themselves, and what
the ``.cu`` declares of both layers, agree as well. Where a section begins does not matter: what
repeats does so wherever one starts to look.

Nothing here is an estimate. What does not fit exactly is no repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.names import layer_in, named_in, role_of

if TYPE_CHECKING:
    from mirage_gate.artifacts.cuda import Declaration
    from mirage_gate.artifacts.graph import Graph

KEPT = 2
"""Periods that are kept on either side of those left out: any two neighbours are still met."""

_LONGEST = 8
"""Layers in one period, at most: five local ones and a global one are six."""

_REACH = 2
"""Layers by which the events and tasks that a section names may lie away from it."""

_Span = tuple[int, int]


class _Section(msgspec.Struct, frozen=True, eq=False):
    """The tasks from a layer's first appearance to the next one's.

    Where it begins: the first ``task``, what it has in common with others (``alike``), and the
    ``event`` that it triggers. ``kind`` is the same for sections that are the same; ``low`` and
    ``high`` are how many layers off the farthest names in it are.
    """

    layer: int
    task: int
    alike: int
    event: int
    kind: int
    low: int
    high: int


class Repetition(msgspec.Struct, frozen=True):
    """What may be left out: sections that two periods like them stand before, and two behind.

    Each is from the first left out to the first that is not: ``layers`` by number, ``tasks``,
    ``alike`` and ``events``. ``end`` is where, in ``Graph.alike``, the repetition ends.
    ``period`` counts layers, ``copies`` the periods left out. ``reach`` is how many events away
    a task of the sections on either side may name one.
    """

    layers: _Span
    tasks: _Span
    alike: _Span
    events: _Span
    end: int
    period: int
    copies: int
    reach: int
    task_reach: int

    def times_of_layer(self, layer: int | None) -> int:
        """Give how many layers of the whole a layer of the short graph stands for."""
        return 1 if layer is None else self._times(self.layers, layer)

    def times_of_group(self, number: int) -> int:
        """Give how many entries of ``Graph.alike`` of the whole one of the short stands for."""
        return self._times(self.alike, number)

    def times_of_event(self, event: int) -> int:
        """Give how many events of the whole one of the short graph stands for."""
        return self._times(self.events, event)

    def _times(self, left_out: _Span, at: int) -> int:
        """The last period before those left out stands for them."""
        first, last = left_out
        period = (last - first) // self.copies
        return 1 + self.copies if first - period <= at < first else 1


def repetition_in(graph: Graph, declared: Sequence[Declaration]) -> Repetition | None:
    """Find the longest repetition of a graph, or None if it has none that is worth it."""
    text = _Text(graph, declared)
    sections = text.sections()
    best: tuple[int, int, int] = (0, 0, 0)
    for period in range(1, _LONGEST + 1):
        for start, length in _stretches(sections, period):
            spare = length // period - 2 * KEPT
            if spare > 0:
                best = max(best, (spare * period, -period, start))
    count, period, start = best[0], -best[1], best[2]
    first_at = start + KEPT * period
    last_at = first_at + count
    if not count:
        return None
    first, last = sections[first_at], sections[last_at]
    end = last_at + KEPT * period
    if not _apart(sections, start, end, period, text.named_before):
        return None
    tasks = len(graph.alike_of)
    if last.event - first.event <= 2 * text.reach or last.task - first.task <= 2 * text.task_reach:
        return None  # what is near one side would be near the other
    if 3 * (last.task - first.task) < tasks:
        return None  # not worth it
    return Repetition(
        (first.layer, last.layer),
        (first.task, last.task),
        (first.alike, last.alike),
        (first.event, last.event),
        sections[end].alike if end < len(sections) else len(graph.alike),
        period,
        count // period,
        text.reach,
        text.task_reach,
    )


def _apart(
    sections: Sequence[_Section], start: int, end: int, period: int, named_before: int
) -> bool:
    """Whether a period of a run, two from either end, is named by what repeats, and by no other.

    It stands for those that are left out: whoever names it names them.
    """
    near = (KEPT - 1) * period
    first = sections[start].layer + near
    last = sections[end - 1].layer - near
    return (
        all(-near <= s.low and s.high <= near for s in sections[start:end])
        and all(s.layer + s.high < first for s in sections[:start])
        and all(s.layer + s.low > last for s in sections[end:])
        and named_before < first
    )


def _stretches(sections: Sequence[_Section], period: int) -> Iterator[tuple[int, int]]:
    """Give (where it begins, how long it is) of each run that repeats with a period."""
    start = 0
    for at in range(period, len(sections) + 1):
        if at == len(sections) or not _follows(sections, at, period, start):
            yield start, at - start
            start = at - period + 1


def _follows(sections: Sequence[_Section], at: int, period: int, start: int) -> bool:
    """Whether a section is the one that stands a period before, once more."""
    here, before = sections[at], sections[at - period]
    if here.kind != before.kind or here.layer - before.layer != period:
        return False
    if at < start + 2 * period:
        return True
    earlier = sections[at - 2 * period]
    return here.event - before.event == before.event - earlier.event


@lru_cache(1 << 16)
def layer_of(name: str) -> int | None:
    """Read the layer's number from a name, if the name can be had again from role and number.

    ``layer_03_x`` cannot: with another number it would be another name, written otherwise.
    """
    layer = layer_in(name)
    return layer if layer is not None and named_in(role_of(name), layer) == name else None


class _Text:
    """One graph, cut into sections."""

    def __init__(self, graph: Graph, declared: Sequence[Declaration]) -> None:
        self._graph = graph
        self._declared = declared
        self.reach = self.task_reach = 0
        self.named_before = -1
        """The highest layer that is named before the first section."""
        self._codes: list[int] = []
        self._layer_of: list[int] = []
        self._read_names()

    def _read_names(self) -> None:
        """Number every reference by its tile and its name without the layer's number."""
        names = [tensor.base_ptr for tensor in self._graph.tensors]
        layers = {name: layer_of(name) for name in dict.fromkeys(names)}
        roles: dict[object, int] = {}
        # The name of a layer's own tensor is never that of one for all.
        role_by = {
            name: roles.setdefault(name if layer is None else (role_of(name),), len(roles))
            for name, layer in layers.items()
        }
        tiles = map(attrgetter("offset", "data_type", "dims", "strides"), self._graph.tensors)
        known: dict[object, int] = {}
        number, count = known.setdefault, known.__len__
        keys = zip(map(role_by.__getitem__, names), tiles, strict=True)
        self._codes = [number(key, count()) for key in keys]
        by_name = {name: -1 if layer is None else layer for name, layer in layers.items()}
        self._layer_of = list(map(by_name.__getitem__, names))

    def sections(self) -> list[_Section]:
        """Give the sections, in order; none where the graph is not laid out layer by layer."""
        graph, starts = self._graph, self._starts()
        if len(starts) <= 2 * KEPT + 1:
            return []
        alike = graph.alike
        bounds = [*[at for _, at in starts], len(alike)]
        tasks = [*[alike[at].first for _, at in starts], len(graph.alike_of)]
        events = [alike[at].trigger_event & _POSITION for _, at in starts]
        events.append(len(graph.events))
        if events != sorted(events) or tasks != sorted(tasks):
            return []
        # The last section goes on to the end of the graph, and is no measure.
        self.reach = _REACH * max(b - a for a, b in pairwise(events[:-1]))
        self.task_reach = _REACH * max(b - a for a, b in pairwise(tasks[:-1]))
        operands = [one.inputs + one.outputs for one in alike]
        ends = [0, *accumulate(map(len, operands))]
        flat = list(chain.from_iterable(operands))
        codes = list(map(self._codes.__getitem__, flat))
        layers = list(map(self._layer_of.__getitem__, flat))
        types = [(a.task_type, a.variant_id, len(a.inputs)) for a in alike]
        triggers = [a.trigger_event for a in alike]
        dependents = [a.dependent_event for a in alike]
        self.named_before = max(layers[: ends[bounds[0]]], default=-1)
        declared = self._declarations()
        known: dict[object, int] = {}
        found: list[_Section] = []
        for number, (layer, _) in enumerate(starts):
            a, b = bounds[number], bounds[number + 1]
            low, high = ends[a], ends[b]
            # A number that no layer has stands for names that are no layer's.
            away = [of - layer if of >= 0 else _NO_LAYER for of in layers[low:high]]
            event, reach = events[number], self.reach
            key = (
                tuple(types[a:b]),
                tuple(codes[low:high]),
                tuple(away),
                _near(triggers[a:b], event, reach),
                _near(dependents[a:b], event, reach),
                self._tasks_in(tasks[number], tasks[number + 1], a),
                self._events_in(event, events[number + 1], tasks[number]),
                tuple(declared.get(layer, ())),
            )
            kind = known.setdefault(key, len(known))
            named = set(away) - {_NO_LAYER}
            reached = (min(named, default=0), max(named, default=0))
            found.append(_Section(layer, tasks[number], a, event, kind, *reached))
        return found

    def _starts(self) -> list[tuple[int, int]]:
        """Each layer, and the first entry of ``Graph.alike`` that reads something named by it."""
        layer_of = self._layer_of
        reached = -1
        found = []
        for at, one in enumerate(self._graph.alike):
            for number in one.inputs:
                if layer_of[number] > reached:
                    reached = layer_of[number]
                    found.append((reached, at))
        return found

    def _tasks_in(self, first: int, end: int, alike: int) -> object:
        """What the tasks of a section are, one by one."""
        numbers = [number - alike for number in self._graph.alike_of[first:end]]
        if min(numbers, default=0) < 0:
            return first  # some are what earlier ones are: like no other section
        return tuple(numbers), self._graph.metadata_of[first:end].tobytes()

    def _events_in(self, first: int, end: int, task: int) -> object:
        """What a section's events are, the tasks near it counted from its own first one."""
        reach = self.task_reach
        return tuple(
            [
                (
                    e.event_type,
                    e.num_triggers,
                    *_near((e.first_task_id, e.last_task_id), task, reach),
                )
                for e in self._graph.events[first:end]
            ]
        )

    def _declarations(self) -> dict[int, list[object]]:
        """What is declared of each layer, without its number."""
        found: dict[int, list[object]] = {}
        for one in self._declared:
            layer = layer_of(one.name)
            if layer is not None:
                found.setdefault(layer, []).append(_declaration(one))
        return found


_POSITION = 0xFFFF_FFFF
_NO_LAYER = 1 << 30
_FAR = 1 << 64


def _near(numbers: Iterable[int], first: int, reach: int) -> tuple[int, ...]:
    """Write ids that lie near ``first`` relative to it, and the others as they are.

    The others are moved out of the way: one kind is never taken for the other.
    """
    return tuple(
        [
            number - first if -reach <= (number & _POSITION) - first <= reach else _FAR + number
            for number in numbers
        ]
    )


def _declaration(one: Declaration) -> object:
    """What is said of a tensor, but for its layer's number, where it stands and its address."""
    return (
        role_of(one.name),
        role_of(one.key),
        one.kind,
        one.nbytes,
        one.shift,
        one.null,
        one.storage is None,
        one.allocation is None,
        one.late is None,
        one.unclear,
        one.unmade,
        tuple([undoing.what for undoing in one.undone]),
        tuple(
            [
                (role_of(c.source), c.offset, c.pitch, c.source_pitch, c.width, c.height, c.named)
                for c in one.copies
            ]
        ),
    )
