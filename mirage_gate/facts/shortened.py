"""The same graph with fewer layers: what is true of each of them is asked of a few.

Layers that repeat (:mod:`mirage_gate.facts.repetition`) are left out, all but two periods on
either side, and what follows moves up: tasks, events, and the numbers in names. Between
what is kept and what moved up lies no seam: the last layer before it is the same as the one that
stood there. So whatever a task, an event or a tensor meets in the whole graph, its like meets in
the short one, and a rule that finds nothing here finds nothing there. What it does find has
other numbers; it is looked for again in the whole.

That holds for rules about tasks, events and bytes near each other. One that asks what most
layers have counts each as often as the whole graph has it (:meth:`RankFacts.times_of_layer`).
It does not hold for rules that look for a pattern over all the layers.
"""

from __future__ import annotations

from array import array
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import msgspec

from mirage_gate.artifacts.graph import NO_EVENT, Alike, Event, Graph, Tensor
from mirage_gate.artifacts.names import named_in, role_of
from mirage_gate.facts import RankFacts
from mirage_gate.facts.repetition import Repetition, layer_of, repetition_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from mirage_gate.artifacts.cuda import Declaration

_POSITION = 0xFFFF_FFFF


class _Seam(Exception):
    """Something that is kept names something that is left out."""


class Shortened(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The facts of a graph with layers left out, and which layers those are."""

    facts: RankFacts
    repetition: Repetition

    def like(self, name: str) -> str:
        """Give the name, in the short graph, of a tensor that is used as this one of the whole."""
        layer = layer_of(name)
        first, last = self.repetition.layers
        if layer is None or layer < first:
            return name
        if layer >= last:
            return _renamed(name, last - first)
        period = self.repetition.period
        return named_in(role_of(name), first - period + (layer - first) % period)

    def whole_name(self, name: str) -> str:
        """Give the name, in the whole graph, of a tensor that something kept carries."""
        layer = layer_of(name)
        first, last = self.repetition.layers
        moved = layer is not None and layer >= first
        return _renamed(name, first - last) if moved else name

    def whole_task(self, number: int) -> int:
        """Give the number, in the whole graph, of a task that is kept."""
        first, last = self.repetition.tasks
        return number if number < first else number + last - first

    def whole_layers(self, layer: int) -> range:
        """Give the layers, in the whole graph, that one of the short graph stands for."""
        first, last = self.repetition.layers
        period = self.repetition.period
        if layer >= first:
            layer += last - first
        elif layer >= first - period:
            return range(layer, last, period)
        return range(layer, layer + 1)

    def times(self, name: str) -> list[int]:
        """How often each group stands in the whole graph, for what it does to a tensor.

        The last period before the cut stands for all those left out; to a tensor of a layer
        of its own, that layer does it alone.
        """
        return self._times if layer_of(name) is None else self._once

    @cached_property
    def _once(self) -> list[int]:
        return [1] * len(self.facts.graph.alike)

    @cached_property
    def _times(self) -> list[int]:
        return list(map(self.repetition.times_of_group, range(len(self.facts.graph.alike))))


def shortened(facts: RankFacts) -> Shortened | None:
    """Leave out the layers that are the same as others; None where there are none."""
    repetition = repetition_in(facts.graph, facts.cuda.declarations)
    if repetition is None:
        return None
    try:
        graph = _Shortening(facts.graph, repetition).graph()
    except _Seam:
        return None
    short = RankFacts(
        facts.rank,
        msgspec.structs.replace(
            facts.cuda, declarations=tuple(_declarations(facts.cuda.declarations, repetition))
        ),
        graph,
        facts.graph_path,
        facts.options,
        facts.absent_fields,
    )
    short.task_types = facts.task_types  # the whole text says what the codes mean
    short.shortened = None
    short.repetition = repetition
    return Shortened(short, repetition)


def _declarations(every: tuple[Declaration, ...], repetition: Repetition) -> list[Declaration]:
    first, last = repetition.layers
    kept = []
    for one in every:
        layer = layer_of(one.name)
        if layer is None or layer < first:
            kept.append(one)
        elif layer >= last:
            kept.append(_moved_up(one, last - first))
    return kept


def _moved_up(one: Declaration, layers: int) -> Declaration:
    return msgspec.structs.replace(
        one,
        name=_renamed(one.name, layers),
        key=_renamed(one.key, layers),
        value=_renamed(one.value, layers),
        variable=_renamed(one.variable, layers),
        copies=tuple(
            [msgspec.structs.replace(c, source=_renamed(c.source, layers)) for c in one.copies]
        ),
    )


@lru_cache(1 << 16)
def _renamed(name: str, layers: int) -> str:
    """Take some layers from the number in a name."""
    layer = layer_of(name)
    return name if layer is None else named_in(role_of(name), layer - layers)


class _Shortening:
    """Makes one graph short."""

    def __init__(self, graph: Graph, repetition: Repetition) -> None:
        self._graph = graph
        self._repetition = repetition
        self._numbers: dict[Tensor, int] = {}
        self._tensors: list[Tensor] = []

    def graph(self) -> Graph:
        """Give the short graph. Raises :class:`_Seam`."""
        graph, cut = self._graph, self._repetition
        alike = [
            *self._alike(0, cut.alike[0], self._head_name, self._head_event, 0),
            *self._alike(
                cut.alike[1],
                cut.end,
                self._moved_name,
                self._tail_event,
                cut.tasks[1] - cut.tasks[0],
            ),
            *self._alike(
                cut.end,
                len(graph.alike),
                self._tail_name,
                self._tail_event,
                cut.tasks[1] - cut.tasks[0],
            ),
        ]
        less = cut.alike[1] - cut.alike[0]
        alike_of = graph.alike_of[: cut.tasks[0]]
        if max(alike_of, default=0) >= cut.alike[0]:
            raise _Seam
        tail = graph.alike_of[cut.tasks[1] :]
        if min(tail, default=cut.alike[1]) < cut.alike[1]:
            raise _Seam
        alike_of.extend([number - less for number in tail])
        metadata_of = array(graph.metadata_of.typecode)
        metadata_of.extend(graph.metadata_of[: cut.tasks[0]])
        metadata_of.extend(graph.metadata_of[cut.tasks[1] :])
        return Graph(
            self._events(),
            [self._task(number) for number in graph.first_tasks],
            self._tensors,
            alike,
            alike_of,
            graph.metadata,
            metadata_of,
        )

    def _alike(
        self,
        start: int,
        end: int,
        name: Callable[[int, str], str],
        event: Callable[[int], int],
        tasks: int,
    ) -> list[Alike]:
        known: dict[int, int] = {}
        tensors = self._graph.tensors

        def number(old: int) -> int:
            new = known.get(old)
            if new is None:
                tensor = tensors[old]
                layer = layer_of(tensor.base_ptr)
                if layer is not None:
                    renamed = name(layer, tensor.base_ptr)
                    if renamed is not tensor.base_ptr:
                        tensor = msgspec.structs.replace(tensor, base_ptr=renamed)
                new = self._numbers.setdefault(tensor, len(self._tensors))
                if new == len(self._tensors):
                    self._tensors.append(tensor)
                known[old] = new
            return new

        return [
            Alike(
                one.task_type,
                one.variant_id,
                tuple([number(old) for old in one.inputs]),
                tuple([number(old) for old in one.outputs]),
                event(one.trigger_event),
                event(one.dependent_event),
                one.first - tasks,
            )
            for one in self._graph.alike[start:end]
        ]

    # What is kept before the layers left out, and what moves up from behind them.

    def _head_name(self, layer: int, name: str) -> str:
        first, last = self._repetition.layers
        if layer < first:
            return name
        if layer < last:
            raise _Seam
        return _renamed(name, last - first)

    def _moved_name(self, layer: int, name: str) -> str:  # noqa: ARG002 - as its two siblings
        first, last = self._repetition.layers
        return _renamed(name, last - first)

    _tail_name = _head_name

    def _head_event(self, event_id: int) -> int:
        first, last = self._repetition.events
        return self._moved(event_id, first + self._repetition.reach, last)

    def _tail_event(self, event_id: int) -> int:
        first, last = self._repetition.events
        return self._moved(event_id, first, last - self._repetition.reach)

    def _moved(self, event_id: int, stays: int, moves: int) -> int:
        """Move an event's id up from ``moves`` on, and leave it below ``stays``."""
        if event_id == NO_EVENT or event_id & _POSITION < stays:
            return event_id
        if event_id & _POSITION < moves:
            raise _Seam
        first, last = self._repetition.events
        return event_id - (last - first)

    def _task(self, number: int, stays: int = 0, moves: int = 0) -> int:
        first, last = self._repetition.tasks
        if number < first + stays:
            return number
        if number < last - moves:
            raise _Seam
        return number - (last - first)

    def _events(self) -> list[Event]:
        """The events that are kept, with the tasks that wait for them where those are now."""
        events, cut = self._graph.events, self._repetition
        reach = cut.task_reach
        return [
            *[self._event(event, reach, 0) for event in events[: cut.events[0]]],
            *[self._event(event, 0, reach) for event in events[cut.events[1] :]],
        ]

    def _event(self, event: Event, stays: int, moves: int) -> Event:
        return Event(
            event.event_type,
            event.num_triggers,
            self._task(event.first_task_id, stays, moves),
            self._task(event.last_task_id, stays, moves),
        )
